# SPDX-License-Identifier: Apache-2.0
"""What `bench.accuracy` judges: a trained network, inputs, and what a right answer is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

Array = np.ndarray[Any, Any]
Answer = int | str | bytes


@dataclass(frozen=True, kw_only=True, eq=False)
class Subject:
    """A trained network and images to judge it by."""

    name: str  # label
    source: str  # where network and images come from
    load: Callable[[], onnx.ModelProto]  # makes the float model
    calibration: Array  # inputs of any type, the first axis counts them
    images: Array  # test inputs, likewise M of them
    truths: Sequence[Any]  # the M right answers
    answer: Callable[[Array], Answer]  # a network's answer, from its first output for one image
    # right and all points of an answer, given the truth
    credit: Callable[[Answer, Any], tuple[int, int]]
    unit: str  # what a point is


def most_likely(result: Array) -> int:
    """The class of the largest value."""
    return int(result.argmax())


def exact(answer: Answer, truth: Answer) -> tuple[int, int]:
    """One point for the right answer."""
    return int(answer == truth), 1
