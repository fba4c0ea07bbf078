# SPDX-License-Identifier: Apache-2.0
"""Race check: are all conflicting accesses of different units ordered by tokens?

The units of the accelerator run concurrently; only tokens order them. A program means what the
reference makes of it exactly if no two units touch the same scratchpad tile or the same DRAM
bytes, one of them writing, without a chain of tokens between the two instructions.

Method: vector clocks (Mattern, *Virtual Time and Global States of Distributed Systems*, 1989)
over the four units. A unit retires instructions in order, and its tokens for one target are
indistinguishable, so the k-th pop of a token from a unit is ordered after the first k pushes
of that unit for the popper, and after nothing later.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import ProgramError
from tilewright.host.machine.hwconfig import UOP_BYTES, HwConfig
from tilewright.host.machine.isa import (
    UNIT_OF,
    Instruction,
    Memory,
    Opcode,
    Operand,
    Unit,
    VectorOp,
)
from tilewright.host.machine.program import Program
from tilewright.host.machine.registers import ErrorCode, ErrorUnit
from tilewright.host.machine.status import DeviceStatusError
from tilewright.host.network.layout import diagonal_bytes
from tilewright.host.runtime.device import Bytes
from tilewright.sim.reference import footprint
from tilewright.sim.reference.device import read_stream

Tiles = slice | footprint.Index
Clock = tuple[int, ...]

_MASKS: Final = tuple(tuple(u for u in Unit if mask >> u & 1) for mask in range(16))


@dataclass(frozen=True, kw_only=True)
class HazardReport:
    """What a race-free program was found to contain."""

    instructions: int  # FINISH included
    tokens: int  # pops, each matched with its push
    unused_tokens: int  # pushes that no instruction pops


def check_hazards(hw: HwConfig, program: Program, memory: Bytes | None = None) -> HazardReport:
    """Refuse a program whose result depends on the relative speed of the units.

    That is one with two unordered conflicting accesses (both instructions are named), a pop before
    its push in stream order, a STORE into the instruction stream, which is fetched ahead, or a
    LOAD of micro-ops that a STORE wrote. ``memory`` replaces `Program.image`.
    """
    image = program.image() if memory is None else memory
    stream = read_stream(hw, program, image)
    checker = _Checker(hw, program, image)
    for index, encoded in enumerate(stream):
        if not checker.check(index, encoded):
            return checker.report(index + 1)
    raise DeviceStatusError(code=ErrorCode.NO_FINISH, unit=ErrorUnit.FETCH, instruction=len(stream))


class _Accesses:
    """Last access of each unit to each cell (tile or DRAM granule) of one memory.

    Counts are local to the unit and start at 1; 0 means never. Older accesses need no record:
    a unit's accesses are in order among themselves.
    """

    def __init__(self, cells: int, writers: set[Unit], readers: set[Unit]) -> None:
        self._writes = {unit: np.zeros(cells, dtype=np.int32) for unit in writers}
        self._reads = {unit: np.zeros(cells, dtype=np.int32) for unit in readers}

    def read(self, unit: Unit, count: int, clock: Clock, cells: Tiles) -> tuple[Unit, int, int]:
        """Record a read; returns the first unordered write (see `_first_unordered`)."""
        conflict = _first_unordered(self._writes, unit, clock, cells)
        self._reads[unit][cells] = count
        return conflict

    def written(self, cells: Tiles) -> bool:
        """Whether any of the cells was ever written."""
        return any(bool(last[cells].any()) for last in self._writes.values())

    def write(self, unit: Unit, count: int, clock: Clock, cells: Tiles) -> tuple[Unit, int, int]:
        """Record a write; returns the first unordered write or read."""
        conflict = _first_unordered(self._writes, unit, clock, cells)
        if not conflict[1]:
            conflict = _first_unordered(self._reads, unit, clock, cells)
        self._writes[unit][cells] = count
        return conflict


def _first_unordered(
    accesses: dict[Unit, npt.NDArray[np.int32]], unit: Unit, clock: Clock, cells: Tiles
) -> tuple[Unit, int, int]:
    """The other unit, its local count (0: no conflict) and the position in ``cells``."""
    for other, last in accesses.items():
        if other == unit:
            continue
        chosen = last[cells]
        if chosen.size and chosen.max() > clock[other]:
            position = int(chosen.argmax())
            return other, int(chosen[position]), position
    return unit, 0, 0


class _Checker:
    """Clocks, tokens in flight and last accesses while walking the stream."""

    def __init__(self, hw: HwConfig, program: Program, image: Bytes) -> None:
        self._hw = hw
        self._image = image
        self._pads = footprint.scratchpads(hw)
        self._uops = np.zeros((self._pads[Memory.UOP].depth, UOP_BYTES), dtype=np.uint8)
        self._clocks: list[Clock] = [(0, 0, 0, 0)] * len(Unit)
        self._order: list[list[int]] = [[] for _ in Unit]
        self._in_flight: dict[tuple[Unit, Unit], deque[Clock]] = {
            (source, target): deque() for source in Unit for target in Unit
        }
        self._tokens = 0
        self._index = 0
        load, gemm, vector, store = Unit.LOAD, Unit.GEMM, Unit.VECTOR, Unit.STORE
        roles: dict[Memory, tuple[set[Unit], set[Unit]]] = {
            Memory.INP: ({load}, {gemm}),
            Memory.WGT: ({load}, {gemm}),
            Memory.UOP: ({load}, {gemm}),
            Memory.ACC: ({load, gemm, vector}, {vector}),  # gemm writes whatever it reads
            Memory.PARAM: ({load}, {vector}),
            Memory.RES: ({load}, {vector}),
            Memory.OUT: ({vector}, {store}),
            Memory.TABLE: ({load}, {vector}),
        }
        self._accesses: dict[Memory | None, _Accesses] = {
            memory: _Accesses(self._pads[memory].depth, writers, readers)
            for memory, (writers, readers) in roles.items()
            if memory in self._pads
        }
        units = [diagonal_bytes(block_in=hw.block_in, block_out=hw.block_out)]
        units += [pad.tile_bytes for pad in self._pads.values()]
        self._granule = min(hw.axi_bytes, *units)
        self._accesses[None] = _Accesses(-(-image.size // self._granule), {store}, {load})
        insn = program.regions["insn"]
        self._insn = range(insn.offset, insn.offset + len(program.instructions))

    def report(self, instructions: int) -> HazardReport:
        """Totals so far."""
        return HazardReport(
            instructions=instructions,
            tokens=self._tokens,
            unused_tokens=sum(len(queue) for queue in self._in_flight.values()),
        )

    def check(self, index: int, encoded: bytes) -> bool:
        """Check one instruction; False: it was FINISH."""
        self._index = index
        try:
            instruction = Instruction.decode(encoded)
        except ProgramError as error:
            raise DeviceStatusError(
                code=ErrorCode.ILLEGAL_OPCODE, unit=ErrorUnit.FETCH, instruction=index
            ) from error
        opcode, v = instruction.opcode, instruction.values
        if opcode == Opcode.FINISH:
            return False
        unit = UNIT_OF[opcode]
        self._refuse(unit, footprint.field_fault(self._hw, opcode, v))
        clock = self._clocks[unit]
        for source in _MASKS[v["pop"]]:
            clock = self._pop(source, unit, clock)
        self._order[unit].append(index)
        self._clocks[unit] = clock
        if opcode == Opcode.LOAD:
            self._load(v)
        elif opcode == Opcode.STORE:
            self._store(v)
        elif opcode == Opcode.GEMM:
            self._gemm(v)
        else:
            self._vector(v)
        done = list(clock)
        done[unit] = len(self._order[unit])
        self._clocks[unit] = tuple(done)
        for target in _MASKS[v["push"]]:
            self._in_flight[unit, target].append(self._clocks[unit])
        return True

    def _pop(self, source: Unit, unit: Unit, clock: Clock) -> Clock:
        queue = self._in_flight[source, unit]
        if not queue:
            raise ProgramError(
                f"pops a token of {source.name.lower()} that no earlier instruction pushed",
                field=f"instruction {self._index}",
                remedy="emit the push before the pop",
            )
        self._tokens += 1
        return tuple(map(max, clock, queue.popleft()))

    def _refuse(self, unit: Unit, code: ErrorCode) -> None:
        if code != ErrorCode.NONE:
            raise DeviceStatusError(code=code, unit=ErrorUnit(unit), instruction=self._index)

    # -- accesses -----------------------------------------------------------------------------

    def _read(self, unit: Unit, memory: Memory | None, cells: Tiles) -> None:
        """Of tiles of a memory, or of granules of DRAM (None)."""
        count, clock = len(self._order[unit]), self._clocks[unit]
        conflict = self._accesses[memory].read(unit, count, clock, cells)
        self._no_conflict(conflict, "reads", memory, cells)

    def _write(self, unit: Unit, memory: Memory | None, cells: Tiles) -> None:
        count, clock = len(self._order[unit]), self._clocks[unit]
        conflict = self._accesses[memory].write(unit, count, clock, cells)
        self._no_conflict(conflict, "writes", memory, cells)

    def _no_conflict(
        self, conflict: tuple[Unit, int, int], verb: str, memory: Memory | None, cells: Tiles
    ) -> None:
        other, count, position = conflict
        if not count:
            return
        cell = cells.start + position if isinstance(cells, slice) else int(cells[position])
        dram = memory is None
        place = f"DRAM byte {cell * self._granule}" if dram else f"{memory.name} tile {cell}"
        earlier = self._order[other][count - 1]
        raise ProgramError(
            f"{verb} {place}, which instruction {earlier} ({other.name.lower()}) uses, "
            "without a token between them",
            field=f"instruction {self._index}",
            remedy=f"push a token on instruction {earlier} and pop it here",
        )

    def _granules(self, walk: footprint.Transfer, pad: footprint.Scratchpad) -> footprint.Index:
        inside = np.arange(pad.tile_bytes // self._granule)
        cells: footprint.Index = (walk.dram[:, None] // self._granule + inside).reshape(-1)
        return cells

    def _walk(
        self, unit: Unit, v: footprint.Values, pad: footprint.Scratchpad
    ) -> footprint.Transfer:
        self._refuse(unit, footprint.transfer_fault(v, pad, self._hw.axi_bytes, self._image.size))
        return footprint.transfer(v, pad.tile_bytes)

    def _load(self, v: footprint.Values) -> None:
        memory = Memory(v["memory"])
        pad = footprint.loaded_pad(self._hw, v)
        walk = self._walk(Unit.LOAD, v, pad)
        target = slice(walk.first, walk.first + walk.count)
        self._write(Unit.LOAD, memory, target)
        cells = self._granules(walk, pad)
        self._read(Unit.LOAD, None, cells)
        if memory == Memory.UOP:
            if self._accesses[None].written(cells):
                raise ProgramError(
                    "must not load micro-ops that the program itself stored",
                    field=f"instruction {self._index}",
                    remedy="write micro-ops from the host",
                )
            self._uops[target] = v["pad_value"] & 0xFF
            self._uops[walk.tiles] = self._image[walk.dram[:, None] + np.arange(UOP_BYTES)]

    def _store(self, v: footprint.Values) -> None:
        pad = self._pads[Memory.OUT]
        walk = self._walk(Unit.STORE, v, pad)
        self._read(Unit.STORE, Memory.OUT, walk.tiles)
        overlap = (walk.dram < self._insn.stop) & (walk.dram + pad.tile_bytes > self._insn.start)
        if overlap.any():
            raise ProgramError(
                "must not store into the instruction stream, which is fetched ahead",
                field=f"instruction {self._index}",
                value=int(walk.dram[overlap][0]),
            )
        cells = self._granules(walk, pad)
        self._write(Unit.STORE, None, cells)

    def _gemm(self, v: footprint.Values) -> None:
        uop_range = slice(v["uop_begin"], v["uop_begin"] + v["uop_count"])
        if uop_range.stop > self._uops.shape[0]:
            self._refuse(Unit.GEMM, ErrorCode.SRAM_RANGE)
        self._read(Unit.GEMM, Memory.UOP, uop_range)
        uops = footprint.Uops.from_bytes(self._uops[uop_range])
        self._refuse(Unit.GEMM, footprint.gemm_fault(v, uops, self._pads))
        for block in footprint.gemm_blocks(v, uops):
            self._read(Unit.GEMM, Memory.INP, block.inp)
            self._read(Unit.GEMM, Memory.WGT, block.wgt)
            self._write(Unit.GEMM, Memory.ACC, block.acc)

    def _vector(self, v: footprint.Values) -> None:
        self._refuse(Unit.VECTOR, footprint.vector_fault(v, self._pads))
        requant = v["op"] == VectorOp.REQUANT
        for block in footprint.vector_blocks(v):
            if v["op"] != VectorOp.MOV:
                self._read(Unit.VECTOR, Memory.ACC, block.src)
            if v["hold"]:
                self._read(Unit.VECTOR, Memory.ACC, block.opd)
            if v["operand"] == Operand.RES:
                self._read(Unit.VECTOR, Memory.RES, block.opd)
            if requant:
                self._read(Unit.VECTOR, Memory.PARAM, block.param)
            if v["lookup"]:
                self._read(Unit.VECTOR, Memory.TABLE, slice(0, self._pads[Memory.TABLE].depth))
            self._write(Unit.VECTOR, Memory.OUT if requant else Memory.ACC, block.dst)
