# SPDX-License-Identifier: Apache-2.0
"""The stages of the regression: what the tests run on the RTL and the mutation check on faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mutation import corners
from mutation import regression as basic
from mutation.models import Model

STAGES: Final[dict[str, tuple[str, tuple[Callable[[Model], None], ...]]]] = {
    "data": ("tiny-4x4", (basic.data,)),
    "faults": (
        "tiny-4x4",
        (
            basic.faults,
            basic.tokens,
            basic.streams,
            basic.registers,
            basic.long_work,
            basic.bus_errors,
            basic.ends,
            basic.late_errors,
            basic.resets,
            basic.broken_programs,
            basic.overflow,
            corners.answers,
            corners.pads,
            corners.long_stream,
        ),
    ),
    "timing": ("tiny-4x4", (basic.timing, basic.patience)),
    "odd": (
        "odd",
        (basic.data, basic.timing, basic.faults, basic.tokens, basic.bus_errors, basic.resets),
    ),
    "wide-bus": (
        "wide-bus",
        (
            basic.data,
            basic.timing,
            basic.faults,
            basic.streams,
            basic.bus_errors,
            basic.resets,
            corners.large_counts,
        ),
    ),
    "halves": ("halves", (basic.data, basic.timing)),
    "table": ("table", (basic.data, basic.timing)),
    "rows": ("rows", (basic.data, basic.timing)),
    "int4": ("int4", (basic.data, basic.timing)),
    "int4-scales": ("int4-scales", (basic.data, basic.timing)),
}
"""Name -> (configuration, checks), from cheap to dear."""
