# SPDX-License-Identifier: Apache-2.0
"""Token insertion, judged by running streams on units of random relative speed."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.programs.bus_faults import decode

from tilewright.host.common.errors import ProgramError
from tilewright.host.lowering import program_builder
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.isa import FORMATS, UNIT_OF, Instruction, Opcode, Unit

HW = HwConfig()
OPCODE = {unit: opcode for opcode, unit in UNIT_OF.items()}
PACKERS = {
    Opcode.LOAD: program_builder.pack_load,
    Opcode.GEMM: program_builder.pack_gemm,
    Opcode.VECTOR: program_builder.pack_vector,
    Opcode.STORE: program_builder.pack_store,
}

KEYS = st.frozensets(st.sampled_from("abcd"), max_size=2)
STREAMS = st.lists(st.tuples(st.sampled_from(list(Unit)), KEYS, KEYS), max_size=40)


def build(stream):
    builder = program_builder.ProgramBuilder(HW)
    for unit, reads, writes in stream:
        builder.emit_word(unit, int(OPCODE[unit]), reads, writes)
    return decode(builder.finish({}, {}))


def conflicts(first, second):
    _, reads_1, writes_1 = first
    _, reads_2, writes_2 = second
    return bool(writes_1 & (reads_2 | writes_2) or writes_2 & reads_1)


def run_with_random_speeds(stream, instructions, rng):
    """Units in order, each at its own pace; returns leftover tokens."""
    queues = {u: [i for i, (unit, _, _) in enumerate(stream) if unit == u] for u in Unit}
    tokens, running, finished = Counter(), {}, set()
    while any(queues.values()) or running:
        moves = [("end", u) for u in running]
        for unit, queue in queues.items():
            if not queue or unit in running:
                continue
            pop = instructions[queue[0]].values["pop"]
            if all(tokens[s, unit] > 0 for s in Unit if pop >> s & 1):
                moves.append(("start", unit))
        assert moves, "deadlock"
        move, unit = rng.choice(moves)
        if move == "start":
            index = queues[unit].pop(0)
            for earlier in range(index):
                if conflicts(stream[earlier], stream[index]):
                    assert earlier in finished, f"{index} started before {earlier} ended"
            for source in Unit:
                tokens[source, unit] -= instructions[index].values["pop"] >> source & 1
            running[unit] = index
        else:
            index = running.pop(unit)
            finished.add(index)
            for target in Unit:
                tokens[unit, target] += instructions[index].values["push"] >> target & 1
    return +tokens


@settings(max_examples=200, deadline=None)
@given(stream=STREAMS, seed=st.integers(0, 2**32 - 1))
def test_conflicting_instructions_keep_stream_order_at_any_speed(stream, seed):
    instructions = build(stream)
    rng = random.Random(seed)
    for _ in range(4):
        assert not run_with_random_speeds(stream, instructions, rng)


@settings(max_examples=100, deadline=None)
@given(stream=STREAMS)
def test_stream_can_be_executed_sequentially_and_never_signals_itself(stream):
    tokens = Counter()
    for (unit, _, _), instruction in zip(stream, build(stream), strict=False):
        assert not (instruction.values["pop"] | instruction.values["push"]) >> unit & 1
        for other in Unit:
            tokens[other, unit] -= instruction.values["pop"] >> other & 1
            assert tokens[other, unit] >= 0
        for other in Unit:
            tokens[unit, other] += instruction.values["push"] >> other & 1
    assert not +tokens


def masks(instructions):
    return [(i.values["pop"], i.values["push"]) for i in instructions[:-1]]


def test_no_token_for_an_order_that_another_unit_passes_on():
    stream = [
        (Unit.LOAD, frozenset(), frozenset("a")),
        (Unit.GEMM, frozenset("a"), frozenset("b")),
        (Unit.VECTOR, frozenset("ab"), frozenset()),
    ]
    assert masks(build(stream))[2] == (1 << Unit.GEMM, 0)


@settings(max_examples=100, deadline=None)
@given(data=st.data(), opcode=st.sampled_from(list(PACKERS)))
def test_fast_packers_agree_with_the_isa_tables(data, opcode):
    values = {}
    for field in FORMATS[opcode]:
        if field.name in ("opcode", "pop", "push"):
            continue
        low = -(1 << (field.bits - 1)) if field.signed else 0
        values[field.name] = data.draw(st.integers(low, low + (1 << field.bits) - 1))
    assert PACKERS[opcode](**values).to_bytes(32, "little") == Instruction(opcode, values).encode()


@pytest.mark.parametrize("opcode", list(PACKERS))
def test_fast_packers_refuse_every_value_that_does_not_fit(opcode):
    for field in FORMATS[opcode]:
        if field.name in ("opcode", "pop", "push"):
            continue
        half = 1 << (field.bits - 1)
        for value in (-half - 1, half) if field.signed else (-1, 1 << field.bits):
            with pytest.raises(ProgramError, match=f"{field.name}: must be from"):
                PACKERS[opcode](**{field.name: value})


def test_field_positions_are_those_of_the_isa_tables():
    assert (
        program_builder.pack_load(sram_base=5)
        >> program_builder.field_shift(Opcode.LOAD, "sram_base")
        == 5
    )
    with pytest.raises(ProgramError, match="nonsense: unknown field"):
        program_builder.field_shift(Opcode.LOAD, "nonsense")


def test_refuses_what_follows_the_end():
    builder = program_builder.ProgramBuilder(HW)
    builder.finish({}, {})
    with pytest.raises(ProgramError, match="finished"):
        builder.emit_word(Unit.LOAD, program_builder.pack_load(), (), ())
    with pytest.raises(ProgramError, match="finished"):
        builder.finish({}, {})
