# SPDX-License-Identifier: Apache-2.0
"""The C++ memory model, played against by a master in Python, without Verilator."""

import ctypes
import itertools
import math
from collections import deque
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tilewright.host.machine.board import MemoryModel
from tilewright.sim.verilator.build import build_memory_model
from tilewright.sim.verilator.library import CFaultRange, CMemoryTiming

BASE = 0x1000_0000
SIZE = 1 << 16
OKAY, SLVERR, DECERR = 0, 2, 3


class Address(ctypes.Structure):
    _fields_ = (
        ("addr", ctypes.c_uint64),
        ("len", ctypes.c_uint8),
        ("size", ctypes.c_uint8),
        ("burst", ctypes.c_uint8),
        ("id", ctypes.c_uint8),
    )


class Request(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_uint8) for name in ("ar_valid", "aw_valid", "w_valid")),
        *((name, ctypes.c_uint8) for name in ("w_last", "r_ready", "b_ready")),
        ("ar", Address),
        ("aw", Address),
        ("w_data", ctypes.c_void_p),
        ("w_strobe", ctypes.c_uint64),
    )


class Response(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_uint8) for name in ("ar_ready", "aw_ready", "w_ready")),
        *((name, ctypes.c_uint8) for name in ("r_valid", "r_last", "r_resp", "r_id")),
        *((name, ctypes.c_uint8) for name in ("b_valid", "b_resp", "b_id", "r_new")),
        ("r_data", ctypes.c_uint8 * 64),
    )


@pytest.fixture(scope="module")
def library():
    lib = ctypes.CDLL(str(build_memory_model()))
    lib.tw_memory_create.restype = ctypes.c_void_p
    lib.tw_memory_violation_text.restype = ctypes.c_char_p
    pointer = [ctypes.c_void_p]
    lib.tw_memory_destroy.argtypes = pointer
    lib.tw_memory_reset.argtypes = pointer
    lib.tw_memory_violation.argtypes = pointer
    lib.tw_memory_violation_text.argtypes = pointer
    lib.tw_memory_quiet.argtypes = pointer
    lib.tw_memory_attach.argtypes = [ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_uint64] * 2]
    for name in ("set_fault", "response"):
        getattr(lib, f"tw_memory_{name}").argtypes = [ctypes.c_void_p] * 2
    lib.tw_memory_step.argtypes = [ctypes.c_void_p] * 3
    return lib


def timing(**changes) -> MemoryModel:
    values = {
        "name": "t",
        "read_latency": 5,
        "write_latency": 3,
        "read_bytes_per_cycle": 64,
        "write_bytes_per_cycle": 64,
    }
    return MemoryModel(**(values | changes))


class Slave:
    """The model under test, one `step` a cycle."""

    def __init__(self, library, memory, *, beat=8, max_beats=16, size=SIZE):
        self.lib, self.beat = library, beat
        self.handle = library.tw_memory_create(
            beat, max_beats, ctypes.byref(CMemoryTiming.of(memory))
        )
        assert self.handle
        self.bytes = np.random.default_rng(7).integers(0, 256, size, dtype=np.uint8)
        library.tw_memory_attach(self.handle, self.bytes.ctypes.data, size, BASE)
        self.pins = Response()
        library.tw_memory_response(self.handle, ctypes.byref(self.pins))
        self.cycle = 0

    def step(self, request: Request) -> Response:
        self.lib.tw_memory_step(self.handle, ctypes.byref(request), ctypes.byref(self.pins))
        self.cycle += 1
        return self.pins

    def fault(self, base, size, response, *, reads=1, writes=1):
        fault = CFaultRange(base, size, response, reads, writes)
        self.lib.tw_memory_set_fault(self.handle, ctypes.byref(fault))

    @property
    def violation(self) -> int:
        return self.lib.tw_memory_violation(self.handle)

    def address(self, addr, beats, **changes) -> Address:
        values = {"len": beats - 1, "size": self.beat.bit_length() - 1, "burst": 1, "id": 0}
        return Address(addr=addr, **(values | changes))


@dataclass
class Log:
    ar: list = field(default_factory=list)  # cycles of accepted addresses
    aw: list = field(default_factory=list)
    r: list = field(default_factory=list)  # (cycle shown, cycle accepted, data, resp, last)
    w: list = field(default_factory=list)
    b: list = field(default_factory=list)  # (cycle, resp)


