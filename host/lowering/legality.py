# SPDX-License-Identifier: Apache-2.0
"""`Legality`: whether a schedule lowers, and the checks that every kind of plan makes alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from tilewright.host.common.errors import ScheduleError
from tilewright.host.lowering.transfers import PAD_MAX, ROW_MAX
from tilewright.host.machine.hwconfig import INSTRUCTION_BYTES, HwConfig
from tilewright.host.network.layout import blocks_of, interleaved_blocks
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload

MEMORY_MAX = 1 << 40
"""Bytes that an instruction's DRAM offset can address."""

INSTRUCTIONS_MAX = (128 << 20) // INSTRUCTION_BYTES
"""Instructions of a program: 128 MiB of them, all contiguous memory of the smallest board."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Legality:
    """Whether a schedule lowers, and if not, why.

    Attributes:
        needed, available: both as numbers; 0 when ok.
    """

    ok: bool  # it lowers, fits and gives the right answer
    rule: str = ""  # identifier of the rule that does not hold; empty when ok
    detail: str = ""  # the rule as a sentence, with what is needed and what is available
    needed: int = 0
    available: int = 0


LEGAL = Legality(ok=True)


def refuse(rule: str, detail: str, needed: int, available: int) -> Legality:
    """A rule that does not hold, with both numbers in its sentence."""
    return Legality(
        ok=False,
        rule=rule,
        detail=f"{detail}: needs {needed}, has {available}",
        needed=needed,
        available=available,
    )


def repeats(rule: str, detail: str) -> Legality:
    """A choice that names the program of another schedule."""
    return Legality(ok=False, rule=rule, detail=detail)


def first_over(checks: Iterable[tuple[str, str, int, int]]) -> Legality | None:
    """The first of (rule, detail, needed, available) that needs more than there is."""
    for rule, detail, needed, available in checks:
        if needed > available:
            return refuse(rule, detail, needed, available)
    return None


def check_extents(tiles: Iterable[tuple[str, int, int]], reduction: str) -> Legality | None:
    """Tiles within the workload: a larger one would name the same program twice."""
    for name, tile, extent in tiles:
        if tile > extent:
            why = "a tile is at most the workload's extent"
            if name == "tile_ci" and reduction:
                why = reduction
            return refuse(f"{name}_extent", f"{name}: {why}", tile, extent)
    return None


def check_stored_blocks(hw: HwConfig, workload: Workload, tile: int, layer: str) -> Legality | None:
    """A channel tile of whole stored blocks."""
    unit, blocks = interleaved_blocks(hw), blocks_of(workload.channels_out, hw.block_out)
    if tile % unit == 0 or tile >= blocks:
        return None
    detail = (
        f"tile_co: {unit} blocks are interleaved in DRAM, so a {layer}'s tile is a multiple of "
        f"{unit}, or all blocks"
    )
    return refuse("tile_co_interleave", detail, min(blocks_of(tile, unit) * unit, blocks), tile)


def check_sides(sides: Iterable[tuple[str, int, int, int]], moved: str) -> Legality | None:
    """Input rows and columns that the fields of a LOAD hold."""
    for name, pad, size, blocks in sides:
        times = f" times {blocks} interleaved blocks" if blocks > 1 else ""
        if pad * blocks > PAD_MAX:
            detail = f"padding {name} on one side of a {moved}{times} (6-bit field)"
            return refuse(f"field_pad_{name}", detail, pad * blocks, PAD_MAX)
        if size * blocks > ROW_MAX:
            detail = f"input {name} of a {moved}{times} (16-bit field)"
            return refuse(f"field_input_{name}", detail, size * blocks, ROW_MAX)
    return None


def refuse_long(least: int) -> Legality | None:
    """A refusal when a program would have ``least`` instructions or more, and that is too many."""
    if least <= INSTRUCTIONS_MAX:
        return None
    nbytes = least * INSTRUCTION_BYTES
    detail = f"instructions of the program, at least ({nbytes >> 20} MiB of them)"
    return refuse("program_length", detail, least, INSTRUCTIONS_MAX)


P = TypeVar("P")


def fewest_cycles(
    hw: HwConfig,
    workload: Workload,
    candidates: Iterable[Schedule],
    make_plan: Callable[[HwConfig, Workload, Schedule], P | Legality],
    cycles: Callable[[P], float],
) -> Schedule:
    """The legal candidate of the fewest cycles, the first of several."""
    best: tuple[float, Schedule] | None = None
    lacks = ""
    for schedule in candidates:
        found = make_plan(hw, workload, schedule)
        if isinstance(found, Legality):
            lacks = found.detail
            continue
        taken = cycles(found)
        if best is None or taken < best[0]:
            best = taken, schedule
    if best is None:
        raise ScheduleError(
            f"no default schedule is legal; the smallest tile: {lacks}",
            field=f"{workload.name} on {hw.name}",
            remedy="enlarge the buffers or run this operator on the CPU",
        )
    return best[1]
