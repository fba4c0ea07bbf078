"""What structured search leaves out is never better than what it keeps."""

import numpy as np
import pytest
from support.randomness import fresh_rng

from tilewright.tuner.mapping.architecture import load_architecture
from tilewright.tuner.mapping.cost import Objective
from tilewright.tuner.mapping.methods import plain_form
from tilewright.tuner.mapping.nest import LoopNest, NestKind
from tilewright.tuner.mapping.space import INNER, OUTER, MappingSpace

FLEXIBLE = load_architecture("flexible-256")
NESTS = (
    LoopNest(name="conv", sizes=(24, 12, 14, 7, 3, 3), stride_y=2),
    LoopNest(name="depthwise", kind=NestKind.DEPTHWISE, sizes=(2, 48, 14, 14, 3, 3)),
    LoopNest(name="dense", sizes=(64, 96, 1, 1, 1, 1)),
)


@pytest.mark.parametrize("nest", NESTS, ids=lambda nest: nest.name)
def test_one_of_the_order_classes_is_at_least_as_good_as_any_order(nest):
    space = MappingSpace(nest, FLEXIBLE)
    batch = space.decode_batch(space.sample_batch(fresh_rng(), 3000))
    costs = space.model.costs(batch)
    for objective in (Objective.LATENCY, Objective.ENERGY, Objective.EDP):
        best = np.full(len(batch), np.inf)
        for outer in plain_form.order_classes(nest.kind):
            for inner in plain_form.order_classes(nest.kind):
                classed = batch.copy()
                classed[:, OUTER.order], classed[:, INNER.order] = outer, inner
                best = np.minimum(best, space.model.costs(classed).of(objective))
        assert (best <= costs.of(objective) * (1 + 1e-12)).all()


def test_steps_among_efficient_tiles_end_at_the_extremes():
    assert [plain_form.step_tile(12, 4, s) for s in (-9, -1, 0, 1, 9)] == [1, 3, 4, 6, 12]
    assert plain_form.step_tile(12, 5, 0) == 6
    assert plain_form.step_tile(3, 100, 0) == 3
