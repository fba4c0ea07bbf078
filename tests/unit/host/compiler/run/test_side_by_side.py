# SPDX-License-Identifier: Apache-2.0
"""Networks side by side: order of frames, figures, what is refused, and what Ctrl-C leaves."""

from dataclasses import replace

import numpy as np
import pytest
from support.programs.systems import program_of

from tilewright.host.common.errors import DeviceError, ProgramError
from tilewright.host.compiler.run import side_by_side
from tilewright.host.compiler.run.recorded import Frame, RecordedRun
from tilewright.host.compiler.run.side_by_side import (
    Tenant,
    check_placement,
    core_name,
    jain,
    measure,
)
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.machine.system_config import load_system
from tilewright.host.runtime.system_device import SubmissionResult, SystemResult

PAIR = load_system("dual-tiny")
TINY = load_hwconfig("tiny-4x4")
PROGRAM = program_of(TINY)


class StubSystem:
    """Each program takes as many cycles as byte 0 of its memory says, and sets byte 1."""

    def __init__(self, fail_at=None, stop_at=None):
        self.system = PAIR
        self.shares: dict = {}
        self.log: list = []
        self.runs = 0
        self.fail_at, self.stop_at = fail_at, stop_at

    def set_share(self, core, *, weight=1, read_budget=0, write_budget=0):
        self.shares[core] = (weight, read_budget, write_budget)

    def set_window(self, cycles):
        self.shares["window"] = cycles

    def run(self, submissions, *, start_after=None, max_cycles=0):
        self.runs += 1
        if self.runs == self.stop_at:
            raise KeyboardInterrupt
        self.log.append((dict(self.shares), [(s.core, int(s.memory[0])) for s in submissions]))
        free: dict = {}
        results = []
        for number, one in enumerate(submissions):
            begin, cycles = free.get(one.core, 0), int(one.memory[0])
            free[one.core] = begin + cycles
            after = one.memory.copy()
            after[1] = 1
            error = DeviceError("hangs") if number == self.fail_at else None
            results.append(SubmissionResult(memory=after, begin=begin, cycles=cycles, error=error))
        shares = tuple({"read_waited": 7} for _ in PAIR.cores)
        return SystemResult(
            results=tuple(results), counters=(None, None), shares=shares, host_seconds=0.5
        )

    def close(self):
        pass


def frame(*cycles, right=1):
    runs = []
    for each in cycles:
        before = np.zeros(PROGRAM.memory_bytes, np.uint8)
        before[0] = each
        after = before.copy()
        after[1] = right
        runs.append(RecordedRun(program=PROGRAM, before=before, after=after))
    return Frame(runs=tuple(runs), outputs={}, cpu_seconds=0.0)


def tenant(name, core, *frames):
    return Tenant(name=name, core=core, frames=frames)


def test_each_runs_alone_without_limits_and_then_all_with_their_shares():
    cores = (replace(PAIR.cores[0], weight=3, read_budget=64), PAIR.cores[1])
    shares = replace(PAIR, cores=cores, window=128)
    device = StubSystem()
    told: list = []
    found = measure(
        device, shares, [tenant("a", 0, frame(40)), tenant("b", 1, frame(10, 10))], 2,
        tell=lambda *each: told.append(each),
    )  # fmt: skip
    free = {0: (1, 0, 0), 1: (1, 0, 0)}
    assert [shares for shares, _ in device.log[:2]] == [free, free]
    assert device.log[2][0] == {0: (3, 64, 0), 1: (1, 0, 0), "window": 128}
    assert told == [("a alone", 0, 3), ("b alone", 1, 3), ("all together", 2, 3)]
    assert [(each.alone, each.slow_down, len(each.times)) for each in found.sharing()] == [
        (40, 1.0, 2),
        (20, 1.0, 4),
    ]
    assert found.wrong_bytes == 0
    assert found.together.shares[0] == {"read_waited": 7}


def test_networks_on_one_core_take_turns_and_wait_for_each_other():
    device = StubSystem()
    tenants = [tenant("big", 0, frame(100)), tenant("small", 0, frame(10))]
    found = measure(device, PAIR, tenants, [2, 4])
    assert device.log[2][1] == [(0, 10), (0, 100), (0, 10), (0, 10), (0, 100), (0, 10)]
    big, small = found.sharing()
    assert small.latencies == (10, 60.0, 110)
    assert big.latencies == (110, 115.0, 120)
    assert (big.together, small.together) == (115.0, 60.0)
    assert big.per_second(115.0) == 1e6


@pytest.mark.parametrize(("stop_at", "alone"), [(1, 0), (2, 1), (3, 2)])
def test_ctrl_c_keeps_what_was_measured(stop_at, alone):
    tenants = [tenant("a", 0, frame(5)), tenant("b", 1, frame(5))]
    found = measure(StubSystem(stop_at=stop_at), PAIR, tenants, 1)
    assert (len(found.alone), found.together, found.stopped) == (alone, None, True)
    assert found.sharing() == []


def test_a_program_that_fails_is_told_with_its_network_and_frame():
    with pytest.raises(DeviceError, match=r"b on core 1: frame 0 did not end well \(hangs\)"):
        measure(StubSystem(fail_at=1), PAIR, [tenant("b", 1, frame(5, 6))], 1)


def test_more_memory_than_a_machine_has_is_refused(monkeypatch):
    monkeypatch.setattr(side_by_side, "MAX_BYTES", 3 * PROGRAM.memory_bytes)
    with pytest.raises(ProgramError, match="frames: the memories of all frames must fit"):
        measure(StubSystem(), PAIR, [tenant("a", 0, frame(5))], 4)


def test_frames_beyond_all_measure_are_refused_at_once():
    with pytest.raises(ProgramError, match="frames: the memories of all frames must fit"):
        measure(StubSystem(), PAIR, [tenant("a", 0, frame(5))], 10**18)


def test_the_index_of_jain_is_one_for_equal_and_one_nth_for_one_who_has_all():
    assert jain([0.4, 0.4, 0.4]) == pytest.approx(1)
    assert jain([1, 0, 0, 0]) == pytest.approx(1 / 4)
    assert jain([1.0, 0.5]) == pytest.approx(2.25 / 2.5)


class Compiled:
    """What of a compiled network is looked at."""

    name = "net"

    def __init__(self, hw, programs=(1,)):
        self.hw, self.programs = hw, programs


@pytest.mark.parametrize(
    ("network", "core", "told"),
    [
        (Compiled(TINY), 2, "cores: dual-tiny has cores 0 to 1"),
        (Compiled(TINY, ()), 0, "net: has no program: all its operators run on the CPU"),
        (Compiled(load_hwconfig("edge-8x8")), 1, "tilewright compile MODEL --hw tiny-4x4"),
    ],
)
def test_what_cannot_run_on_a_core_is_refused(network, core, told):
    with pytest.raises(ProgramError, match=told):
        check_placement(PAIR, [network], [core])


def test_a_core_that_differs_from_every_named_configuration_is_named_by_its_system():
    system = load_system("big-little")
    assert [core_name(system, core) for core in (0, 1)] == ["big-little:0", "tiny-4x4"]
