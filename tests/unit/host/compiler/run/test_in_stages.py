# SPDX-License-Identifier: Apache-2.0
"""Ticks of a pipeline: which stage has which frame, and what the CPU adds."""

from dataclasses import replace

import numpy as np
import pytest
from support.systems import program_of

from tilewright.host.compiler.run import in_stages
from tilewright.host.compiler.run.in_stages import pace, run_stages
from tilewright.host.compiler.run.recorded import Frame, RecordedRun
from tilewright.host.compiler.run.side_by_side import FrameTime, Ran, Tenant
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig

PROGRAM = program_of(load_hwconfig("tiny-4x4"))


def frame():
    memory = np.zeros(PROGRAM.memory_bytes, np.uint8)
    run = RecordedRun(program=PROGRAM, before=memory, after=memory)
    return Frame(runs=(run,), outputs={}, cpu_seconds=0.0)


def test_each_tick_has_another_frame_in_each_stage(monkeypatch):
    frames = [[frame() for _ in range(3)] for _ in range(2)]
    stages = [
        Tenant(name=f"stage {place}", core=place, frames=tuple(frames[place])) for place in (0, 1)
    ]
    seen: list = []

    def tick(_device, tenants, counts):
        assert counts == [1] * len(tenants)
        seen.append([(t.core, frames[t.core].index(t.frames[0])) for t in tenants])
        times = tuple((FrameTime(asked=0, begin=2, end=10 + 5 * t.core),) for t in tenants)
        return Ran(
            times=times, wrong_bytes=(1,) * len(tenants), shares=(),
            makespan=10 * len(tenants), host_seconds=0.0,
        )  # fmt: skip

    monkeypatch.setattr(in_stages, "run_frames", tick)
    found = run_stages(None, stages)
    assert seen == [[(0, 0)], [(0, 1), (1, 0)], [(0, 2), (1, 1)], [(1, 2)]]
    assert (len(found.ticks), found.wrong_bytes, found.stopped) == (4, 6, False)


def test_ctrl_c_keeps_the_ticks_that_ran(monkeypatch):
    ran = Ran(times=(), wrong_bytes=(0,), shares=(), makespan=9, host_seconds=0.0)
    left = [ran, ran]

    def tick(*_):
        if not left:
            raise KeyboardInterrupt
        return left.pop()

    monkeypatch.setattr(in_stages, "run_frames", tick)
    stage = Tenant(name="stage 0", core=0, frames=(frame(), frame(), frame()))
    found = run_stages(None, [stage])
    assert (found.ticks, found.stopped) == ((ran, ran), True)


def test_the_cpu_copies_between_ticks_or_beside_them():
    board = load_board("pynq-z2")
    cpu = replace(board.cpu, bytes_per_second=1e8, call_seconds=1e-5)
    board = replace(board, cpu=cpu).at_clock(100, "test")
    between = pace(10_000, 3, 5_000, board, overlapped=False)
    assert (between.period, between.latency) == pytest.approx((16_000, 48_000))
    beside = pace(10_000, 3, 5_000, board, overlapped=True)
    assert (beside.period, beside.latency) == pytest.approx((11_000, 55_000))
    slow = pace(10_000, 3, 50_000, board, overlapped=True)
    assert slow.period == pytest.approx(51_000)
