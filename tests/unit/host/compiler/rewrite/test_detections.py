# SPDX-License-Identifier: Apache-2.0
"""What heads of detectors join and split again stays apart; results stay."""

import numpy as np
import pytest
from support.detector_models import Detector
from support.onnx_results import rewritten
from support.randomness import fresh_rng

from tilewright.host.compiler.read.import_options import QuantiseOptions

TABLES = QuantiseOptions(activation_tables=True)


def head(*sizes: int, function: str = "Sigmoid") -> tuple[Detector, str]:
    """Three levels of 8 and 3 channels, split into parts of some sizes, and what they become."""
    model = Detector(fresh_rng())
    parts = model.split(model.levels(2, 3), *sizes, axis=1)
    parts[1] = model.add(function, parts[1])
    return model, model.add("Concat", *(model.add("Neg", part) for part in parts), axis=1)


def test_parts_of_joined_levels_are_joined_apart() -> None:
    model, y = head(8, 3)
    kinds = rewritten(model.proto(y), x=(1, 3, 8, 8))
    assert "Split" not in kinds
    assert "Slice" not in kinds
    assert kinds.count("Concat") == 2 + 1  # one of each part along the pixels, and that of both
    assert kinds.count("Reshape") == 2 * 3


def test_parts_of_a_part_are_slices_of_what_is_joined() -> None:
    model, y = head(6, 5)
    kinds = rewritten(model.proto(y), x=(1, 3, 8, 8))
    assert kinds.count("Slice") == 2
    assert kinds.count("Concat") == 3 + 1 + 1


def test_parts_that_are_read_together_too_stay_joined() -> None:
    model = Detector(fresh_rng())
    joined = model.levels(2, 3)
    parts = model.split(joined, 8, 3, axis=1)
    both = model.add("Neg", joined)
    results = [model.add("Neg", part) for part in parts]
    assert rewritten(model.proto(*results, both), x=(1, 3, 8, 8)).count("Slice") == 2


@pytest.mark.parametrize("axis", [1, 2])
def test_splits_of_other_tensors_of_three_axes_stay(axis) -> None:
    model = Detector(fresh_rng())
    parts = model.split(model.add("Relu", model.input(1, 4, 6)), 2, 2, axis=1)
    kinds = rewritten(model.proto(*(model.add("Neg", part) for part in parts)), x=(1, 4, 6))
    assert "Split" in kinds


def test_a_sigmoid_of_joined_levels_is_behind_their_layers() -> None:
    model, y = head(8, 3)
    kinds = rewritten(model.proto(y), TABLES, x=(1, 3, 8, 8))
    assert kinds.count("Sigmoid") == 3
    for place, kind in enumerate(kinds):
        assert kind != "Sigmoid" or kinds[place - 1] == "Conv"
    assert rewritten(model.proto(y), x=(1, 3, 8, 8)).count("Sigmoid") == 1


def test_a_sigmoid_of_what_is_joined_with_other_results_stays_behind() -> None:
    model = Detector(fresh_rng())
    x = model.input(1, 3, 4, 4)
    parts = [model.convolution(x, 3, 4), model.add("Relu", model.convolution(x, 3, 4))]
    y = model.add("Sigmoid", model.add("Concat", *parts, axis=1))
    kinds = rewritten(model.proto(model.add("Neg", y)), TABLES, x=(1, 3, 4, 4))
    assert kinds.count("Sigmoid") == 1
    plain = model.add("Sigmoid", model.add("Concat", parts[0], axis=1))
    assert np.count_nonzero(np.array(kinds) == "Concat") == 1
    assert rewritten(model.proto(plain), TABLES, x=(1, 3, 4, 4))[-1] == "Sigmoid"


def test_a_split_with_an_empty_part_keeps_its_results() -> None:
    model = Detector(fresh_rng())
    parts = model.split(model.levels(2, 3), 8, 3, 0, axis=1)
    y = model.add("Concat", *(model.add("Neg", part) for part in parts), axis=1)
    assert "Split" not in rewritten(model.proto(y), x=(1, 3, 8, 8))
