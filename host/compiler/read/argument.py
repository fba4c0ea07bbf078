# SPDX-License-Identifier: Apache-2.0
"""The inputs and outputs of a network."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Argument:
    """An input or output of a network: its name in the model, shape and element type."""

    name: str
    shape: tuple[int, ...]
    dtype: str