def play(slave, reads=(), writes=(), *, ready=lambda cycle: True, limit=20_000) -> Log:
    """A correct master: `reads` are (address, beats), `writes` (address, [(bytes, strobe)])."""
    log = Log()
    ar, aw = deque(reads), deque((a, len(d)) for a, d in writes)
    beats = deque((d, s, i == len(data) - 1) for _, data in writes for i, (d, s) in enumerate(data))
    want_r, want_b = sum(n for _, n in reads), len(writes)
    shown, buffer = None, None
    while len(log.r) < want_r or len(log.b) < want_b:
        assert slave.cycle < limit, "the master starves"
        pins, now = slave.pins, slave.cycle
        rq = Request(r_ready=ready(now), b_ready=ready(now + 1))
        if ar:
            rq.ar_valid, rq.ar = 1, slave.address(*ar[0])
            if pins.ar_ready:
                ar.popleft()
                log.ar.append(now)
        if aw:
            rq.aw_valid, rq.aw = 1, slave.address(*aw[0])
            if pins.aw_ready:
                aw.popleft()
                log.aw.append(now)
        if beats:
            data, rq.w_strobe, rq.w_last = beats[0]
            buffer = ctypes.create_string_buffer(data, slave.beat)
            rq.w_valid, rq.w_data = 1, ctypes.addressof(buffer)
            if pins.w_ready:
                beats.popleft()
                log.w.append(now)
        if pins.r_valid:
            shown = now if shown is None else shown
            if rq.r_ready:
                data = bytes(pins.r_data[: slave.beat])
                log.r.append((shown, now, data, pins.r_resp, pins.r_last))
                shown = None
        if pins.b_valid and rq.b_ready:
            log.b.append((now, pins.b_resp))
        slave.step(rq)
        assert slave.violation == 0, slave.lib.tw_memory_violation_text(slave.handle)
    return log


def expected_read_times(log, bursts, memory, beat):
    """Event model of the documented read timing for a master that is always ready."""
    cost = Fraction(max(65536, round(beat / memory.read_bytes_per_cycle * 65536)), 65536)
    free, times = Fraction(0), []
    for accepted, (_, beats) in zip(log.ar, bursts, strict=True):
        due = accepted + memory.read_latency
        for _ in range(beats):
            previous = times[-1] + 1 if times else 0
            now = max(due, previous, math.ceil(free))
            free = (free if now - free < 1 else Fraction(now)) + cost
            times.append(now)
    return times


bursts_in_page = st.lists(
    st.tuples(st.integers(0, 7), st.integers(1, 16)).map(lambda t: (BASE + t[0] * 512, t[1])),
    min_size=1,
    max_size=8,
)
quick = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@quick
@given(
    bursts=bursts_in_page,
    latency=st.integers(1, 40),
    rate=st.floats(0.5, 20),
    max_reads=st.integers(1, 8),
    beat=st.sampled_from((4, 8, 32)),
)
def test_reads_come_when_the_documented_rules_say(
    *, library, bursts, latency, rate, max_reads, beat
):
    memory = timing(read_latency=latency, read_bytes_per_cycle=rate, max_reads=max_reads)
    slave = Slave(library, memory, beat=beat)
    log = play(slave, bursts)
    assert [entry[0] for entry in log.r] == expected_read_times(log, bursts, memory, beat)
    data = b"".join(entry[2] for entry in log.r)
    start = [(a - BASE, n) for a, n in bursts]
    assert data == b"".join(bytes(slave.bytes[a : a + n * beat]) for a, n in start)
    assert [bool(e[4]) for e in log.r] == [k == n - 1 for _, n in bursts for k in range(n)]


