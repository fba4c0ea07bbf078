# SPDX-License-Identifier: Apache-2.0
"""What a cycle count comes from: the one list of fidelities, from which every other is taken."""

from __future__ import annotations

from enum import StrEnum


class Fidelity(StrEnum):
    """What runs, or stands for, the accelerator; slowest first.

    A cheaper one is trusted only while tests prove it equal to ``rtl`` (tests/contract).
    """

    BOARD = "board"
    """The bitstream on an FPGA."""
    RTL = "rtl"
    """The whole design in Verilator."""
    DPI = "dpi"
    """Control in RTL, data in C++: equal results for every program without races."""
    TIMING = "timing"
    """Control alone: instructions and micro-operations move, data does not."""
    TWIN = "twin"
    """A C++ model of when each unit does what: the cycles and counters of the RTL, no data."""
    MODEL = "model"
    """A closed form, which estimates."""

    @property
    def exact(self) -> bool:
        """Whether its cycles are those of the RTL."""
        return self is not Fidelity.MODEL

    @property
    def computes(self) -> bool:
        """Whether a run gives the memory image that the program computes."""
        return self in {Fidelity.BOARD, Fidelity.RTL, Fidelity.DPI}
