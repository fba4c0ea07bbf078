# SPDX-License-Identifier: Apache-2.0
from tilewright.host.machine.isa import Unit
from tilewright.host.machine.registers import (
    COUNTER_BASE,
    COUNTERS,
    DEVICE_ID,
    ERROR_TEXT,
    REGISTERS,
    UNIT_NAMES,
    ErrorCode,
    ErrorUnit,
    WaitState,
)


def words():
    """Byte offsets of all 32-bit words: control registers, then two a counter."""
    yield from ((r.name, r.offset) for r in REGISTERS)
    for index, (name, _) in enumerate(COUNTERS):
        yield f"{name}_lo", COUNTER_BASE + 8 * index
        yield f"{name}_hi", COUNTER_BASE + 8 * index + 4


def test_no_two_words_share_an_address_or_a_name():
    offsets = [offset for _, offset in words()]
    names = [name for name, _ in words()]
    assert len(set(offsets)) == len(offsets)
    assert len(set(names)) == len(names)


def test_words_are_aligned_and_inside_one_page():
    assert all(offset % 4 == 0 and 0 <= offset < 4096 for _, offset in words())
    assert max(r.offset for r in REGISTERS) < COUNTER_BASE
    assert COUNTER_BASE % 8 == 0


def test_access_is_one_of_three_kinds_and_every_register_says_what_it_means():
    assert {r.access for r in REGISTERS} == {"ro", "rw", "w1c"}
    assert all(r.meaning for r in REGISTERS)


def test_64_bit_registers_are_pairs_low_word_first():
    offsets = {r.name: r.offset for r in REGISTERS}
    pairs = [name[:-3] for name in offsets if name.endswith("_LO")]
    assert {name[:-3] for name in offsets if name.endswith("_HI")} == set(pairs)
    assert pairs
    assert all(offsets[f"{p}_HI"] == offsets[f"{p}_LO"] + 4 for p in pairs)


def test_device_id_spells_its_name():
    assert DEVICE_ID.to_bytes(4, "big") == b"TWR1"


def test_every_error_has_a_text_and_fits_its_field():
    assert set(ERROR_TEXT) == set(ErrorCode)
    assert len(set(ERROR_TEXT.values())) == len(ErrorCode)
    assert max(ErrorCode) < 256
    assert max(ErrorUnit) < 16
    assert max(WaitState) < 16


def test_unit_numbers_agree_with_the_instruction_set():
    for unit in Unit:
        assert UNIT_NAMES[unit] == unit.name.lower()
        assert ErrorUnit[unit.name] == unit
        assert WaitState[f"TOKEN_{unit.name}"] - WaitState.TOKEN_LOAD == unit


def test_each_unit_counts_every_state_but_a_token_from_itself():
    names = [name for name, _ in COUNTERS]
    for unit in UNIT_NAMES:
        others = [u for u in UNIT_NAMES if u != unit]
        states = {"busy", "memory", "idle", *(f"token_{u}" for u in others)}
        found = {n.removeprefix(f"{unit}_") for n in names if n.startswith(f"{unit}_")}
        assert found - {"tiles"} == states | {"instructions"}
    assert names[0] == "cycles"
