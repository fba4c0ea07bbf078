# SPDX-License-Identifier: Apache-2.0
"""Feature vectors of points."""

import numpy as np

from tilewright.testing.tuner_contract import full_space
from tilewright.tuner.search.features import FeatureEncoder
from tilewright.tuner.search.space import Knob, Space


class Mixed(Space[tuple[int, ...]]):
    def __init__(self) -> None:
        super().__init__(
            [
                Knob(name="size", values=(1, 3, 7)),
                Knob(name="order", values=("a", "b"), ordered=False),
            ]
        )

    def decode(self, index):
        return index

    def encode(self, point):
        return point

    def _refusal(self, index):
        return ""


def test_ordered_knobs_give_position_and_logarithm_and_others_indicators() -> None:
    encoder = FeatureEncoder(Mixed())
    assert encoder.names == ("size.position", "size.log2", "order=a", "order=b")
    vectors = encoder.encode([(0, 1), (1, 0), (2, 0)])
    assert vectors.tolist() == [[0, 1, 0, 1], [0.5, 2, 1, 0], [1, 3, 1, 0]]


def test_different_points_have_different_vectors() -> None:
    space = full_space()
    rng = np.random.default_rng(0)
    indices = list({i for i in (space.sample(rng) for _ in range(60)) if i is not None})
    vectors = FeatureEncoder(space).encode(indices)
    assert len({tuple(v) for v in vectors.tolist()}) == len(indices)


def test_no_points_give_an_empty_matrix() -> None:
    encoder = FeatureEncoder(full_space())
    assert encoder.encode([]).shape == (0, encoder.width)
