# SPDX-License-Identifier: Apache-2.0
"""No schedule takes fewer cycles on the twin than its bound, which is worth something."""

from dataclasses import replace

import pytest
from support.randomness import fresh_rng, sample
from support.search.drawn_layers import KINDS, drawn_space, legal_points

from tilewright.host.lowering.cycle_bound import bound
from tilewright.host.machine.board import MemoryModel, load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.schedule import Fusion, LoopOrder, Schedule
from tilewright.host.network.workload import conv2d
from tilewright.sim.twin.device import Refusal, Twin
from tilewright.sim.twin.native_lowering import NativeLowering, encode_schedules
from tilewright.tuner.schedule.schedule_bound import ScheduleBound
from tilewright.tuner.schedule.spaces import ScheduleSpace

MOST = 2000


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", sample(3, 60))
def test_no_drawn_schedule_undercuts_its_bound(number, kind) -> None:
    rng = fresh_rng()
    space, memory = drawn_space(rng, kind)
    points = legal_points(space)
    points = points[rng.permutation(len(points))[:MOST]]
    batch = Twin(space.hw, memory).batch(NativeLowering(space.hw, space.workload), points)
    assert (batch.refusals == Refusal.NONE).all()
    least = ScheduleBound(space.hw, space.workload, memory).least(points)
    worst = int((least - batch.cycles).argmax())
    assert least[worst] <= batch.cycles[worst], (space.hw, space.workload, memory, points[worst])
    assert bound(space.hw, space.workload, memory).cycles <= batch.cycles.min()


def bounded(space: ScheduleSpace, memory: MemoryModel, points) -> tuple[int, int, int]:
    """Bound of the layer, largest excess of a schedule's bound, and fewest cycles."""
    cycles = Twin(space.hw, memory).batch(NativeLowering(space.hw, space.workload), points).cycles
    least = ScheduleBound(space.hw, space.workload, memory).least(points)
    return (
        bound(space.hw, space.workload, memory).cycles,
        int((least - cycles).max()),
        int(cycles.min()),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_waits_for_a_slow_channel_behind_the_last_beat(kind) -> None:
    rng = fresh_rng()
    for _ in range(6):
        space, _ = drawn_space(rng, kind, most=4000)
        channel = str(rng.choice(["read", "write", "write", "shared"])) + "_bytes_per_cycle"
        ideal = replace(load_memory("ideal"), read_latency=int(rng.integers(1, 30)))
        slow = replace(ideal, **{channel: float(rng.choice([0.0625, 0.3]))})
        layer, excess, fewest = bounded(space, slow, legal_points(space))
        assert layer <= fewest, (space.hw, space.workload, slow)
        assert excess <= 0, (space.hw, space.workload, slow)


def test_a_write_holds_its_place_until_its_last_beat_begins() -> None:
    # One write at a time, each of beats of two cycles: found by chance.
    hw = load_hwconfig("zu-32x32")
    task = conv2d("x", 14, 64, 40, 3, 1, 1, residual=True)
    memory = MemoryModel(
        name="x", read_latency=2, write_latency=1, read_bytes_per_cycle=8, write_bytes_per_cycle=8,
        shared_bytes_per_cycle=15.75, max_reads=8, max_writes=1,
    )  # fmt: skip
    points = encode_schedules(
        Schedule(
            tile_h=14, tile_w=tile_w, tile_ci=1, tile_co=2, h_threading=2, oc_threading=1,
            loop_order=LoopOrder.WEIGHT_STATIONARY, fusion=Fusion.TILE,
        )
        for tile_w in range(1, 15)
    )  # fmt: skip
    lowering = NativeLowering(hw, task)
    points = points[lowering.rules(points) == 0]
    cycles = Twin(hw, memory).batch(lowering, points).cycles
    assert (ScheduleBound(hw, task, memory).least(points) <= cycles).all()