@quick
@given(
    lengths=st.lists(st.integers(1, 8), min_size=1, max_size=8),
    latency=st.integers(1, 40),
    rate=st.floats(0.5, 20),
    max_writes=st.integers(1, 4),
    seed=st.integers(0, 1000),
)
def test_writes_land_and_are_answered_when_the_rules_say(
    *, library, lengths, latency, rate, max_writes, seed
):
    rng = np.random.default_rng(seed)
    memory = timing(write_latency=latency, write_bytes_per_cycle=rate, max_writes=max_writes)
    slave = Slave(library, memory)
    expected = slave.bytes.copy()
    writes = []
    for length in lengths:
        start = int(rng.integers(0, 64)) * 64
        beats = []
        for k in range(length):
            data, strobe = rng.bytes(8), int(rng.integers(0, 256))
            beats.append((data, strobe))
            for i in range(8):
                if strobe >> i & 1:
                    expected[start + 8 * k + i] = data[i]
        writes.append((BASE + start, beats))
    log = play(slave, writes=writes)
    assert np.array_equal(slave.bytes, expected)

    cost = Fraction(max(65536, round(8 / rate * 65536)), 65536)
    free, previous, done, answer = Fraction(0), -1, -1, -1
    times = iter(log.w)
    for opened, length, (answered, response) in zip(log.aw, lengths, log.b, strict=True):
        for _ in range(length):
            now = max(opened + 1, previous + 1, math.ceil(free))
            assert next(times) == now
            free = (free if now - free < 1 else Fraction(now)) + cost
            previous = done = now
        answer = max(done + latency, answer + 1)
        assert (answered, response) == (answer, OKAY)


@pytest.mark.parametrize("kind", ["read", "write"])
def test_stalls_the_address_channel_at_the_outstanding_limit(library, kind):
    slave = Slave(library, timing(read_latency=50, write_latency=50, max_reads=3, max_writes=3))
    if kind == "read":
        log = play(slave, [(BASE, 1)] * 5)
        accepted, ended = log.ar, [entry[1] for entry in log.r]
    else:
        log = play(slave, writes=[(BASE, [(bytes(8), 255)])] * 5)
        accepted, ended = log.aw, [entry[0] for entry in log.b]
    assert accepted[:3] == [0, 1, 2]
    assert accepted[3] == ended[0] + 1


@pytest.mark.parametrize("rate", [8, 6, 3.5])
def test_directions_alternate_on_a_shared_memory_and_keep_its_rate(library, rate):
    slave = Slave(library, timing(shared_bytes_per_cycle=rate))
    reads = [(BASE + 128 * k, 16) for k in range(16)]
    writes = [(BASE + 8192 + 128 * k, [(bytes(8), 255)] * 16) for k in range(16)]
    log = play(slave, reads, writes)
    shown = [entry[0] for entry in log.r]
    # While both have beats left, grants alternate: neither gets ahead by more than one.
    start, end = max(shown[0], log.w[0]), min(shown[-1], log.w[-1])
    order = sorted(
        [(c, "r") for c in shown if start <= c <= end]
        + [(c, "w") for c in log.w if start <= c <= end]
    )
    assert len({c for c, _ in order}) == len(order), "two beats in one cycle"
    assert all(a[1] != b[1] for a, b in itertools.pairwise(order[4:]))
    spent = order[-1][0] - order[0][0] + 1
    assert spent == pytest.approx((len(order) - 1) * max(1, 8 / rate) + 1, abs=2)


@pytest.mark.parametrize("rate", [9, 12, 15.75])
def test_a_shared_memory_faster_than_a_channel_moves_both_directions_at_its_rate(library, rate):
    slave = Slave(library, timing(shared_bytes_per_cycle=rate))
    reads = [(BASE + 128 * k, 16) for k in range(16)]
    writes = [(BASE + 8192 + 128 * k, [(bytes(8), 255)] * 16) for k in range(16)]
    log = play(slave, reads, writes)
    shown = [entry[0] for entry in log.r]
    start, end = max(shown[0], log.w[0]), min(shown[-1], log.w[-1])
    beats = sum(start <= c <= end for c in [*shown, *log.w])
    assert beats / (end - start + 1) == pytest.approx(rate / 8, rel=0.02)
    assert sum(start <= c <= end for c in shown) == pytest.approx(beats / 2, rel=0.02)


def test_separate_channels_do_not_slow_each_other(library):
    reads = [(BASE + 128 * k, 16) for k in range(8)]
    writes = [(BASE + 8192 + 128 * k, [(bytes(8), 255)] * 16) for k in range(8)]
    both = play(Slave(library, timing()), reads, writes)
    alone = play(Slave(library, timing()), reads)
    assert [e[0] for e in both.r] == [e[0] for e in alone.r]
    assert both.r[-1][0] - both.r[0][0] == 8 * 16 - 1, "a beat every cycle"
    assert both.w[-1] - both.w[0] == 8 * 16 - 1


