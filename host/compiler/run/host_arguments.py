# SPDX-License-Identifier: Apache-2.0
"""What goes into a network's CPU part and comes out of its regions, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.read.argument import Argument

RegionRunner = Callable[[int, Sequence[npt.NDArray[np.int8]]], Sequence[npt.NDArray[np.int8]]]
"""Runs a region: its number and its int8 inputs in the model's shapes; returns its outputs."""


@dataclass(kw_only=True)
class HostTimes:
    """Seconds of one run: in the CPU's operators, and in regions."""

    cpu: float = 0.0
    regions: float = 0.0


Array = npt.NDArray[Any]


def checked_inputs(arguments: Sequence[Argument], inputs: Mapping[str, Array]) -> list[Array]:
    """The inputs in the order of the arguments."""
    known = {argument.name for argument in arguments}
    for name in inputs:
        if name not in known:
            raise WorkloadError(
                f"must be one of {sorted(known)}",
                field="inputs",
                value=str(name),
                remedy="name each array after an input of the model",
            )
    return [_checked_input(argument, inputs) for argument in arguments]


def _checked_input(argument: Argument, inputs: Mapping[str, Array]) -> Array:
    if argument.name not in inputs:
        raise WorkloadError(
            "is missing",
            field=f"inputs.{argument.name}",
            remedy=f"give {argument.dtype} of shape {argument.shape}",
        )
    array = np.asarray(inputs[argument.name])
    if array.shape != argument.shape or str(array.dtype) != argument.dtype:
        raise WorkloadError(
            f"must be {argument.dtype} of shape {argument.shape}",
            field=f"inputs.{argument.name}",
            value=f"{array.dtype} {array.shape}",
            remedy="convert it with numpy: .astype and .reshape; one call takes one batch",
        )
    return np.asarray(array, order="C")  # a number stays one


def checked_result(number: int, result: Any, shape: tuple[int, ...]) -> Array:
    """The result of a region, with whatever strides it has."""
    array = np.asarray(result)
    if array.dtype != np.int8 or array.shape != shape:
        raise WorkloadError(
            f"must be int8 of shape {shape}",
            field=f"result of region {number}",
            value=f"{array.dtype} {array.shape}",
            remedy="compile the network again",
        )
    return array
