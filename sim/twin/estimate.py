# SPDX-License-Identifier: Apache-2.0
"""Closed-form estimate of a program's cycles: the `model` fidelity.

One pass over the instruction stream. Every unit takes its instructions in order; an instruction
starts when its unit is free, its tokens have arrived and no other unit holds its ACC banks; it
lasts as long as its loops and beats say. The two bus directions are resources of their own, and a
LOAD frees its unit when its bursts are issued, before its data has arrived. What is left out
(arbitration burst by burst, the two directions competing for a shared DRAM, page
effects, queue limits) makes it an estimate: it ranks schedules, it never stands for a measurement.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.hwconfig import INSTRUCTION_BYTES, HwConfig
from tilewright.host.machine.isa import FORMATS, UNIT_OF, Memory, Opcode, Unit, VectorOp
from tilewright.host.machine.program import Program
from tilewright.host.network.layout import diagonal_bytes

_TAKE: Final = 3
"""Cycles from a token or a queue entry to the first effect of an instruction."""

_LOAD_SETUP: Final = 3
"""Cycles of LOAD and STORE to start an instruction's bursts."""

_VECTOR_TAIL: Final = 7
_PARAM_RELOAD: Final = 9
"""Cycles that a change of PARAM entries adds to the reads of its rows."""

_START: Final = 12
"""Cycles from the start write to the arrival of the first instruction, without the latency."""


@dataclass(frozen=True)
class _Slice:
    shift: int
    mask: int


_FIELDS: Final[dict[Opcode, dict[str, _Slice]]] = {}
for _opcode, _layout in FORMATS.items():
    _position, _slices = 0, {}
    for _field in _layout:
        _slices[_field.name] = _Slice(_position, (1 << _field.bits) - 1)
        _position += _field.bits
    _FIELDS[_opcode] = _slices