@quick
@given(percent=st.integers(1, 90), seed=st.integers(0, 2**32 - 1), bursts=bursts_in_page)
def test_random_stalls_keep_data_and_order_and_repeat(library, percent, seed, bursts):
    memory = timing(stall_percent=percent, stall_seed=seed)
    writes = [(BASE + 4096 + 64 * k, [(bytes([k] * 8), 255)] * 4) for k in range(4)]
    slave = Slave(library, memory)
    picky = lambda cycle: cycle * 2654435761 % 7 < 4  # noqa: E731  (a formula)
    log = play(slave, bursts, writes, ready=picky)
    data = b"".join(e[2] for e in log.r)
    assert data == b"".join(bytes(slave.bytes[a - BASE :][: 8 * n]) for a, n in bursts)
    assert bytes(slave.bytes[4096:4352]) == b"".join(
        bytes([k]) * 32
        + bytes(Slave(library, memory).bytes[4096 + 64 * k + 32 : 4096 + 64 * k + 64])
        for k in range(4)
    )
    assert play(Slave(library, memory), bursts, writes, ready=picky) == log


def test_random_stalls_take_about_their_share_of_cycles(library):
    slave = Slave(library, timing(stall_percent=40, max_reads=256))
    ready = 0
    for _ in range(4000):
        ready += slave.pins.ar_ready
        slave.step(Request(r_ready=1, b_ready=1))
    assert ready / 4000 == pytest.approx(0.6, abs=0.04)


def test_a_beat_that_is_not_taken_stays_unchanged_under_a_write_to_it(library):
    slave = Slave(library, timing(read_latency=1, write_latency=1))
    before = bytes(slave.bytes[:8])
    log = play(slave, [(BASE, 1)], [(BASE, [(b"\xaa" * 8, 255)])], ready=lambda cycle: cycle > 30)
    assert log.r[0][2] == before
    assert bytes(slave.bytes[:8]) == b"\xaa" * 8


@pytest.mark.parametrize("address", [BASE - 64, BASE + SIZE, 0, 0xFF_FFFF_F000])
def test_answers_decerr_outside_the_memory_and_touches_nothing(library, address):
    slave = Slave(library, timing())
    before = slave.bytes.copy()
    log = play(slave, [(address, 2)], [(address, [(b"\xff" * 8, 255)] * 2)])
    assert [e[3] for e in log.r] == [DECERR] * 2
    assert [e[2] for e in log.r] == [bytes(8)] * 2
    assert log.b[0][1] == DECERR
    assert np.array_equal(slave.bytes, before)


def test_the_last_partial_beat_reads_zeros_and_refuses_strobes_beyond_the_end(library):
    slave = Slave(library, timing(), size=100)
    log = play(slave, [(BASE + 96, 1)], [(BASE + 96, [(b"\x55" * 8, 0x0F)])])
    assert log.b[0][1] == OKAY
    assert bytes(slave.bytes[96:]) == b"\x55" * 4
    assert (log.r[0][2][4:], log.r[0][3]) == (bytes(4), OKAY)
    assert play(slave, writes=[(BASE + 96, [(b"\x66" * 8, 0x1F)])]).b[0][1] == DECERR
    assert bytes(slave.bytes[96:]) == b"\x55" * 4


@pytest.mark.parametrize("response", [SLVERR, DECERR])
def test_a_fault_range_answers_its_error_in_the_chosen_direction_only(library, response):
    slave = Slave(library, timing())
    slave.fault(BASE + 16, 8, response, reads=1, writes=0)
    log = play(slave, [(BASE, 4)], [(BASE + 16, [(b"\x11" * 8, 255)])])
    assert [e[3] for e in log.r] == [OKAY, OKAY, response, OKAY]
    assert log.b[0][1] == OKAY
    slave.fault(BASE + 16, 8, response, reads=0, writes=1)
    log = play(slave, [(BASE, 4)], [(BASE + 16, [(b"\x22" * 8, 255)])])
    assert [e[3] for e in log.r] == [OKAY] * 4
    assert log.b[0][1] == response
    assert bytes(slave.bytes[16:24]) == b"\x11" * 8


ADDRESS_CASES = {
    "crosses 4 KiB": (3, {"addr": BASE + 4096 - 8, "beats": 2}),
    "too long": (4, {"addr": BASE, "beats": 17}),
    "narrow": (5, {"addr": BASE, "beats": 1, "size": 2}),
    "not INCR": (6, {"addr": BASE, "beats": 1, "burst": 0}),
}


