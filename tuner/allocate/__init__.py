# SPDX-License-Identifier: Apache-2.0
"""Allocators: they decide which layer of a network is searched next.

Knows no hardware. Imports `search`.
"""

from tilewright.tuner.allocate._base import Allocator, Arm, Slot, Track
from tilewright.tuner.allocate.registry import ALLOCATORS, can_win, make_allocator, spend
from tilewright.tuner.allocate.slots import Course, SearchPull, run_slots

__all__ = [
    "ALLOCATORS",
    "Allocator",
    "Arm",
    "Course",
    "SearchPull",
    "Slot",
    "Track",
    "can_win",
    "make_allocator",
    "run_slots",
    "spend",
]