class Estimator:
    """Estimates programs of one configuration against one memory.

    Args:
        hw: configuration of the programs.
        memory: DRAM timing.
    """

    def __init__(self, hw: HwConfig, memory: MemoryModel) -> None:
        self._hw = hw
        self._memory = memory
        beat = hw.axi_bytes
        shared = memory.shared_bytes_per_cycle
        self._read_beat = max(1.0, beat / memory.read_bytes_per_cycle)
        self._write_beat = max(1.0, beat / memory.write_bytes_per_cycle)
        self._shared_beat = beat / shared if shared else 0.0
        self._tile_bytes = {
            Memory.INP: hw.inp_tile_bytes,
            Memory.WGT: hw.wgt_tile_bytes,
            Memory.ACC: hw.acc_tile_bytes,
            Memory.UOP: 8,
            Memory.PARAM: hw.param_tile_bytes,
            Memory.RES: hw.out_tile_bytes,
        }
        self._diagonal_bytes = diagonal_bytes(block_in=hw.block_in, block_out=hw.block_out)
        self._parts = hw.out_tile_bytes // hw.vector_lanes
        self._param_rows = max(1, hw.param_tile_bytes // max(32, hw.axi_bytes))

    def cycles(self, program: Program) -> int:
        """Estimated cycles from start to the last write response."""
        run = _Run(self._hw.acc_banks)
        latency = self._memory.read_latency
        read_rate = max(self._read_beat, self._shared_beat)
        window = self._hw.read_outstanding * self._hw.axi_burst_beats
        fetched = float(latency + _START)
        fetch_beats = INSTRUCTION_BYTES / self._hw.axi_bytes * read_rate
        stream = program.instructions
        for at in range(0, len(stream), INSTRUCTION_BYTES):
            word = int.from_bytes(stream[at : at + INSTRUCTION_BYTES], "little")
            opcode = Opcode(word & 0xF)
            fetched += fetch_beats
            if opcode is Opcode.FINISH:
                break
            unit = UNIT_OF[opcode]
            fields = _FIELDS[opcode]
            start = run.start(unit, word, fetched)
            if opcode is Opcode.GEMM:
                length = _get(word, fields, "uop_count") * (
                    _get(word, fields, "iter_outer") * _get(word, fields, "iter_inner")
                )
                run.occupy(unit, word, start, length, self._hw.mac_pipeline + 6)
            elif opcode is Opcode.VECTOR:
                run.occupy(unit, word, start, self._vector_cycles(word, fields), _VECTOR_TAIL)
            elif opcode is Opcode.LOAD:
                diagonal = _get(word, fields, "diagonal")
                tile = self._tile_bytes[Memory(_get(word, fields, "memory"))]
                beats, bursts, rows = self._transfer(
                    word, fields, self._diagonal_bytes if diagonal else tile
                )
                issue = _LOAD_SETUP + rows + bursts
                data_start = max(run.read_free, start + _LOAD_SETUP + latency + 3)
                # A beat of several diagonals is placed one of them a cycle.
                tiles = rows * _get(word, fields, "x_size") * diagonal
                end = data_start + max(beats * read_rate, tiles)
                run.read_free = end
                free = max(start + issue, end - latency - window * read_rate)
                pads = self._padding(word, fields)
                run.finish(unit, word, max(free, start + pads), max(end, start + pads) + 1)
            else:
                beats, bursts, rows = self._transfer(word, fields, self._hw.out_tile_bytes)
                begin = max(run.write_free, start + _LOAD_SETUP + 4)
                per_burst = (self._memory.write_latency + self._hw.axi_burst_beats + 4) / (
                    self._hw.write_outstanding
                )
                end = begin + max(
                    beats * max(self._write_beat, self._shared_beat), bursts * per_burst
                )
                run.write_free = end
                issue = _LOAD_SETUP + rows + bursts
                run.finish(unit, word, max(start + issue, end - per_burst), end + 2)
                run.last_write = end + self._memory.write_latency + 2
        return round(max(run.end, run.last_write))

    def _vector_cycles(self, word: int, fields: dict[str, _Slice]) -> int:
        outer, inner = _get(word, fields, "iter_outer"), _get(word, fields, "iter_inner")
        length = outer * inner * self._parts
        if _get(word, fields, "op") == VectorOp.REQUANT:
            reloads = outer if _get(word, fields, "param_step") else 1
            length += reloads * (self._param_rows + _PARAM_RELOAD)
        return length

    def _transfer(self, word: int, fields: dict[str, _Slice], tile: int) -> tuple[int, int, int]:
        """(beats, bursts, rows) of a LOAD or STORE."""
        rows = _get(word, fields, "y_size") * _get(word, fields, "z_size")
        row_bytes = _get(word, fields, "x_size") * tile
        if rows == 0 or row_bytes == 0:
            return 0, 0, 0
        beats = -(-row_bytes // self._hw.axi_bytes)
        return rows * beats, rows * -(-beats // self._hw.axi_burst_beats), rows

    @staticmethod
    def _padding(word: int, fields: dict[str, _Slice]) -> int:
        """Cycles of writing the padding, on an idle bus."""
        left, right = _get(word, fields, "pad_left"), _get(word, fields, "pad_right")
        top, bottom = _get(word, fields, "pad_top"), _get(word, fields, "pad_bottom")
        if not left + right + top + bottom:
            return 0
        width = left + _get(word, fields, "x_size") + right
        y_size = _get(word, fields, "y_size")
        plane = (top + bottom) * (width + 2) + y_size * (left + right + 4)
        return plane * _get(word, fields, "z_size")


def _get(word: int, fields: dict[str, _Slice], name: str) -> int:
    part = fields[name]
    return word >> part.shift & part.mask


class _Run:
    """When units, tokens, banks and the bus are free; in cycles."""

    def __init__(self, banks: int) -> None:
        self.read_free = self.write_free = self.last_write = self.end = 0.0
        self._free = [0.0] * len(Unit)
        self._tokens: list[list[deque[float]]] = [[deque() for _ in Unit] for _ in Unit]
        self._bank_free = [[0.0] * max(4, banks) for _ in Unit]

    def start(self, unit: Unit, word: int, fetched: float) -> float:
        """The cycle in which an instruction starts; pops its tokens."""
        begin = max(self._free[unit], fetched)
        pop = word >> 4 & 0xF
        for source in Unit:
            if pop >> source & 1:
                begin = max(begin, self._tokens[unit][source].popleft() + _TAKE)
        for bank in range(4):
            if word >> 12 + bank & 1:
                for other in Unit:
                    if other is not unit:
                        begin = max(begin, self._bank_free[other][bank])
        return begin

    def occupy(self, unit: Unit, word: int, start: float, length: int, tail: int) -> None:
        """An instruction that holds its unit for `length` cycles, and its banks to the tail."""
        for bank in range(4):
            if word >> 12 + bank & 1:
                self._bank_free[unit][bank] = start + length + tail
        self.finish(unit, word, start + length, start + length + tail)

    def finish(self, unit: Unit, word: int, free: float, done: float) -> None:
        """Free the unit and push the tokens."""
        self._free[unit] = free
        self.end = max(self.end, done)
        push = word >> 8 & 0xF
        for target in Unit:
            if push >> target & 1:
                self._tokens[target][unit].append(done)