@pytest.mark.parametrize("channel", ["ar", "aw"])
@pytest.mark.parametrize("case", ADDRESS_CASES)
def test_finds_an_illegal_burst(library, channel, case):
    code, arguments = ADDRESS_CASES[case]
    slave = Slave(library, timing())
    request = Request(**{f"{channel}_valid": 1, channel: slave.address(**arguments)})
    slave.step(request)
    assert slave.violation == code
    assert channel.upper() in slave.lib.tw_memory_violation_text(slave.handle).decode()
    assert not slave.step(Request(r_ready=1)).ar_ready, "a broken bus is silent"
    slave.lib.tw_memory_reset(slave.handle)
    assert slave.violation == 0


@pytest.mark.parametrize("channel", ["ar", "aw"])
@pytest.mark.parametrize(("change", "code"), [("drop", 1), ("alter", 2), ("hold", 0)])
def test_an_address_must_wait_unchanged(library, channel, change, code):
    slave = Slave(library, timing(max_reads=1, max_writes=1, read_latency=100))
    first = slave.address(BASE, 1)
    slave.step(Request(**{f"{channel}_valid": 1, channel: first}))
    second = slave.address(BASE + 64, 1)
    slave.step(Request(**{f"{channel}_valid": 1, channel: second}))
    third = slave.address(BASE + (72 if change == "alter" else 64), 1)
    slave.step(Request(**{f"{channel}_valid": change != "drop", channel: third}))
    assert slave.violation == code


@pytest.mark.parametrize(
    ("change", "code"), [("drop", 1), ("data", 2), ("strobe", 2), ("last", 2), ("hold", 0)]
)
def test_write_data_must_wait_unchanged(library, change, code):
    slave = Slave(library, timing())
    one, two = ctypes.create_string_buffer(b"a" * 8, 8), ctypes.create_string_buffer(b"b" * 8, 8)
    slave.step(Request(w_valid=1, w_data=ctypes.addressof(one), w_strobe=255, w_last=1))
    slave.step(
        Request(
            w_valid=change != "drop",
            w_data=ctypes.addressof(two if change == "data" else one),
            w_strobe=254 if change == "strobe" else 255,
            w_last=change != "last",
        )
    )
    assert slave.violation == code


@pytest.mark.parametrize(("last_on", "code"), [(1, 7), (2, 0), (None, 7)])
def test_last_must_mark_the_last_beat(library, last_on, code):
    slave = Slave(library, timing())
    data = ctypes.create_string_buffer(8)
    slave.step(Request(aw_valid=1, aw=slave.address(BASE, 3)))
    for beat in range(3):
        assert slave.violation or slave.pins.w_ready
        last = beat == last_on
        slave.step(Request(w_valid=1, w_data=ctypes.addressof(data), w_strobe=255, w_last=last))
    assert slave.violation == code


@pytest.mark.parametrize(("strobe", "code"), [(0xFF, 8), (0xF8, 0), (0xFC, 8)])
def test_strobes_below_an_unaligned_start_are_found(library, strobe, code):
    slave = Slave(library, timing())
    data = ctypes.create_string_buffer(8)
    slave.step(Request(aw_valid=1, aw=slave.address(BASE + 3, 1)))
    slave.step(Request(w_valid=1, w_data=ctypes.addressof(data), w_strobe=strobe, w_last=1))
    assert slave.violation == code


@pytest.mark.parametrize(("beat", "max_beats"), [(3, 16), (128, 16), (8, 0), (8, 257)])
def test_refuses_an_impossible_bus(library, beat, max_beats):
    spec = ctypes.byref(CMemoryTiming.of(timing()))
    assert library.tw_memory_create(beat, max_beats, spec) is None


def test_is_quiet_only_between_bursts(library):
    slave = Slave(library, timing())
    assert library.tw_memory_quiet(slave.handle)
    slave.step(Request(ar_valid=1, ar=slave.address(BASE, 1), r_ready=1))
    while not slave.pins.r_valid:
        assert not library.tw_memory_quiet(slave.handle)
        slave.step(Request(r_ready=1))
    slave.step(Request(r_ready=1))
    assert library.tw_memory_quiet(slave.handle)
