# SPDX-License-Identifier: Apache-2.0
"""tw_load with a behavioural read engine and scratchpads against the definition of LOAD."""

from __future__ import annotations

from collections import deque
from typing import Any

import cocotb
import numpy as np
from bench import KNOBS, Knob, generator, parameters, reset, start_clock
from support.programs.loops import tiles
from units import Surroundings, answer, random_tokens, unpacked

from tilewright.host.machine.isa import Instruction, Memory, Opcode
from tilewright.host.machine.registers import ErrorCode
from tilewright.host.machine.wires import SPAD_WRITE

_SIZE = 1 << 16
_MEMORIES = {
    Memory.INP: "Inp", Memory.WGT: "Wgt", Memory.ACC: "Acc", Memory.UOP: "Uop",
    Memory.PARAM: "Par", Memory.RES: "Res", Memory.TABLE: "Table",
}  # fmt: skip
"""What the unit's parameters call the memories that it writes."""


class World:
    """DRAM behind the read engine's port, and what the write port did to the scratchpads."""

    def __init__(self, dut: Any, rng: np.random.Generator, knob: Knob) -> None:
        self.p = parameters()
        self._dut = dut
        self._rng = rng
        self._knob = knob
        fixed = {"UopTileBytes": 8, "TableTileBytes": self.p["BeatBytes"]}
        self.depth = {m: self.p[f"{name}Depth"] for m, name in _MEMORIES.items()}
        self.tile = {m: (self.p | fixed)[f"{name}TileBytes"] for m, name in _MEMORIES.items()}
        self.dram = rng.integers(0, 256, _SIZE, dtype=np.uint8)
        # Beats of scales of a WGT tile with 4-bit numbers, and all that it takes in DRAM.
        beats = self.tile[Memory.WGT] // (2 * self.p["BeatBytes"])
        self.chunk = min(beats, 2 * self.p["BeatBytes"]) if self.p["Int4Weights"] > 1 else beats
        extra = beats // self.chunk if self.p["Int4Weights"] > 1 else 0
        self.int4_tile = (beats + extra) * self.p["BeatBytes"]
        self.pads = {m: np.zeros((self.depth[m], self.tile[m]), dtype=np.uint8) for m in _MEMORIES}
        self._beats: deque[int] = deque()
        self._ready = 0
        self._now = 0
        self.bursts = 0
        dut.req_ready_i.value = 0
        dut.beat_valid_i.value = 0

    def stored(self, memory: int, diagonal: int, int4: int) -> int:
        """Bytes of a tile in DRAM."""
        return self.p["DiagBytes"] if diagonal else self.int4_tile if int4 else self.tile[memory]

    def int4(self, tile: np.ndarray) -> np.ndarray:
        """A tile of 4-bit numbers, beats of scales before those that they are for."""
        beats = tile.reshape(-1, self.p["BeatBytes"])
        if self.p["Int4Weights"] < 2:
            return signed_nibbles(tile)
        found = []
        for chunk in beats.reshape(-1, self.chunk + 1, self.p["BeatBytes"]):
            scales = np.stack([chunk[0] & 15, chunk[0] >> 4], axis=-1).reshape(-1)
            for scale, beat in zip(scales, chunk[1:], strict=False):
                found.append(signed_nibbles(beat).astype(np.int64) * (int(scale) + 1) & 0xFF)
        return np.concatenate(found).astype(np.uint8)

    def step(self) -> None:
        """One clock edge."""
        dut, width = self._dut, self.p["BeatBytes"]
        if int(dut.req_valid_o.value) and self._ready:
            address, beats = int(dut.req_addr_o.value), int(dut.req_len_o.value) + 1
            assert address % width == 0
            assert beats <= self.p["BurstBeats"]
            assert address // 4096 == (address + beats * width - 1) // 4096, "crosses 4 KiB"
            self._beats.extend(address + i * width for i in range(beats))
            self.bursts += 1
        one_hot = int(dut.write_mem_o.value)
        assert one_hot.bit_count() <= 1
        if one_hot:
            self._write(one_hot.bit_length() - 1)
        offer = bool(self._beats) and not self._knob.source_pauses()
        dut.beat_valid_i.value = int(offer)
        if offer:
            start = self._beats.popleft()
            beat = self.dram[start : start + width].tobytes()
            dut.beat_data_i.value = int.from_bytes(beat, "little")
        # No more beats in flight than a few bursts.
        room = len(self._beats) < 4 * self.p["BurstBeats"]
        self._ready = int(room and not self._knob.sink_pauses())
        dut.req_ready_i.value = self._ready

    def _write(self, memory: int) -> None:
        dut, width = self._dut, self.p["BeatBytes"]
        pad, tile = self.pads[memory], self.tile[memory]
        at = unpacked(dut.write_at_o, SPAD_WRITE)
        first = at["tile"]
        data = np.frombuffer(int(dut.write_data_o.value).to_bytes(width, "little"), dtype=np.uint8)
        if memory == Memory.ACC:
            bank = first >> self.p["AccBankShift"]
            assert int(dut.acc_lock_o.value) >> bank & 1, "write to an unlocked bank"
        if at["diagonal"]:
            assert memory == Memory.WGT
            assert not at["pad"]
            self._write_diagonal(pad[first], data, at)
        elif at["int4"]:
            assert memory == Memory.WGT
            assert not at["pad"]
            start = at["slice"] * 2 * width
            numbers = signed_nibbles(data).astype(np.int64) * (at["scale"] + 1)
            pad[first, start : start + 2 * width] = numbers & 0xFF
            assert self.p["Int4Weights"] > 1 or not at["scale"]
        elif tile >= width and at["pad"]:
            pad[first] = np.tile(data, tile // width)
        elif tile >= width:
            start = at["slice"] * width
            pad[first, start : start + width] = data
        else:
            lane = at["lane"]
            count = at["count"]
            assert count >= 1
            assert lane + count <= width // tile
            pad[first : first + count] = data.reshape(-1, tile)[lane : lane + count]

    def _write_diagonal(self, tile: np.ndarray, data: np.ndarray, at: dict[str, int]) -> None:
        """The tile's blocks are side by side; a tile of D bytes in DRAM is D x blocks x D."""
        size = self.p["DiagBytes"]
        rows = tile.reshape(size, -1)
        if size < data.size:
            lane = at["lane"]
            assert at["count"] == 1
            first, part = 0, data[size * lane : size * (lane + 1)]
        else:
            first, part = data.size * at["slice"], data
        column = size * at["phase"]
        for offset, value in enumerate(part):
            rows[first + offset] = 0
            rows[first + offset, column + first + offset] = value


def signed_nibbles(data: np.ndarray) -> np.ndarray:
    """The int8 numbers, as bytes, of 4-bit numbers two in a byte, the lower half first."""
    nibbles = np.stack([data & 15, data >> 4], axis=-1).reshape(-1)
    return (((nibbles ^ 8) - 8) & 0xFF).astype(np.uint8)


def random_load(rng: np.random.Generator, world: World) -> Instruction:
    """A legal instruction; padding where the memory allows it."""
    while True:
        memory = int(rng.choice([m for m in _MEMORIES if world.depth[m]]))
        diagonal = int(memory == Memory.WGT and rng.random() < 0.6)
        plain_wgt = memory == Memory.WGT and not diagonal
        int4 = int(plain_wgt and world.p["Int4Weights"] and rng.random() < 0.6)
        tile = world.stored(memory, diagonal, int4)
        depth = world.depth[memory]
        align = min(tile, world.p["BeatBytes"])
        x, y, z = (int(n) for n in rng.integers((0, 0, 1), (9, 4, 3)))
        pads = [0, 0, 0, 0]
        if memory != Memory.PARAM and rng.random() < 0.6:
            pads = [int(n) for n in rng.integers(0, 3, 4)]
        elif not x or not y:
            x, y = x + 1, y + 1
        count = (x + pads[0] + pads[1]) * (y + pads[2] + pads[3]) * z
        y_stride, z_stride = x + int(rng.integers(4)), (x + 3) * y + int(rng.integers(4))
        span = ((z - 1) * z_stride + max(y - 1, 0) * y_stride + x + 1) * tile
        if not 0 < count <= depth or span > _SIZE:
            continue
        base = int(rng.integers(depth - count + 1))
        banks = 0
        if memory == Memory.ACC:
            shift = world.p["AccBankShift"]
            banks = sum(1 << b for b in range(base >> shift, (base + count - 1 >> shift) + 1))
        return Instruction(
            Opcode.LOAD,
            {
                "memory": memory,
                "pad_value": int(rng.integers(-128, 128)),
                "sram_base": base,
                "dram_offset": int(rng.integers((_SIZE - span) // align + 1)) * align,
                "x_size": x,
                "y_size": y,
                "z_size": z,
                "y_stride": y_stride,
                "z_stride": z_stride,
                "pad_left": pads[0],
                "pad_right": pads[1],
                "pad_top": pads[2],
                "pad_bottom": pads[3],
                "acc_banks": banks,
                "diagonal": diagonal,
                "phase": int(rng.integers(16)),
                "int4": int4,
                **random_tokens(rng, 0),
            },
        )


def apply(instruction: Instruction, world: World, pads: dict[Memory, np.ndarray]) -> None:
    """Fill tile by tile."""
    v = instruction.values
    memory, size, blocks = Memory(v["memory"]), world.p["DiagBytes"], world.p["DiagBlocks"]
    tile = world.stored(memory, v["diagonal"], v["int4"])
    for at, place, row in tiles(v):
        if place is None:
            pads[memory][at] = v["pad_value"] & 0xFF
            continue
        start = v["dram_offset"] + tile * place
        data = world.dram[start : start + tile]
        if v["diagonal"]:
            block = (v["phase"] + row) % blocks
            square = np.zeros((size, blocks * size), dtype=np.uint8)
            square[:, block * size : (block + 1) * size] = np.diag(data)
            data = square.reshape(-1)
        elif v["int4"]:
            data = world.int4(data)
        pads[memory][at] = data


@cocotb.test()
@cocotb.parametrize(knob=KNOBS)
async def tiles_arrive_as_defined(dut: Any, knob: str) -> None:
    rng = generator("load" + knob)
    await start_clock(dut)
    world = World(dut, rng, Knob(knob, rng))
    program = [random_load(rng, world) for _ in range(100)]
    around = Surroundings(dut, world, program, rng, knob)
    await reset(dut)
    expected = {memory: pad.copy() for memory, pad in world.pads.items()}
    for instruction in program:
        apply(instruction, world, expected)
    await around.run()
    await around.cycles(3)
    assert not around.errors, around.errors
    assert answer(dut)["idle"]
    assert not int(dut.acc_lock_o.value)
    for memory, name in _MEMORIES.items():
        wrong = np.flatnonzero((world.pads[memory] != expected[memory]).any(axis=1))
        assert not wrong.size, f"{name}: tiles {wrong.tolist()} differ"


@cocotb.test()
async def a_token_is_pushed_only_when_the_tiles_are_written(dut: Any) -> None:
    rng = generator("load tokens")
    await start_clock(dut)
    world = World(dut, rng, Knob("idle", rng))
    program = [random_load(rng, world) for _ in range(60)]
    around = Surroundings(dut, world, program, rng)
    await reset(dut)
    expected = {memory: pad.copy() for memory, pad in world.pads.items()}
    for _ in range(4000 * len(program)):
        before = around.retired
        await around.cycles()
        if around.retired > before:
            v = program[before].values
            apply(program[before], world, expected)
            # The consumer sees the token a cycle after the push; the last write may be as late.
            await around.cycles()
            later = {
                i.values["memory"] for i in program[before + 1 : (around.taken or [0])[-1] + 1]
            }
            if v["memory"] not in later:
                assert (world.pads[v["memory"]] == expected[v["memory"]]).all(), f"{before}: {v}"
            for index in range(before + 1, around.retired):
                apply(program[index], world, expected)
        if around.done:
            return
    raise AssertionError(f"{around.retired} of {len(program)} instructions retired")


@cocotb.test()
@cocotb.parametrize(
    case=[
        ({"memory": 6}, ErrorCode.ILLEGAL_FIELD),
        ({"z_size": 0}, ErrorCode.ILLEGAL_FIELD),
        ({"memory": 4, "pad_left": 1}, ErrorCode.ILLEGAL_FIELD),
        *(({"memory": m, "diagonal": 1}, ErrorCode.ILLEGAL_FIELD) for m in (0, 2, 3, 4, 5, 7)),
        *(({"memory": m, "int4": 1}, ErrorCode.ILLEGAL_FIELD) for m in (0, 2, 3, 4, 5, 7)),
        ({"memory": 1, "int4": 1, "diagonal": 1}, ErrorCode.ILLEGAL_FIELD),
        ({"memory": 1, "int4": 1, "sram_base": 2**18 - 1}, ErrorCode.SRAM_RANGE),
        ({"pop": 1}, ErrorCode.ILLEGAL_FIELD),
        ({"push": 1}, ErrorCode.ILLEGAL_FIELD),
        ({"x_size": 1, "y_size": 1, "dram_offset": 1, "memory": 1}, ErrorCode.DRAM_ALIGNMENT),
        ({"sram_base": 2**18 - 1}, ErrorCode.SRAM_RANGE),
        ({"memory": 7, "sram_base": 2**18 - 1}, ErrorCode.SRAM_RANGE),
        ({"memory": 2, "acc_banks": 0, "sram_base": 0, "pad_left": 1}, ErrorCode.ACC_BANK),
        (
            {"memory": 2, "acc_banks": 0, "sram_base": 0, "x_size": 1, "y_size": 1},
            ErrorCode.ACC_BANK,
        ),
    ]
)
async def a_bad_field_is_reported_with_its_instruction(
    dut: Any, case: tuple[dict[str, int], ErrorCode]
) -> None:
    change, code = case
    rng = generator(f"load errors {sorted(change)}")
    await start_clock(dut)
    world = World(dut, rng, Knob("none", rng))
    if change.get("memory") == Memory.TABLE and not world.depth[Memory.TABLE]:
        code = ErrorCode.ILLEGAL_FIELD
    if change.get("int4") and not world.p["Int4Weights"]:
        code = ErrorCode.ILLEGAL_FIELD
    program = [random_load(rng, world) for _ in range(4)]
    plain = {"memory": 0, "dram_offset": 0, "sram_base": 0, "x_size": 2, "y_size": 1, "z_size": 1}
    plain |= {"diagonal": 0, "phase": 0, "int4": 0}
    plain |= {f"pad_{side}": 0 for side in ("left", "right", "top", "bottom")}
    program[2] = Instruction(Opcode.LOAD, {**program[2].values, **plain, **change})
    around = Surroundings(dut, world, program, rng, wrong={2: code})
    await reset(dut)
    await around.reports(code, 2)
