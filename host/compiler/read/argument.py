# SPDX-License-Identifier: Apache-2.0
"""The inputs and outputs of a network."""

from __future__ import annotations

from dataclasses import dataclass


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
