"""The relaxed model is the cost model where every tile divides."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from support.randomness import fresh_rng  # noqa: E402  (after importorskip)

from tilewright.tuner.mapping.architecture import load_architecture  # noqa: E402  (after importorskip)
from tilewright.tuner.mapping.cost import Objective  # noqa: E402  (after importorskip)
from tilewright.tuner.mapping.methods import gradient  # noqa: E402  (after importorskip)
from tilewright.tuner.mapping.methods.plain_form import order_classes  # noqa: E402  (after importorskip)
from tilewright.tuner.mapping.nest import LoopNest  # noqa: E402  (after importorskip)
from tilewright.tuner.mapping.space import INNER, OUTER, MappingSpace  # noqa: E402  (after importorskip)

NEST = LoopNest(name="matmul", sizes=(64, 64, 32, 1, 1, 1))


@pytest.mark.parametrize("objective", list(Objective))
def test_is_close_to_the_cost_model_for_tiles_that_divide(objective):
    space = MappingSpace(NEST, load_architecture("flexible-256"))
    rng = fresh_rng()
    batch = space.decode_batch(space.sample_batch(rng, 2000))
    batch[:, OUTER.tile] = 2 ** np.log2(batch[:, OUTER.tile]).astype(int)
    batch[:, INNER.tile] = 2 ** np.log2(batch[:, INNER.tile]).astype(int)
    batch[:, -2:] = 2 ** np.log2(batch[:, -2:]).astype(int)
    classes = np.array(order_classes(NEST.kind), dtype=np.int32)
    batch[:, OUTER.order] = classes[rng.integers(3, size=len(batch))]
    batch[:, INNER.order] = classes[rng.integers(3, size=len(batch))]
    batch = space.cut(batch)
    batch = batch[space.model.costs(batch).legal]
    wide2, wide1, stays2, stays1 = gradient._fixed(batch, classes)
    at = gradient.Relaxed(
        outer=torch.from_numpy(batch[:, OUTER.tile].astype(float)),
        inner=torch.from_numpy(batch[:, INNER.tile].astype(float)),
        wide2=wide2, wide1=wide1, stays2=stays2, stays1=stays1,
    )  # fmt: skip
    found, over = gradient.relaxed_log_cost(space.model, objective, at)
    exact = np.log(space.model.costs(batch).of(objective))
    assert np.corrcoef(found.numpy(), exact)[0, 1] > 0.9
    assert (over.numpy() < 1e-9).all()
