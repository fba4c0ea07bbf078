# SPDX-License-Identifier: Apache-2.0
"""Programs for corners that random programs do not reach: many bursts, wide pads, long streams."""

import numpy as np

from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.isa import Instruction, Memory, Opcode, VectorOp
from tilewright.host.machine.program import Program
from tilewright.host.network.layout import pack_params
from tilewright.host.network.requant import RequantParams
from tilewright.host.runtime.device import Bytes
from tilewright.sim.programs.directed import (
    DATA,
    Step,
    build,
    changed,
    legal_steps,
    of_stream,
)
from tilewright.testing.device_contract import data_image


def loads(hw: HwConfig, count: int, beats: int = 3) -> list[Step]:
    """LOADs of ``beats`` bus beats each, one behind the other in memory and not aligned."""
    tiles = max(1, beats * hw.axi_bytes // hw.inp_tile_bytes)
    size = tiles * hw.inp_tile_bytes
    values = {"memory": Memory.INP, "x_size": tiles, "y_size": 1, "z_size": 1}
    return [(Opcode.LOAD, {**values, "dram_offset": DATA + 4096 + k * size}) for k in range(count)]


def stores(hw: HwConfig, count: int, bursts: int = 3) -> list[Step]:
    """STOREs of ``bursts`` rows, each row a burst, after what they store was computed."""
    steps = legal_steps(hw)
    steps["alu"] = changed(steps["alu"], iter_outer=bursts)
    steps["requant"] = changed(steps["requant"], iter_outer=bursts, dst_outer=1)
    store = steps.pop("store")
    pitch = max(1, 64 // hw.out_tile_bytes)  # a row has its own beats on every bus
    made: list[Step] = list(steps.values())
    for k in range(count):
        store = changed(store, dram_offset=DATA + 16384 + k * 4096, y_size=bursts, y_stride=pitch)
        made.append(store if not k else changed(store, pop=0))
    return made


def stream(hw: HwConfig, head: list[Step], body: Step, count: int, tail: list[Step]) -> Program:
    """``head``, then ``count`` times ``body``, then ``tail``, then FINISH."""
    parts = [Instruction(*step).encode() for step in head]
    parts += [Instruction(*body).encode()] * count
    parts += [Instruction(*step).encode() for step in tail]
    return of_stream(hw, b"".join(parts))


def wide_pads(hw: HwConfig) -> tuple[Program, Bytes]:
    """LOAD with 80 tiles of padding between the data of two rows, copied to OUT and stored."""
    pads = {"pad_left": 40, "pad_right": 40, "pad_value": 17}
    count = 2 * (1 + 40 + 40)
    one = {"x_size": 1, "y_size": 1, "z_size": 1}
    values = {"memory": Memory.RES, **one, "y_size": 2, "y_stride": 41, "dram_offset": DATA + 4096}
    requant = legal_steps(hw)["requant"][1]
    copied = {**requant, "op": VectorOp.REQUANT, "operand": 1, "iter_outer": count, "pop": 1}
    offset = DATA + 8192
    program = build(
        hw,
        (Opcode.LOAD, {**one, "memory": Memory.ACC, "dram_offset": DATA + 4096, "acc_banks": 1}),
        (Opcode.LOAD, {**one, "memory": Memory.PARAM, "dram_offset": offset}),
        (Opcode.LOAD, {**values, **pads, "push": 0b0100}),
        (Opcode.VECTOR, {**copied, "dst_outer": 1, "opd_outer": 1}),
        (Opcode.STORE, {**one, "x_size": count, "dram_offset": DATA + 16384, "pop": 0b0100}),
    )
    none = np.zeros(hw.block_out, dtype=np.int64)
    residual = RequantParams(bias=none, m1=none, m2=none + 1, shift=none + 8, zero_point=none)
    image = data_image(program)
    packed = pack_params(residual, block_out=hw.block_out)
    image[offset : offset + packed.size] = packed
    return program, image
