# SPDX-License-Identifier: Apache-2.0
"""tw_acc against an array: GEMM, VECTOR and LOAD each in banks of their own, then swapped."""

from __future__ import annotations

from typing import Any

import cocotb
import numpy as np
from bench import KNOBS, Knob, generator, parameters, start_clock
from cocotb.triggers import RisingEdge

from tilewright.host.machine.isa import pack_fields
from tilewright.host.machine.wires import SPAD_WRITE


def _bytes(data: np.ndarray) -> int:
    return int.from_bytes(data.tobytes(), "little")


def _at(tile: int, **fields: int) -> int:
    return pack_fields(SPAD_WRITE, {"tile": tile, **fields})


def _write(dut: Any, unit: str, address: int, row: np.ndarray, rng: np.random.Generator) -> None:
    """Drive a random write of a unit to a tile; ``row`` becomes what the tile then holds."""
    p = parameters()
    tile, part, width = p["TileBytes"], p["PartBytes"], p["BeatBytes"]
    size = {"gemm": tile, "vec": part, "load": width}[unit]
    data = rng.integers(0, 256, size, dtype=np.uint8)
    which = int(rng.integers(tile // size))
    pad = unit == "load" and bool(rng.random() < 0.3)
    if unit == "load":
        dut.load_write_at_i.value = _at(address, slice=which, pad=int(pad))
    else:
        getattr(dut, f"{unit}_write_addr_i").value = address
    if unit == "vec":
        dut.vec_write_part_i.value = which
    if pad:
        row[:] = np.tile(data, tile // size)
    else:
        row[which * size : (which + 1) * size] = data
    getattr(dut, f"{unit}_write_data_i").value = _bytes(data)


@cocotb.test()
@cocotb.parametrize(knob=KNOBS)
async def units_in_different_banks_do_not_disturb_each_other(dut: Any, knob: str) -> None:
    rng = generator("acc" + knob)
    flow, p = Knob(knob, rng), parameters()
    tile, width, banks = p["TileBytes"], p["BeatBytes"], p["Banks"]
    depth = p["TotalBytes"] // tile
    rows = depth // banks
    memory = np.zeros((depth, tile), dtype=np.uint8)
    await start_clock(dut)
    strobes = ("gemm_read_i", "gemm_write_i", "vec_read_i", "vec_write_i", "load_write_i")
    for name in strobes:
        getattr(dut, name).value = 0
    # Fill everything through LOAD, so that nothing is unknown.
    for address in range(depth):
        data = rng.integers(0, 256, width, dtype=np.uint8)
        dut.load_write_i.value, dut.load_write_at_i.value = 1, _at(address, pad=1)
        dut.load_write_data_i.value = _bytes(data)
        memory[address] = np.tile(data, tile // width)
        await RisingEdge(dut.clk_i)
    dut.load_write_i.value = 0
    held: dict[str, np.ndarray] = {}
    new: dict[str, np.ndarray] = {}
    owners = list(range(banks))
    for cycle in range(2500):
        if cycle % 50 == 0:
            owners = rng.permutation(max(banks, 3)).tolist()
        mine = {unit: owners[i] for i, unit in enumerate(("gemm", "vec", "load"))}
        before = memory.copy()
        for unit in ("gemm", "vec"):
            read = mine[unit] < banks and not flow.sink_pauses()
            getattr(dut, f"{unit}_read_i").value = int(read)
            if read:
                address = mine[unit] * rows + int(rng.integers(min(rows, 5)))
                getattr(dut, f"{unit}_read_addr_i").value = address
                new[unit] = before[address].copy()
        for unit in ("gemm", "vec", "load"):
            write = mine[unit] < banks and not flow.source_pauses()
            getattr(dut, f"{unit}_write_i").value = int(write)
            if not write:
                continue
            address = mine[unit] * rows + int(rng.integers(min(rows, 5)))
            _write(dut, unit, address, memory[address], rng)
        await RisingEdge(dut.clk_i)
        for unit, data in held.items():
            assert int(getattr(dut, f"{unit}_read_data_o").value) == _bytes(data), (
                f"{unit}, cycle {cycle}"
            )
        held, new = new, {}
    assert held or knob == "back-pressure"
