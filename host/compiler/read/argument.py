# SPDX-License-Identifier: Apache-2.0
"""The inputs and outputs of a network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_INT8: Final = "int8"


@dataclass(frozen=True, kw_only=True)
class Argument:
    """An input or output of a network.

    Attributes:
        scale: what a step of int8 elements stands for, where the network has one for them.
    """

    name: str  # as the model calls it
    shape: tuple[int, ...]  # static
    dtype: str  # NumPy's name
    scale: float | None = None
    zero_point: int = 0  # the element that stands for 0

    @property
    def is_quantised(self) -> bool:
        """Whether int8 elements stand for real numbers."""
        return self.scale is not None and self.dtype == _INT8

    @property
    def real(self) -> Argument:
        """The same with real numbers."""
        return replace(self, dtype="float32", scale=None) if self.is_quantised else self

    def quantise(self, values: Array) -> Array:
        """Elements for real numbers: rounded to the nearest step, half to even, and saturated."""
        assert self.scale is not None
        steps = np.rint(values.astype(np.float32) / np.float32(self.scale)) + self.zero_point
        elements: Array = np.clip(steps, -128, 127).astype(np.int8)
        return elements

    def dequantise(self, elements: Array) -> Array:
        """Real numbers, float32, for elements."""
        assert self.scale is not None
        real: Array = (elements.astype(np.float32) - self.zero_point) * np.float32(self.scale)
        return real

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Argument:
        """An argument from plain values, such as JSON's."""
        return cls(
            name=str(values["name"]),
            shape=tuple(map(int, values["shape"])),
            dtype=str(values["dtype"]),
            scale=None if values.get("scale") is None else float(values["scale"]),
            zero_point=int(values.get("zero_point", 0)),
        )
