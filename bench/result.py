# SPDX-License-Identifier: Apache-2.0
"""What a benchmark found: `tilewright bench NAME` prints it and writes it as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class BenchResult:
    """Rows with what they hold under.

    Attributes:
        rows: one for each measurement; units stand in the names of their members.
        conditions: configuration, memory, seed, tools, load of the machine ...
        summary: the figures that the documents name.
        more: further members of the document.
        passed: whether every check of the run held.
    """

    rows: Sequence[Row]
    conditions: Row
    summary: Row = field(default_factory=dict)
    more: Row = field(default_factory=dict)
    passed: bool = True
