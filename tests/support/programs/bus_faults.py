# SPDX-License-Identifier: Apache-2.0
"""Which instruction a bus error must name: the model that the tests of ERROR_INSN share."""

from collections.abc import Iterator
from typing import Final

from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.isa import Instruction, Memory, Opcode
from tilewright.host.machine.program import Program
from tilewright.sim.reference.footprint import loaded_pad, scratchpads

_BYTES: Final = 32
"""Of an instruction."""


def decode(program: Program) -> list[Instruction]:
    """The instructions of a program."""
    data = program.instructions
    return [Instruction.decode(data[i : i + _BYTES]) for i in range(0, len(data), _BYTES)]


def beats_of(instruction: Instruction, hw: HwConfig) -> Iterator[int]:
    """Offsets of the bus beats that an instruction moves, in order; none but of LOAD and STORE."""
    if instruction.opcode not in (Opcode.LOAD, Opcode.STORE):
        return
    v = instruction.values
    if not v["x_size"]:
        return  # padding alone; its offset may be anything
    load = instruction.opcode == Opcode.LOAD
    tile = (loaded_pad(hw, v) if load else scratchpads(hw)[Memory.OUT]).tile_bytes
    for plane in range(v["z_size"]):
        for row in range(v["y_size"]):
            first = v["dram_offset"] + tile * (plane * v["z_stride"] + row * v["y_stride"])
            start = first - first % hw.axi_bytes
            yield from range(start, first + tile * v["x_size"], hw.axi_bytes)


def index_of_failure(
    program: Program, hw: HwConfig, bad: range, opcode: Opcode | None = None
) -> int:
    """The index that an error answer for beats at ``bad`` must give; opcode None: of a fetch.

    Each port is answered in order. So it is the first instruction of ``opcode`` with a bad beat;
    of a fetch the first instruction that the first bad beat holds.
    """

    def is_bad(beat: int) -> bool:
        return beat < bad.stop and beat + hw.axi_bytes > bad.start

    if opcode is None:
        region = program.regions["insn"].offset
        for beat in range(region, region + len(program.instructions), hw.axi_bytes):
            if is_bad(beat):
                return (beat - region) // _BYTES
    else:
        for index, instruction in enumerate(decode(program)):
            if instruction.opcode == opcode and any(map(is_bad, beats_of(instruction, hw))):
                return index
    raise ValueError(f"no beat of the program is in {bad}")
