# SPDX-License-Identifier: Apache-2.0
"""Checks of corners where faults survived: answers, wide pads, long streams, large counts."""

from __future__ import annotations

from typing import Final

from mutation.models import Model, expect, judged
from support.programs.corner_programs import loads, stores, stream, wide_pads
from support.programs.rtl import IDEAL, MAX_CYCLES

from tilewright.host.machine.isa import Opcode
from tilewright.host.machine.registers import ErrorCode
from tilewright.testing.device_contract import build, data_image, legal_steps

_LONG: Final = 66_000
"""Instructions: more than 16 bits count."""

_BYTES_BITS: Final = 24
"""A run reads more bytes than a counter of so many bits holds."""


def answers(model: Model) -> None:
    """A refused burst is an error of its STORE, whichever of its bursts it is."""
    device = model.device(IDEAL)
    bursts = 3
    steps = stores(model.hw, 3, bursts)
    program = build(model.hw, *steps)
    image = data_image(program)
    for index in range(len(steps) - 3, len(steps)):
        values = steps[index][1]
        for row in range(bursts):
            place = values["dram_offset"] + row * values["y_stride"] * model.hw.out_tile_bytes
            device.inject_fault(place, 1, on_reads=False)
            with expect(ErrorCode.AXI_WRITE) as error:
                device.run(program, image, max_cycles=MAX_CYCLES)
            assert error.value.instruction == index, f"burst {row} of {index}: {error.value}"
    device.close()


def pads(model: Model) -> None:
    """80 tiles of padding between the data of two rows."""
    device = model.device(IDEAL)
    judged("wide pads", model.hw, *wide_pads(model.hw)).check(device)
    device.close()


def long_stream(model: Model) -> None:
    """An instruction behind more than 2^16 others is named by its whole index."""
    device = model.device(IDEAL)
    opcode, values = legal_steps(model.hw)["alu"]
    plain = {**values, "pop": 0}
    program = stream(model.hw, [], (opcode, plain), _LONG, [(opcode, {**plain, "op": 15})])
    with expect(ErrorCode.ILLEGAL_FIELD) as error:
        device.run(program, program.image())
    assert error.value.instruction == _LONG, error.value
    device.close()


def large_counts(model: Model) -> None:
    """A counter goes on behind 2^24: bytes of many LOADs, which a wide bus reads in little time."""
    device = model.device(IDEAL)
    hw = model.hw
    tiles = hw.inp_depth
    opcode, values = loads(hw, 1)[0]
    assert opcode is Opcode.LOAD
    size = tiles * hw.inp_tile_bytes
    count = (1 << _BYTES_BITS) // size + 2
    program = stream(hw, [], (opcode, {**values, "x_size": tiles}), count, [])
    found = device.run(program, data_image(program)).counters["bytes_read"]
    # The instructions are read too, and some bytes behind them.
    most = count * size + len(program.instructions) + 4096
    assert count * size < found < most, f"{found} bytes read, not {count * size} and some"
    device.close()
