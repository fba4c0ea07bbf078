# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.host.common.errors import ProgramError
from tilewright.host.machine import hwconfig, isa
from tilewright.host.machine.isa import (
    FORMATS,
    HEADER,
    PARAM_FIELDS,
    UOP_FIELDS,
    Instruction,
    Opcode,
    encode_uop,
    layout_bits,
    pack_fields,
    unpack_fields,
)

LAYOUTS = {**{o.name: f for o, f in FORMATS.items()}, "UOP": UOP_FIELDS, "PARAM": PARAM_FIELDS}


def bounds(field):
    if field.signed:
        return -(2 ** (field.bits - 1)), 2 ** (field.bits - 1) - 1
    return 0, 2**field.bits - 1


def values_of(layout, skip=()):
    return st.fixed_dictionaries(
        {f.name: st.integers(*bounds(f)) for f in layout if f.name not in skip}
    )


@st.composite
def instructions(draw):
    opcode = draw(st.sampled_from(Opcode))
    return Instruction(opcode, draw(values_of(FORMATS[opcode], skip={"opcode"})))


@settings(deadline=None)
@given(instructions())
def test_decode_inverts_encode(instruction):
    data = instruction.encode()
    assert len(data) == hwconfig.INSTRUCTION_BYTES
    assert Instruction.decode(data) == instruction


@settings(deadline=None)
@given(st.binary(min_size=32, max_size=32))
def test_any_word_decodes_to_fields_in_range_or_is_refused(data):
    if data[0] & 0xF not in list(Opcode):
        with pytest.raises(ProgramError, match="illegal opcode") as caught:
            Instruction.decode(data)
        assert caught.value.value == data[0] & 0xF
        return
    instruction = Instruction.decode(data)
    used = (1 << layout_bits(FORMATS[instruction.opcode])) - 1
    word = int.from_bytes(data, "little")
    assert int.from_bytes(instruction.encode(), "little") == word & used


@pytest.mark.parametrize("name", LAYOUTS)
@settings(deadline=None)
@given(data=st.data())
def test_packing_puts_each_field_after_the_one_before(name, data):
    layout = LAYOUTS[name]
    values = data.draw(values_of(layout))
    expected, position = 0, 0
    for field in layout:
        expected += (values[field.name] % 2**field.bits) * 2**position
        position += field.bits
    assert pack_fields(layout, values) == expected
    assert unpack_fields(layout, expected) == values


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_fit_their_words_and_names_are_unique(name):
    layout = LAYOUTS[name]
    limit = {"UOP": 8 * hwconfig.UOP_BYTES, "PARAM": 8 * hwconfig.PARAM_BYTES_PER_CHANNEL}.get(
        name, 8 * hwconfig.INSTRUCTION_BYTES
    )
    assert layout_bits(layout) <= limit
    assert len({f.name for f in layout}) == len(layout)
    assert all(f.meaning and f.bits > 0 for f in layout)


@pytest.mark.parametrize("opcode", Opcode)
def test_every_instruction_starts_with_the_header(opcode):
    assert FORMATS[opcode][: len(HEADER)] == HEADER


def test_zero_is_no_opcode_so_that_zeroed_memory_is_refused():
    with pytest.raises(ProgramError, match="illegal opcode"):
        Instruction.decode(bytes(32))


@pytest.mark.parametrize("length", [0, 31, 33])
def test_only_32_bytes_are_an_instruction(length):
    with pytest.raises(ProgramError, match="32 bytes"):
        Instruction.decode(bytes(length))


@pytest.mark.parametrize("name", LAYOUTS)
def test_values_beyond_a_field_are_refused_at_both_ends(name):
    for field in LAYOUTS[name]:
        low, high = bounds(field)
        for value in (low - 1, high + 1):
            with pytest.raises(ProgramError, match=f"from {low} to {high}") as caught:
                pack_fields(LAYOUTS[name], {field.name: value})
            assert (caught.value.field, caught.value.value) == (field.name, value)


def test_unknown_fields_are_refused_by_name():
    with pytest.raises(ProgramError, match="unknown field") as caught:
        Instruction(Opcode.FINISH, {"acc_base": 1}).encode()
    assert caught.value.field == "acc_base"


def largest(name):
    return next(p.high for p in hwconfig.PARAMETERS if p.name == name)


@pytest.mark.parametrize(
    ("buffer", "tile_bytes", "index_fields"),
    [
        # smallest legal tile of each scratchpad: batch 1, blocks of 4
        ("inp_bytes", 4, [("GEMM", "inp_base"), ("UOP", "inp"), ("LOAD", "sram_base")]),
        ("wgt_bytes", 16, [("GEMM", "wgt_base"), ("UOP", "wgt"), ("LOAD", "sram_base")]),
        ("acc_bytes", 16, [("GEMM", "acc_base"), ("UOP", "acc"), ("VECTOR", "src_base")]),
        ("out_bytes", 4, [("VECTOR", "dst_base"), ("STORE", "sram_base")]),
        ("res_bytes", 4, [("VECTOR", "opd_base"), ("LOAD", "sram_base")]),
        ("uop_bytes", 8, [("GEMM", "uop_begin"), ("LOAD", "sram_base")]),
        ("param_bytes", 64, [("VECTOR", "param_base"), ("LOAD", "sram_base")]),
    ],
)
def test_index_fields_reach_the_last_tile_of_the_largest_legal_buffer(
    buffer, tile_bytes, index_fields
):
    last = largest(buffer) // tile_bytes - 1
    for layout, name in index_fields:
        assert bounds(next(f for f in LAYOUTS[layout] if f.name == name))[1] >= last, (layout, name)


def test_a_phase_can_name_every_block_of_the_longest_tile():
    blocks = largest("block_in") // next(
        p.low for p in hwconfig.PARAMETERS if p.name == "block_out"
    )
    assert bounds(next(f for f in FORMATS[Opcode.LOAD] if f.name == "phase"))[1] >= blocks - 1


def test_a_count_of_micro_ops_can_name_all_of_them():
    field = next(f for f in FORMATS[Opcode.GEMM] if f.name == "uop_count")
    assert bounds(field)[1] >= largest("uop_bytes") // hwconfig.UOP_BYTES


@settings(deadline=None)
@given(values_of(UOP_FIELDS))
def test_micro_op_words_unpack_to_what_was_encoded(values):
    word = encode_uop(**{**values, "first": bool(values["first"])})
    assert word < 2**64
    assert unpack_fields(UOP_FIELDS, word) == values


def test_every_executing_opcode_has_a_unit_and_masks_hold_all_units():
    assert set(isa.UNIT_OF) == set(Opcode) - {Opcode.FINISH}
    assert set(isa.UNIT_OF.values()) == set(isa.Unit)
    widths = {f.name: f.bits for f in HEADER}
    assert widths["pop"] == widths["push"] == len(isa.Unit)


def test_enumerations_fit_their_fields():
    def bits(opcode, name):
        return next(f.bits for f in FORMATS[opcode] if f.name == name)

    assert max(Opcode) < 2 ** bits(Opcode.FINISH, "opcode")
    assert max(isa.Memory) < 2 ** bits(Opcode.LOAD, "memory")
    assert max(isa.VectorOp) < 2 ** bits(Opcode.VECTOR, "op")
    assert max(isa.Operand) < 2 ** bits(Opcode.VECTOR, "operand")
    assert 2 ** next(f.bits for f in PARAM_FIELDS if f.name == "shift") > isa.MAX_SHIFT
