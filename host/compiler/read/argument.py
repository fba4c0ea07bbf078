# SPDX-License-Identifier: Apache-2.0
"""The inputs and outputs of a network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Argument:
    """An input or output of a network.

    Attributes:
        name: as the model calls it.
        shape: static.
        dtype: NumPy's name.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Argument:
        """An argument from plain values, such as JSON's.

        Raises:
            LookupError, TypeError, ValueError: they are none of an argument.
        """
        return cls(
            name=str(values["name"]),
            shape=tuple(map(int, values["shape"])),
            dtype=str(values["dtype"]),
        )
