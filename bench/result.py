# SPDX-License-Identifier: Apache-2.0
"""What a benchmark found: `tilewright bench NAME` prints it and writes it as JSON."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

Row = Mapping[str, Any]

KEPT_EVERY: Final = 10.0
"""Seconds: what a kill may cost. A summary of ten thousand rows is not the matter of a moment."""


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


@contextmanager
def kept(
    keep: Callable[[BenchResult], None] | None, result: Callable[[], BenchResult]
) -> Iterator[Callable[[], None]]:
    """Keep what a long benchmark has found.

    Args:
        keep: writes a result; None: nothing is kept.
        result: what there is so far.

    Yields:
        To be called after each step: the first one and then one in `KEPT_EVERY` seconds are kept.
        What is left is kept at the end, whatever ends it.
    """
    due, left = 0.0, False

    def step() -> None:
        nonlocal due, left
        left = True
        if keep is not None and time.monotonic() >= due:
            keep(result())
            due, left = time.monotonic() + KEPT_EVERY, False

    try:
        yield step
    finally:
        if keep is not None and left:
            keep(result())
