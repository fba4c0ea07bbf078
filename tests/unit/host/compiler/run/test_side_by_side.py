# SPDX-License-Identifier: Apache-2.0
"""Networks side by side: order of frames, figures, what is refused, and what Ctrl-C leaves."""

import numpy as np
import pytest
from support.programs.systems import program_of

from tilewright.host.common.errors import DeviceError, ProgramError
from tilewright.host.compiler.run import side_by_side
from tilewright.host.compiler.run.recorded import Frame, RecordedRun
from tilewright.host.compiler.run.side_by_side import (
    Tenant,
    core_name,
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


def test_a_core_that_differs_from_every_named_configuration_is_named_by_its_system():
    system = load_system("big-little")
    assert [core_name(system, core) for core in (0, 1)] == ["big-little:0", "tiny-4x4"]
