# SPDX-License-Identifier: Apache-2.0
"""The order of work: which tile is computed when, in which context, with which operands.

A group is ``h_threading`` consecutive row tiles times ``oc_threading`` consecutive co tiles,
processed interleaved: for each reduction step, for each member, one `Item`. Members take the
contexts in turn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from tilewright.host.lowering.plan import Plan

TileId = tuple[int, ...]
"""Identity of an operand tile; equal ids hold equal data."""


class Item(NamedTuple):
    """One reduction step of one output tile, by indices into the plan's tiles."""

    batch: int
    row: int
    column: int
    co: int
    ci: int
    row_member: int  # position in the group, as ``co_member``
    co_member: int
    outer: int  # index of the group: of co groups when weight-stationary, else of spatial ones
    context: int  # region of ACC, OUT and RES
    first: bool  # overwrites
    last: bool  # is followed by the epilogue

    def inp_tile(self, depthwise: bool) -> TileId:
        """Identity of the input tile."""
        part = self.co if depthwise else self.ci
        return (self.batch, self.row, self.column, part)

    def wgt_tile(self) -> TileId:
        """Identity of the weight tile."""
        return (self.co, self.ci)


def _chunks(count: int, size: int) -> list[range]:
    return [range(first, min(first + size, count)) for first in range(0, count, size)]


def walk(plan: Plan) -> Iterator[Item]:
    """All items in execution order."""
    spatial = [
        (batch, rows, column)
        for batch in range(len(plan.batch_tiles))
        for rows in _chunks(len(plan.rows.tiles), plan.schedule.h_threading)
        for column in range(len(plan.columns.tiles))
    ]
    channels = _chunks(len(plan.channels.tiles), plan.schedule.oc_threading)
    if plan.wgt_copies:
        groups = [(g, s, c) for g, c in enumerate(channels) for s in spatial]
    else:
        groups = [(g, s, c) for g, s in enumerate(spatial) for c in channels]
    steps = len(plan.ci_tiles)
    done = 0
    for outer, (batch, rows, column), cos in groups:
        members = [
            (row, row_member, co, co_member)
            for row_member, row in enumerate(rows)
            for co_member, co in enumerate(cos)
        ]
        for ci in range(steps):
            for position, (row, row_member, co, co_member) in enumerate(members):
                yield Item(
                    batch=batch,
                    row=row,
                    column=column,
                    co=co,
                    ci=ci,
                    row_member=row_member,
                    co_member=co_member,
                    outer=outer,
                    context=(done + position) % plan.contexts,
                    first=ci == 0,
                    last=ci == steps - 1,
                )
        done += len(members)


class OperandSlots:
    """Residency of operand tiles in a scratchpad's slots, whose keys are (name, slot)."""

    def __init__(self, name: str, bases: list[int], side: int, depth: int) -> None:
        self.bases = [side * depth + base for base in bases]
        self.keys = [(name, side * len(bases) + slot) for slot in range(len(bases))]
        self._content: list[TileId | None] = [None] * len(bases)
        self._next = 0

    def stream(self, tile: TileId) -> tuple[int, bool]:
        """The slot of a streamed tile, and whether it must be loaded (slots in rotation)."""
        if tile in self._content:
            return self._content.index(tile), False
        slot = self._next
        self._next = (slot + 1) % len(self.bases)
        self._content[slot] = tile
        return slot, True

    def place(self, slot: int, tile: TileId) -> bool:
        """Put a tile into a slot; whether it must be loaded."""
        if self._content[slot] == tile:
            return False
        self._content[slot] = tile
        return True


def input_slots(plan: Plan, side: int, depth: int) -> OperandSlots:
    """INP's slots: whole reductions when input-stationary, otherwise streamed tiles."""
    if not plan.inp_copies:
        bases = [slot * plan.inp_tile for slot in range(plan.inp_slots)]
        return OperandSlots("inp", bases, side, depth)
    step = plan.schedule.tile_b * plan.rows.loaded * plan.columns.loaded
    return OperandSlots(
        "inp",
        [
            member * plan.inp_set + first * step
            for member in range(plan.inp_copies * plan.inp_members)
            for first, _ in plan.ci_tiles
        ],
        side,
        depth,
    )


def weight_slots(plan: Plan, side: int, depth: int) -> OperandSlots:
    """WGT's slots: whole reductions when weight-stationary, otherwise streamed tiles."""
    if not plan.wgt_copies:
        bases = [slot * plan.wgt_tile for slot in range(plan.wgt_slots)]
        return OperandSlots("wgt", bases, side, depth)
    step = plan.schedule.tile_co * plan.shape.taps
    return OperandSlots(
        "wgt",
        [
            member * plan.wgt_set + first * step
            for member in range(plan.wgt_copies * plan.wgt_members)
            for first, _ in plan.ci_tiles
        ],
        side,
        depth,
    )


def resident_slot(plan: Plan, item: Item) -> int:
    """The slot of the item's stationary operand (weights or inputs, as the plan says)."""
    if plan.wgt_copies:
        member = item.outer % plan.wgt_copies * plan.wgt_members + item.co_member
    else:
        member = item.outer % plan.inp_copies * plan.inp_members + item.row_member
    return member * len(plan.ci_tiles) + item.ci


def prefetches(plan: Plan, items: list[Item]) -> dict[int, list[Item]]:
    """Which stationary tiles to load ahead at which item.

    With two sets of a stationary operand, the next outer group's tiles are spread evenly over
    the current group's items, after its first: until then the set may still be in use.
    """
    ahead: dict[int, list[Item]] = defaultdict(list)
    if max(plan.inp_copies, plan.wgt_copies) < 2:  # one set: nothing to load into
        return ahead
    start = 0
    while start < len(items):
        end = start
        while end < len(items) and items[end].outer == items[start].outer:
            end += 1
        upcoming: dict[int, Item] = {}
        position = end
        while position < len(items) and items[position].outer == items[end].outer:
            upcoming.setdefault(resident_slot(plan, items[position]), items[position])
            position += 1
        room = end - start - 1
        if room > 0:
            for order, item in enumerate(upcoming.values()):
                ahead[start + 1 + order * room // len(upcoming)].append(item)
        start = end
    return ahead
