# SPDX-License-Identifier: Apache-2.0
"""Address arithmetic against plain nested loops, and faults at the exact edge of each range."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.programs import loops

from tilewright.host.common.errors import ProgramError
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.machine.isa import (
    UOP_FIELDS,
    Field,
    Memory,
    Opcode,
    Operand,
    Reduce,
    VectorOp,
    encode_uop,
)
from tilewright.host.machine.registers import ErrorCode
from tilewright.sim.reference import footprint
from tilewright.sim.reference.footprint import (
    Scratchpad,
    Uops,
    diagonal_places,
    field_fault,
    gemm_blocks,
    gemm_fault,
    loadable,
    loaded_pad,
    loop_blocks,
    outside_banks,
    transfer,
    transfer_fault,
    unpack_words,
    vector_blocks,
    vector_fault,
)

TINY = load_hwconfig("tiny-4x4")
SIZE = st.integers(1, 4)
STEP = st.integers(0, 5)
TRANSFERS = st.fixed_dictionaries(
    {
        **{n: st.integers(0, 3) for n in ("x_size", "y_size")},
        "z_size": SIZE,
        **{n: st.integers(0, 9) for n in ("y_stride", "z_stride", "sram_base")},
        **{f"pad_{side}": st.integers(0, 2) for side in ("left", "right", "top", "bottom")},
        "dram_offset": st.integers(0, 20).map(lambda n: 8 * n),
    }
)


@given(v=TRANSFERS, tile_bytes=st.sampled_from([8, 32]))
def test_a_transfer_walks_planes_rows_and_columns(v, tile_bytes):
    steps, found = list(loops.tiles(v)), transfer(v, tile_bytes)
    loaded = [(t, v["dram_offset"] + tile_bytes * d) for t, d, _ in steps if d is not None]
    assert list(zip(found.tiles.tolist(), found.dram.tolist(), strict=True)) == loaded
    assert [t for t, *_ in steps] == list(range(found.first, found.first + found.count))


@given(v=TRANSFERS, depth=st.integers(1, 60), memory_bytes=st.integers(0, 500))
def test_a_transfer_is_faulty_exactly_when_its_walk_leaves_a_memory(v, depth, memory_bytes):
    pad, steps = Scratchpad(depth=depth, tile_bytes=8), list(loops.tiles(v))
    if not steps:
        expected = ErrorCode.ILLEGAL_FIELD
    elif steps[-1][0] >= depth:
        expected = ErrorCode.SRAM_RANGE
    elif any(d is not None and v["dram_offset"] + 8 * d + 8 > memory_bytes for _, d, _ in steps):
        expected = ErrorCode.DRAM_RANGE
    else:
        expected = ErrorCode.NONE
    assert transfer_fault(v, pad, 8, memory_bytes) == expected


@pytest.mark.parametrize(("tile_bytes", "axi_bytes", "step"), [(4, 8, 4), (16, 8, 8), (8, 8, 8)])
def test_alignment_is_to_the_smaller_of_tile_and_beat(tile_bytes, axi_bytes, step):
    shape = {"x_size": 1, "y_size": 1, "z_size": 1, "y_stride": 0, "z_stride": 0, "sram_base": 0}
    pad = Scratchpad(depth=4, tile_bytes=tile_bytes)
    codes = {
        offset: transfer_fault({**shape, "dram_offset": offset}, pad, axi_bytes, 4096)
        for offset in range(33)
    }
    wrong = {offset for offset, code in codes.items() if code == ErrorCode.DRAM_ALIGNMENT}
    assert wrong == {offset for offset in codes if offset % step}


@pytest.mark.parametrize(
    ("block_in", "block_out", "phase", "blocks"),
    [(4, 4, 3, [0, 0, 0, 0]), (4, 16, 3, [3, 0, 1, 2]), (16, 4, 5, [1, 2, 3, 0])],
)
def test_diagonals_move_from_block_to_block_with_each_row(block_in, block_out, phase, blocks):
    hw = TINY.with_(block_in=block_in, block_out=block_out)
    shape = {"x_size": 3, "y_size": 2, "z_size": 2, "phase": phase, "diagonal": 1}
    assert loaded_pad(hw, {**shape, "memory": Memory.WGT}).tile_bytes == 4
    places = diagonal_places(hw, shape).reshape(4, 3, 4)
    outputs, inputs = np.divmod(places, block_in)
    expected = np.broadcast_to(np.array(blocks)[:, None, None], places.shape)
    assert (outputs // 4 + inputs // 4 == expected).all()
    assert (outputs % 4 == np.arange(4)).all()
    assert (inputs % 4 == np.arange(4)).all()


@given(
    outer=st.integers(1, 40),
    inner=st.integers(1, 40),
    body=st.integers(1, 8),
    block=st.integers(1, 64),
)
def test_blocks_cover_a_loop_nest_once_in_order(outer, inner, body, block):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(footprint, "BLOCK", block)
        parts = list(loop_blocks(outer, inner, body))
    pairs = [(int(a), int(b)) for o, i in parts for a in o.ravel() for b in i.ravel()]
    assert pairs == [(a, b) for a in range(outer) for b in range(inner)]
    assert all(o.size * i.size * body <= max(block, body) for o, i in parts)


LOOPS = {"iter_outer": SIZE, "iter_inner": SIZE}


def affine(*names):
    return {f"{n}_{part}": STEP for n in names for part in ("base", "outer", "inner")}


@st.composite
def gemms(draw):
    uop = st.fixed_dictionaries({"inp": STEP, "wgt": STEP, "acc": STEP, "first": st.booleans()})
    rows = draw(st.lists(uop, min_size=1, max_size=4))
    packed = b"".join(encode_uop(**row).to_bytes(8, "little") for row in rows)
    uops = Uops.from_bytes(np.frombuffer(packed, np.uint8).reshape(-1, 8))
    v = draw(st.fixed_dictionaries(LOOPS | affine("acc", "inp", "wgt")))
    return v | {"uop_count": len(rows), "overwrite": draw(st.integers(0, 1))}, rows, uops


@settings(deadline=None)
@given(case=gemms())
def test_gemm_products_are_those_of_the_loop_nest(case):
    v, rows, uops = case
    blocks = list(gemm_blocks(v, uops))
    found = [
        tuple(entry)
        for b in blocks
        for entry in zip(
            *(getattr(b, n).tolist() for n in ("acc", "inp", "wgt", "fresh")), strict=True
        )
    ]
    assert found == list(loops.products(v, rows))


@given(case=gemms(), depth=st.integers(1, 60))
def test_a_gemm_is_faulty_exactly_when_a_product_is_out_of_range(case, depth):
    v, rows, uops = case
    pads = {m: Scratchpad(depth=depth, tile_bytes=4) for m in (Memory.ACC, Memory.INP, Memory.WGT)}
    wrong = any(max(p[:3]) >= depth for p in loops.products(v, rows))
    assert (gemm_fault(v, uops, pads) == ErrorCode.SRAM_RANGE) == wrong


VECTORS = st.fixed_dictionaries(
    LOOPS
    | affine("dst", "src", "opd")
    | {
        "param_base": STEP,
        "param_step": st.integers(0, 1),
        "op": st.sampled_from(list(VectorOp)),
        "operand": st.sampled_from(list(Operand)),
        "hold": st.integers(0, 1),
        "reduce": st.sampled_from(list(Reduce)),
    }
)


def iterations(v):
    for o, i in loops.nest(v):
        yield {
            **{n: loops.places(v, (n,), o, i * inner)[0]
               for n, inner in (("dst", not v["reduce"]), ("src", 1), ("opd", not v["hold"]))},
            "param": v["param_base"] + (o if v["param_step"] else 0),
        }  # fmt: skip


@given(v=VECTORS)
def test_vector_iterations_are_those_of_the_loop_nest(v):
    found = [
        dict(zip(("dst", "src", "opd", "param"), entry, strict=True))
        for b in vector_blocks(v)
        for entry in zip(
            b.dst.tolist(), b.src.tolist(), b.opd.tolist(), b.param.tolist(), strict=True
        )
    ]
    assert found == list(iterations(v))


@given(v=VECTORS, depths=st.tuples(*[st.integers(1, 40)] * 4))
def test_a_vector_is_faulty_exactly_when_a_used_operand_is_out_of_range(v, depths):
    memories = (Memory.ACC, Memory.OUT, Memory.RES, Memory.PARAM)
    pads = {m: Scratchpad(depth=d, tile_bytes=4) for m, d in zip(memories, depths, strict=True)}
    acc, out, res, param = depths
    requant = v["op"] == VectorOp.REQUANT
    wrong = any(
        i["dst"] >= (out if requant else acc)
        or (v["op"] != VectorOp.MOV and i["src"] >= acc)
        or (v["hold"] and i["opd"] >= acc)
        or (not v["hold"] and v["operand"] == Operand.RES and i["opd"] >= res)
        or (requant and i["param"] >= param)
        for i in iterations(v)
    )
    assert (vector_fault(v, pads) == ErrorCode.SRAM_RANGE) == wrong


@given(values=st.fixed_dictionaries({f.name: st.integers(0, 2**f.bits - 1) for f in UOP_FIELDS}))
def test_uops_decode_to_what_was_encoded(values):
    words = {n: values[n] for n in ("inp", "wgt", "acc")}
    word = encode_uop(**words, first=bool(values["first"]))
    uops = Uops.from_bytes(np.frombuffer(word.to_bytes(8, "little"), np.uint8).reshape(1, 8))
    found = {n: int(getattr(uops, n)[0]) for n in ("inp", "wgt", "acc", "first")}
    assert found == {**words, "first": values["first"]}


def test_a_field_that_straddles_words_is_refused():
    layout = tuple(
        Field(name=name, bits=bits, meaning="") for name, bits in (("low", 60), ("across", 8))
    )
    with pytest.raises(ProgramError, match="across"):
        unpack_words(layout, np.zeros((1, 2), np.uint64))


@given(
    tiles=st.lists(st.integers(0, TINY.acc_depth - 1), min_size=1, max_size=5),
    mask=st.integers(0, 15),
)
def test_tiles_lie_in_declared_banks_exactly_when_each_bank_is(tiles, mask):
    needed = 0
    for tile in tiles:
        needed |= TINY.acc_bank_mask(tile, 1)
    assert outside_banks(TINY, np.array(tiles), mask) == bool(needed & ~mask)


OFF = dict.fromkeys(("lookup", "hold", "reduce", "lanes"), 0)
"""What a VECTOR may ask for where hardware has the option."""


@pytest.mark.parametrize(("low", "high", "bad"), [(-128, 127, False), (5, 5, False), (5, 4, True)])
def test_inverted_clip_bounds_are_illegal(low, high, bad):
    v = {"pop": 0, "push": 0, "iter_outer": 1, "iter_inner": 1, "op": VectorOp.REQUANT,
         "imm": (low & 0xFF) | (high & 0xFF) << 8, **OFF}  # fmt: skip
    assert (field_fault(TINY, Opcode.VECTOR, v) == ErrorCode.ILLEGAL_FIELD) == bad


@pytest.mark.parametrize("table", [0, 1])
@pytest.mark.parametrize("op", list(VectorOp))
def test_a_look_up_needs_a_table_and_a_requantised_result(op, table):
    hw = TINY.with_(activation_table=table)
    v = {"pop": 0, "push": 0, "iter_outer": 1, "iter_inner": 1, "op": op, "imm": 0, **OFF}
    v["lookup"] = 1
    legal = table and op == VectorOp.REQUANT
    assert (field_fault(hw, Opcode.VECTOR, v) == ErrorCode.NONE) == legal
    assert (Memory.TABLE in loadable(hw)) == bool(table)


@pytest.mark.parametrize("unit", [0, 1])
@given(
    op=st.integers(0, 15),
    operand=st.sampled_from(list(Operand)),
    hold=st.integers(0, 1),
    reduce=st.sampled_from(list(Reduce)),
    lanes=st.sampled_from([0, 1, 63]),
)
def test_rows_need_a_row_unit_and_fields_that_fit_together(unit, op, operand, hold, reduce, lanes):
    hw = TINY.with_(row_unit=unit)
    v = {"pop": 0, "push": 0, "iter_outer": 1, "iter_inner": 1, "op": op, "imm": 0, "lookup": 0}
    v |= {"operand": operand, "hold": hold, "reduce": reduce, "lanes": lanes}
    if unit:
        plain = op != VectorOp.REQUANT or not (hold or reduce)
        legal = op <= 9 and plain and not (hold and operand) and not (lanes and not reduce)
    else:
        legal = op <= 6 and not (hold or reduce or lanes)
    assert (field_fault(hw, Opcode.VECTOR, v) == ErrorCode.NONE) == legal
