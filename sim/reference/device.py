# SPDX-License-Identifier: Apache-2.0
"""`ReferenceDevice`: the golden functional model, a NumPy interpreter of programs.

It executes the stream in order, so it shows what a program means; the race check of the tests
(`tests/support/programs/hazards.py`) shows that the concurrent units cannot make it mean anything
else.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import DeviceError, DeviceTimeoutError, ProgramError
from tilewright.host.machine.hwconfig import INSTRUCTION_BYTES, PARAM_BYTES_PER_CHANNEL, HwConfig
from tilewright.host.machine.isa import (
    MAX_SHIFT,
    TABLE_ROW_ENTRIES,
    UNIT_OF,
    Instruction,
    Memory,
    Opcode,
    Operand,
    Reduce,
    Unit,
    VectorOp,
)
from tilewright.host.machine.program import Program
from tilewright.host.machine.registers import COUNTERS, UNIT_NAMES, ErrorCode, ErrorUnit
from tilewright.host.machine.status import DeviceStatusError
from tilewright.host.network.int4_tiles import unpack_int4
from tilewright.host.runtime.device import Bytes, Counters, RunResult
from tilewright.host.runtime.driver import check_run
from tilewright.sim.reference import arithmetic, footprint

MAX_TOKENS: Final = 2**16 - 1
"""Largest value of a token counter."""


class ReferenceDevice:
    """Runs programs functionally; implements `host.runtime.device.Device`."""

    def __init__(self, hw: HwConfig, *, strict: bool = True) -> None:
        self._hw = hw
        self._strict = strict
        self._closed = False
        self._machine: _Machine | None = None

    @property
    def hw(self) -> HwConfig:
        """The configuration that the device implements."""
        return self._hw

    def run(self, program: Program, memory: Bytes, *, max_cycles: int = 0) -> RunResult:
        """Run a program to FINISH.

        Args:
            program: built for this device's configuration.
            memory: uint8 array of ``program.memory_bytes``; not modified. The instructions are
                those of its ``insn`` region, read once at the start.
            max_cycles: no time is modelled, but tiles are counted, and no unit does more than
                one per cycle: a run that must exceed the limit is refused. 0: no limit.
        """
        if self._closed:
            raise DeviceError("the device is closed", remedy="create another one")
        stream = read_stream(self._hw, program, memory)
        start = time.perf_counter()
        machine = _Machine(self._hw, memory.copy(), strict=self._strict, max_tiles=max_cycles)
        self._machine = machine
        machine.execute(stream)
        return RunResult(
            memory=machine.dram,
            counters=Counters(values=machine.counters),
            host_seconds=time.perf_counter() - start,
        )

    def scratchpad(self, memory: Memory) -> Bytes:
        """Contents of a scratchpad after the last run, failed or not.

        Returns:
            uint8, shape ``(depth, bytes per tile)``.
        """
        if self._machine is None:
            raise DeviceError("no program was run yet", field="scratchpad")
        return self._machine.contents[memory].copy()

    def close(self) -> None:
        """Release the device; further runs are an error."""
        self._closed = True


def read_stream(hw: HwConfig, program: Program, memory: Bytes) -> list[bytes]:
    """The encoded instructions that a memory image holds."""
    check_run(hw, program, memory, 0)
    if len(program.instructions) % INSTRUCTION_BYTES:
        raise ProgramError(
            f"must be a multiple of {INSTRUCTION_BYTES} bytes",
            field="instructions",
            value=len(program.instructions),
        )
    data = program.read(memory, "insn")[: len(program.instructions)].tobytes()
    if len(data) != len(program.instructions):
        raise ProgramError(
            "the region must hold the whole instruction stream",
            field="insn",
            value=len(data),
        )
    return [data[i : i + INSTRUCTION_BYTES] for i in range(0, len(data), INSTRUCTION_BYTES)]


class _Machine:
    """Architectural state of one run."""

    def __init__(self, hw: HwConfig, dram: Bytes, *, strict: bool, max_tiles: int) -> None:
        self.dram = dram
        self.counters = dict.fromkeys((name for name, _ in COUNTERS), 0)
        self._hw = hw
        self._strict = strict
        self._max_tiles = max_tiles
        self._index = 0
        self._tokens = np.zeros((len(Unit), len(Unit)), dtype=np.int64)
        self._pads = footprint.scratchpads(hw)
        self.contents = {
            memory: np.zeros((pad.depth, pad.tile_bytes), dtype=np.uint8)
            for memory, pad in self._pads.items()
        }
        self._written = {
            memory: np.zeros(pad.depth, dtype=np.bool_) for memory, pad in self._pads.items()
        }
        rows = (-1, hw.batch)
        self._inp = self.contents[Memory.INP].view(np.int8).reshape(*rows, hw.block_in)
        self._wgt = self.contents[Memory.WGT].view(np.int8).reshape(-1, hw.block_out, hw.block_in)
        self._acc = self.contents[Memory.ACC].view("<i4").reshape(*rows, hw.block_out)
        self._res = self.contents[Memory.RES].view(np.int8).reshape(*rows, hw.block_out)
        self._out = self.contents[Memory.OUT].view(np.int8).reshape(*rows, hw.block_out)

    def execute(self, stream: list[bytes]) -> None:
        """Run up to FINISH."""
        actions: dict[Opcode, Callable[[footprint.Values], None]] = {
            Opcode.LOAD: self._load,
            Opcode.STORE: self._store,
            Opcode.GEMM: self._gemm,
            Opcode.VECTOR: self._vector,
        }
        for self._index, encoded in enumerate(stream):
            try:
                instruction = Instruction.decode(encoded)
            except ProgramError as error:
                raise self._status(ErrorCode.ILLEGAL_OPCODE, ErrorUnit.FETCH) from error
            opcode, v = instruction.opcode, instruction.values
            if opcode == Opcode.FINISH:
                return
            unit = UNIT_OF[opcode]
            self._refuse(unit, footprint.field_fault(self._hw, opcode, v))
            self._pop(unit, v["pop"])
            actions[opcode](v)
            self.counters[f"{UNIT_NAMES[unit]}_instructions"] += 1
            self._push(unit, v["push"])
        self._index = len(stream)
        raise self._status(ErrorCode.NO_FINISH, ErrorUnit.FETCH)

    # -- errors and tokens --------------------------------------------------------------------

    def _status(self, code: ErrorCode, unit: ErrorUnit) -> DeviceStatusError:
        return DeviceStatusError(code=code, unit=unit, instruction=self._index)

    def _refuse(self, unit: Unit, code: ErrorCode) -> None:
        if code != ErrorCode.NONE:
            raise self._status(code, ErrorUnit(unit))

    def _pop(self, unit: Unit, mask: int) -> None:
        for source in Unit:
            if mask >> source & 1:
                if self._tokens[source, unit] == 0:
                    raise DeviceError(
                        "token underflow: program is not in a sequential order",
                        field=f"instruction {self._index}",
                        value=f"pop of a token from {source.name.lower()}",
                        remedy="emit the push before the pop",
                    )
                self._tokens[source, unit] -= 1

    def _push(self, unit: Unit, mask: int) -> None:
        for target in Unit:
            if mask >> target & 1:
                if self._tokens[unit, target] == MAX_TOKENS:
                    raise self._status(ErrorCode.TOKEN_OVERFLOW, ErrorUnit(unit))
                self._tokens[unit, target] += 1

    def _need(self, memory: Memory, tiles: footprint.Index) -> None:
        """Refuse a read of tiles that no instruction wrote."""
        if self._strict and not self._written[memory][tiles].all():
            missing = tiles[~self._written[memory][tiles]]
            raise ProgramError(
                f"reads a tile that no instruction wrote ({memory.name} {int(missing[0])})",
                field=f"instruction {self._index}",
                remedy="load or compute the tile first",
            )

    def _need_banks(self, unit: Unit, acc: footprint.Index, mask: int) -> None:
        if footprint.outside_banks(self._hw, acc, mask):
            raise self._status(ErrorCode.ACC_BANK, ErrorUnit(unit))

    def _count(self, counter: str, tiles: int) -> None:
        self.counters[counter] += tiles
        if 0 < self._max_tiles < self.counters[counter]:
            raise DeviceTimeoutError(
                f"the cycle limit of {self._max_tiles} was reached ({counter})",
                field=f"instruction {self._index}",
                remedy="raise max_cycles",
            )

    # -- instructions -------------------------------------------------------------------------

    def _load(self, v: footprint.Values) -> None:
        memory = Memory(v["memory"])
        pad = footprint.loaded_pad(self._hw, v)
        self._refuse(
            Unit.LOAD, footprint.transfer_fault(v, pad, self._hw.axi_bytes, self.dram.size)
        )
        walk = footprint.transfer(v, pad.tile_bytes)
        target = slice(walk.first, walk.first + walk.count)
        if memory == Memory.ACC:
            self._need_banks(Unit.LOAD, np.arange(target.start, target.stop), v["acc_banks"])
        self.contents[memory][target] = v["pad_value"] & 0xFF
        source = walk.dram[:, None] + np.arange(pad.tile_bytes)
        if v["diagonal"]:
            self.contents[memory][walk.tiles] = 0
            places = footprint.diagonal_places(self._hw, v)
            self.contents[memory][walk.tiles[:, None], places] = self.dram[source]
        elif v["int4"]:
            self.contents[memory][walk.tiles] = unpack_int4(self.dram[source], self._hw)
        else:
            self.contents[memory][walk.tiles] = self.dram[source]
        self._written[memory][target] = True
        self.counters["bytes_read"] += source.size

    def _store(self, v: footprint.Values) -> None:
        pad = self._pads[Memory.OUT]
        self._refuse(
            Unit.STORE, footprint.transfer_fault(v, pad, self._hw.axi_bytes, self.dram.size)
        )
        walk = footprint.transfer(v, pad.tile_bytes)
        self._need(Memory.OUT, walk.tiles)
        target = walk.dram[:, None] + np.arange(pad.tile_bytes)
        self.dram[target] = self.contents[Memory.OUT][walk.tiles]
        self.counters["bytes_written"] += target.size

    def _gemm(self, v: footprint.Values) -> None:
        first, last = v["uop_begin"], v["uop_begin"] + v["uop_count"]
        if last > self._pads[Memory.UOP].depth:
            raise self._status(ErrorCode.SRAM_RANGE, ErrorUnit.GEMM)
        self._need(Memory.UOP, np.arange(first, last))
        uops = footprint.Uops.from_bytes(self.contents[Memory.UOP][first:last])
        self._refuse(Unit.GEMM, footprint.gemm_fault(v, uops, self._pads))
        for block in footprint.gemm_blocks(v, uops):
            self._count("macs_tiles", block.acc.size)
            self._need_banks(Unit.GEMM, block.acc, v["acc_banks"])
            self._need(Memory.INP, block.inp)
            self._need(Memory.WGT, block.wgt)
            tiles, earliest = np.unique(block.acc, return_index=True)
            self._need(Memory.ACC, tiles[~block.fresh[earliest]])
            arithmetic.accumulate_products(self._acc, self._inp, self._wgt, block)
            self._written[Memory.ACC][tiles] = True

    def _vector(self, v: footprint.Values) -> None:
        self._refuse(Unit.VECTOR, footprint.vector_fault(v, self._pads))
        requant = v["op"] == VectorOp.REQUANT
        if v["hold"] or v["reduce"]:
            self._rows(v)
            return
        for block in footprint.vector_blocks(v):
            self._count("vector_tiles", block.src.size)
            if v["op"] != VectorOp.MOV:
                self._need_banks(Unit.VECTOR, block.src, v["acc_banks"])
            if v["operand"] == Operand.RES:
                self._need(Memory.RES, block.opd)
            if requant:
                self._requant(v, block)
            else:
                self._need_banks(Unit.VECTOR, block.dst, v["acc_banks"])
                self._alu(v, block)

    def _requant(self, v: footprint.Values, block: footprint.VectorBlock) -> None:
        self._need(Memory.ACC, block.src)
        self._need(Memory.PARAM, block.param)
        channels = (-1, self._hw.block_out, PARAM_BYTES_PER_CHANNEL)
        used, which = np.unique(block.param, return_inverse=True)
        params = arithmetic.decode_params(self.contents[Memory.PARAM][used].reshape(channels))
        if int(params["shift"].max()) > MAX_SHIFT:
            raise ProgramError(
                f"shift must be at most {MAX_SHIFT}",
                field=f"instruction {self._index}: PARAM",
                value=int(params["shift"].max()),
                remedy="choose a smaller multiplier",
            )
        result = arithmetic.requantise(
            self._acc[block.src],
            self._res[block.opd] if v["operand"] == Operand.RES else None,
            {name: values[which] for name, values in params.items()},
            _signed_byte(v["imm"]),
            _signed_byte(v["imm"] >> 8),
        )
        if v["lookup"]:
            self._need(Memory.TABLE, np.arange(self._hw.table_depth))
            entries = self.contents[Memory.TABLE][:, :TABLE_ROW_ENTRIES].reshape(-1)
            result = entries[result.view(np.uint8)].view(np.int8)
        self._out[block.dst] = result
        self._written[Memory.OUT][block.dst] = True

    def _rows(self, v: footprint.Values) -> None:
        """A VECTOR of the row unit, an outer iteration at a time."""
        put: set[int] = set()
        for o in range(v["iter_outer"]):
            row = {**v, "iter_outer": 1}
            for name in ("dst", "src", "opd"):
                row[f"{name}_base"] += o * v[f"{name}_outer"]
            self._count("vector_tiles", v["hold"] + bool(v["reduce"]))
            for block in footprint.vector_blocks(row):
                self._count("vector_tiles", block.src.size)
                sources = [block.src] if v["op"] != VectorOp.MOV else []
                operands = [block.opd] if v["hold"] else []
                for tiles in sources + operands:
                    self._need_banks(Unit.VECTOR, tiles, v["acc_banks"])
                    self._need_settled(put, tiles)
                # What is not reduced may be read again further on: `_alu` looks at it.
                for tiles in (sources if v["reduce"] else []) + operands:
                    self._need(Memory.ACC, tiles)
                self._need_banks(Unit.VECTOR, block.dst, v["acc_banks"])
                if v["operand"] == Operand.RES:
                    self._need(Memory.RES, block.opd)
                if not v["reduce"]:
                    self._alu(v, block, self._operand(v, block.opd))
                    continue
                source = self._acc[block.src % len(self._acc)]  # MOV may have any address
                values = arithmetic.vector_alu(
                    VectorOp(v["op"]), source, self._operand(v, block.opd)
                )
                target = block.dst[0]
                self._acc[target] = arithmetic.reduce_rows(Reduce(v["reduce"]), values, v["lanes"])
                self._written[Memory.ACC][target] = True
                put.add(int(target))

    def _operand(self, v: footprint.Values, opd: footprint.Index) -> footprint.Index:
        """The second operand of an operation on ACC."""
        operand: footprint.Index = np.array(v["imm"], dtype=np.int64)
        if v["hold"]:
            operand = self._acc[opd[0]].astype(np.int64)
        elif v["operand"] == Operand.RES:
            operand = self._res[opd].astype(np.int64)
        return operand

    def _need_settled(self, put: set[int], tiles: footprint.Index) -> None:
        """Refuse a read of tiles that the same instruction reduced rows to."""
        if put.intersection(tiles.tolist()):
            raise ProgramError(
                "reads a tile that it reduced an earlier row to",
                field=f"instruction {self._index}",
                remedy="give the reductions tiles of their own",
            )

    def _alu(
        self,
        v: footprint.Values,
        block: footprint.VectorBlock,
        held: npt.NDArray[np.int64] | None = None,
    ) -> None:
        op = VectorOp(v["op"])
        every = [slice(0, block.dst.size)]
        for part in every if op == VectorOp.MOV else _independent_parts(block):
            dst, src = block.dst[part], block.src[part]
            if op == VectorOp.MOV:
                src = dst  # any address of the right shape: MOV has no source
            else:
                self._need(Memory.ACC, src)
            operand = self._operand(v, block.opd[part]) if held is None else held
            self._acc[dst] = arithmetic.vector_alu(op, self._acc[src], operand)
            self._written[Memory.ACC][dst] = True


def _signed_byte(value: int) -> int:
    return ((value & 0xFF) ^ 0x80) - 0x80


def _independent_parts(block: footprint.VectorBlock) -> list[slice]:
    """Split iterations where one reads what an earlier one of its part wrote.

    Inside a part all reads may happen before all writes.
    """
    count = block.dst.size
    order = np.arange(count)
    depth = int(max(block.dst.max(), block.src.max())) + 1
    first_write: npt.NDArray[np.int64] = np.full(depth, count, dtype=np.int64)
    first_write[block.dst[::-1]] = order[::-1]
    if not (first_write[block.src] < order).any():
        return [slice(0, count)]
    parts: list[slice] = []
    start = 0
    writer: dict[int, int] = {}
    pairs = zip(block.dst.tolist(), block.src.tolist(), strict=True)
    for position, (dst, src) in enumerate(pairs):
        if writer.get(src, -1) >= start:
            parts.append(slice(start, position))
            start = position
        writer[dst] = position
    parts.append(slice(start, count))
    return parts
