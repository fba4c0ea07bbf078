# SPDX-License-Identifier: Apache-2.0
"""Programs and images as messages: the same bytes on the other side, and no others."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.randomness import fresh_rng

from tilewright.host.common.errors import ConfigError, ProgramError, TilewrightError
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.runtime.agent.images import (
    PAGE,
    apply_delta,
    check_limits,
    delta,
    describe,
    digest,
    max_delta_bytes,
    read_program,
)
from tilewright.host.runtime.agent.limits import Limits
from tilewright.host.runtime.agent.protocol import Message, ProtocolError
from tilewright.testing.device_contract import build, legal_steps

TINY = load_hwconfig("tiny-4x4")
LIMITS = Limits()


def joined(buffers) -> bytes:
    return b"".join(bytes(part) for part in buffers)


@pytest.mark.parametrize("size", [0, 1, PAGE - 1, PAGE, PAGE + 1, 9 * PAGE, 9 * PAGE + 77])
def test_an_image_follows_from_another_and_their_difference(size):
    rng = fresh_rng()
    for changed_share in (0.0, 0.3, 1.0):
        before = rng.integers(0, 256, size, dtype=np.uint8)
        after = before.copy()
        for page in range(-(-size // PAGE)):
            if rng.random() < changed_share:
                at = rng.integers(page * PAGE, min(size, (page + 1) * PAGE))
                after[at] ^= rng.integers(1, 256, dtype=np.uint8)
        body = joined(delta(before, after))
        assert len(body) <= max_delta_bytes(size)
        differing = (before != after).any() if size else False
        assert differing or len(body) == 4, "nothing travels when nothing differs"
        found = before.copy()
        apply_delta(found, body)
        assert np.array_equal(found, after)


def test_the_largest_difference_has_the_stated_size():
    before = np.zeros(9 * PAGE, dtype=np.uint8)
    after = before.copy()
    after[:: 2 * PAGE] = 1
    assert len(joined(delta(before, after))) == 4 + 5 * 8 + 5 * PAGE <= max_delta_bytes(before.size)


@given(body=st.binary(max_size=64), size=st.integers(0, 3 * PAGE))
def test_any_bytes_are_pages_or_refused(body, size):
    image = np.zeros(size, dtype=np.uint8)
    try:
        apply_delta(image, body)
    except ProtocolError:
        pass
    else:
        assert len(body) >= 4


def table(*numbers: int) -> bytes:
    return np.array([len(numbers) // 2, *numbers], dtype="<u4").tobytes()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        table(0, 1),  # no data
        table(0, 1) + bytes(PAGE - 1),
        table(0, 1) + bytes(PAGE + 1),
        table(1, 1),
        table(2, 1) + bytes(PAGE),
        table(2, 3) + bytes(PAGE),  # behind the end
        table(0, 3) + bytes(2 * PAGE),
        table(1, 2, 0, 1) + bytes(2 * PAGE),  # out of order
        table(0, 1, 0, 1) + bytes(2 * PAGE),  # twice
        table(0, 2**32 - 1) + bytes(PAGE),
        np.array([2**32 - 1], dtype="<u4").tobytes(),
    ],
)
def test_pages_that_are_not_the_images_are_refused(body):
    with pytest.raises(ProtocolError, match="pages of the program's memory"):
        apply_delta(np.zeros(2 * PAGE, dtype=np.uint8), body)


PROGRAM = build(TINY, *legal_steps(TINY).values())


def message(**changes: object) -> Message:
    fields, body = describe(PROGRAM)
    travelled = json.loads(json.dumps({**fields, **changes}))
    return Message(kind="load", fields=travelled, body=joined(body))


def test_the_digest_tells_programs_apart():
    fields, body = describe(PROGRAM)
    assert digest(fields, body) == digest(*describe(build(TINY, *legal_steps(TINY).values())))
    changed = [body[0][:-1] + b"\1", *body[1:]]
    assert digest(fields, body) != digest(fields, changed)
    assert digest(fields, body) != digest({**fields, "config_hash": 1}, body)


@pytest.mark.parametrize(
    "changes",
    [
        {"memory_bytes": -1},
        {"memory_bytes": 1 << 30},
        {"memory_bytes": 4096},
        {"memory_bytes": "1"},
        {"config_hash": 2**32},
        {"regions": []},
        {"regions": {"insn": [0]}},
        {"regions": {"insn": [0, "1"]}},
        {"regions": {"insn": [0, True]}},
        {"regions": {"insn": [-1, 1]}},
        {"regions": {"insn": [0, 64], "uop": [0, 64]}},
        {"regions": {}},
        {"constants": {"uop": -1}},
        {"constants": {"uop": 1}},
        {"constants": {"absent": 64}},
        {"constants": 1},
        {"instruction_bytes": 31},
        {"instruction_bytes": 10**6},
        {"regions": {f"r{i}": [0, 0] for i in range(2000)}},
    ],
    ids=str,
)
def test_what_is_no_program_is_refused(changes):
    with pytest.raises((ProtocolError, ProgramError)):
        read_program(message(**changes), LIMITS)


@given(fields=st.dictionaries(
    st.sampled_from(["config_hash", "memory_bytes", "regions", "instruction_bytes", "constants"]),
    st.integers() | st.none() | st.dictionaries(st.text(), st.integers() | st.lists(st.integers())),
))  # fmt: skip
def test_any_fields_give_a_program_or_a_clear_error(fields):
    try:
        read_program(message(**fields), LIMITS)
    except TilewrightError:
        return
    assert set(fields) <= {"config_hash", "memory_bytes"} or not fields


def test_limits_hold_for_instructions_with_constants_and_for_memory():
    size, memory = len(message().body), PROGRAM.memory_bytes
    read_program(message(), Limits(program_bytes=size, memory_bytes=memory))
    with pytest.raises(ProgramError, match=f"at most {size - 1} bytes, not {size}.*--max-program"):
        read_program(message(), Limits(program_bytes=size - 1, memory_bytes=memory))
    with pytest.raises(ProgramError, match=f"at most {memory - 1} bytes, not {memory}.*--max-mem"):
        check_limits(size, memory, Limits(program_bytes=size, memory_bytes=memory - 1))


@pytest.mark.parametrize(
    "values",
    [
        {"program_bytes": 0},
        {"memory_bytes": 1.5},
        {"run_seconds": -1},
        {"connections": True},
        {"lease_seconds": float("nan")},
    ],
    ids=str,
)
def test_limits_must_be_positive_numbers(values):
    with pytest.raises(ConfigError, match=next(iter(values))):
        Limits(**values)


def test_limits_travel():
    assert Limits.from_mapping(json.loads(json.dumps(LIMITS.to_mapping()))) == LIMITS
    with pytest.raises(ConfigError, match="must be limits"):
        Limits.from_mapping({"x": 1})
