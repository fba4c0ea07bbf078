# SPDX-License-Identifier: Apache-2.0
"""A match of a pattern with its int8 tensors, and why it stays on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tilewright.host.compiler.lower.own_call import QuantisedTensor

Expr = Any
Parts = Mapping[str, Expr]

MAX_RANK: Final = 4
"""Of a tensor that has a normal form."""


class Refusal(Exception):  # noqa: N818  (control flow, not an error)
    """Something stays on the CPU; the text says why."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Match:
    """A match of a pattern with its int8 tensors."""

    parts: Parts
    inputs: tuple[QuantisedTensor, ...]
    output: QuantisedTensor

    @property
    def call(self) -> Expr:
        """The operator itself."""
        return self.parts["operator"]
