# SPDX-License-Identifier: Apache-2.0
"""Random search ignores results."""

import numpy as np
from support.grid import Grid

from tilewright.testing.tuner_contract import drive, full_space
from tilewright.tuner.search import Result, make_tuner
from tilewright.tuner.search.space import Index
from tilewright.tuner.search.tuner import SCAN_LIMIT


class Sparse(Grid):
    """A space that is too large to scan, of which few points are valid."""

    def __init__(self) -> None:
        super().__init__(40, 40, 40)
        drawn = np.random.default_rng(0).integers(40, size=(2000, 3))
        self.points = {tuple(point) for point in drawn.tolist()}
        assert self.raw_size > SCAN_LIMIT

    def _refusal(self, index: Index) -> str:
        return "" if index in self.points else "not valid"


def test_a_sparse_space_does_not_end_where_drawing_finds_nothing_new() -> None:
    """It ended with a third of the points."""
    space = Sparse()
    tuner = make_tuner("random", space, seed=1)
    log = drive(tuner, lambda point: float(sum(point)), batches=[64] * 40)
    assert tuner.exhausted
    assert len({index for index, _ in log}) == len(log)
    assert len(log) > 0.9 * len(space.points)


def test_results_do_not_change_what_is_sampled() -> None:
    one, two = (make_tuner("random", full_space(), seed=3) for _ in range(2))
    first = one.ask(20)
    assert first == two.ask(20)
    one.tell([Result(index=c.index, value=1.0) for c in first])
    two.tell([Result(index=c.index, value=None) for c in first])
    assert one.ask(20) == two.ask(20)
