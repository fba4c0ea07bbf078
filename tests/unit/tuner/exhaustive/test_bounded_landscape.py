# SPDX-License-Identifier: Apache-2.0
"""A bounded landscape knows, as far as asked, what an enumeration knows; nothing runs twice."""

import numpy as np
import pytest

from tilewright.bench.arena import tables as module
from tilewright.bench.arena.tables import BoundedLandscape
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.workload import conv2d
from tilewright.sim.twin.device import Twin
from tilewright.tuner.exhaustive.exhaust import exhaust
from tilewright.tuner.exhaustive.landscape_file import ILLEGAL, NOT_YET
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.schedule.spaces import ScheduleSpace

HW, MEMORY = load_hwconfig("tiny-4x4"), load_memory("ideal")
SPACE = ScheduleSpace(conv2d("small", 6, 8, 8, 3, 1, 1), HW, host_rules(), "vta")


@pytest.fixture(scope="module")
def truth(tmp_path_factory):
    return exhaust(SPACE, MEMORY, tmp_path_factory.mktemp("truth"), identity="x").cycles


def everything(landscape: BoundedLandscape):
    return np.ones_like(landscape.legal)


@pytest.fixture
def landscape(tmp_path):
    return BoundedLandscape(SPACE, MEMORY, tmp_path, identity="x")


@pytest.fixture
def runs(monkeypatch):
    """How many schedules every call of the twin got."""
    sizes, batch = [], Twin.batch

    def counted(self, lowering, points, **more):
        sizes.append(len(points))
        return batch(self, lowering, points, **more)

    monkeypatch.setattr(Twin, "batch", counted)
    return sizes


@pytest.mark.parametrize("workers", [1, 3])
def test_what_is_below_a_limit_is_known_and_nothing_else(truth, landscape, workers, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 7)
    legal = np.sort(truth[truth > 0])
    limit = int(legal[len(legal) // 4])  # a schedule takes exactly that
    progress = []
    landscape.below(everything(landscape), limit, workers=workers,
                on_progress=lambda done, total: progress.append((done, total)))  # fmt: skip
    assert (landscape.legal == (truth != ILLEGAL)).all()
    fast = landscape.legal & (truth <= limit)
    assert (landscape.cycles[fast] == truth[fast]).all()
    assert (landscape.cycles[landscape.legal & ~fast] == NOT_YET).all()
    assert (landscape.floors[landscape.legal & ~fast] == limit).all()
    assert (landscape.cycles[~landscape.legal] == ILLEGAL).all()
    assert progress[-1] == (len(legal), len(legal))


def test_a_schedule_that_somebody_asks_for_is_run_once(truth, landscape, runs):
    landscape.below(everything(landscape), int(truth[truth > 0].min()))
    runs.clear()
    flat = int(truth.argmax())
    assert landscape.measure(flat) == landscape.measure(flat) == truth[flat]
    assert runs == [1]


def test_another_sieve_of_the_same_files_goes_on(truth, landscape, runs, tmp_path):
    legal = np.sort(truth[truth > 0])
    low, high = int(legal[len(legal) // 4]), int(legal[len(legal) // 2])
    landscape.below(everything(landscape), low)
    runs.clear()
    other = BoundedLandscape(SPACE, MEMORY, tmp_path, identity="x")
    other.below(everything(other), low)
    assert not runs, "what is known is not run again"
    other.below(everything(other), high)
    assert sum(runs) == (legal > low).sum()
    whole = exhaust(SPACE, MEMORY, tmp_path, identity="x")
    assert np.array_equal(whole.cycles, truth), "an enumeration finishes what a landscape began"


def test_only_what_is_wanted_is_run(truth, landscape, runs):
    wanted = np.zeros_like(landscape.legal)
    places = np.flatnonzero(landscape.legal)[::5]
    wanted[places] = True
    landscape.below(wanted, int(truth.max()))
    assert sum(runs) == len(places)
    assert (landscape.cycles[places] == truth[places]).all()
    assert (landscape.cycles[landscape.legal & ~wanted] == NOT_YET).all()
