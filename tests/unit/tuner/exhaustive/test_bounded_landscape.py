# SPDX-License-Identifier: Apache-2.0
"""A sieve knows what an enumeration knows, as far as it was asked, and runs nothing twice."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.workload import conv2d
from tilewright.sim.twin.device import Twin
from tilewright.tuner.exhaustive import bounded_landscape as module
from tilewright.tuner.exhaustive.bounded_landscape import Sieve
from tilewright.tuner.exhaustive.exhaust import ILLEGAL, NOT_YET, exhaust
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.schedule.spaces import ScheduleSpace

HW, MEMORY = load_hwconfig("tiny-4x4"), load_memory("ideal")
SPACE = ScheduleSpace(conv2d("small", 6, 8, 8, 3, 1, 1), HW, host_rules(), "vta")


@pytest.fixture(scope="module")
def truth(tmp_path_factory):
    return exhaust(SPACE, MEMORY, tmp_path_factory.mktemp("truth"), identity="x").cycles


def everything(sieve: Sieve):
    return np.ones_like(sieve.legal)


@pytest.fixture
def sieve(tmp_path):
    return Sieve(SPACE, MEMORY, tmp_path, identity="x")


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
def test_what_is_below_a_limit_is_known_and_nothing_else(truth, sieve, workers, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 7)
    legal = np.sort(truth[truth > 0])
    limit = int(legal[len(legal) // 4])  # a schedule takes exactly that
    progress = []
    sieve.below(everything(sieve), limit, workers=workers,
                on_progress=lambda done, total: progress.append((done, total)))  # fmt: skip
    assert (sieve.legal == (truth != ILLEGAL)).all()
    fast = sieve.legal & (truth <= limit)
    assert (sieve.cycles[fast] == truth[fast]).all()
    assert (sieve.cycles[sieve.legal & ~fast] == NOT_YET).all()
    assert (sieve.floors[sieve.legal & ~fast] == limit).all()
    assert (sieve.cycles[~sieve.legal] == ILLEGAL).all()
    assert progress[-1] == (len(legal), len(legal))


def test_a_schedule_that_somebody_asks_for_is_run_once(truth, sieve, runs):
    sieve.below(everything(sieve), int(truth[truth > 0].min()))
    runs.clear()
    flat = int(truth.argmax())
    assert sieve.measure(flat) == sieve.measure(flat) == truth[flat]
    assert runs == [1]


def test_another_sieve_of_the_same_files_goes_on(truth, sieve, runs, tmp_path):
    legal = np.sort(truth[truth > 0])
    low, high = int(legal[len(legal) // 4]), int(legal[len(legal) // 2])
    sieve.below(everything(sieve), low)
    runs.clear()
    other = Sieve(SPACE, MEMORY, tmp_path, identity="x")
    other.below(everything(other), low)
    assert not runs, "what is known is not run again"
    other.below(everything(other), high)
    assert sum(runs) == (legal > low).sum()
    whole = exhaust(SPACE, MEMORY, tmp_path, identity="x")
    assert np.array_equal(whole.cycles, truth), "an enumeration finishes what a sieve began"


def test_only_what_is_wanted_is_run(truth, sieve, runs):
    wanted = np.zeros_like(sieve.legal)
    places = np.flatnonzero(sieve.legal)[::5]
    wanted[places] = True
    sieve.below(wanted, int(truth.max()))
    assert sum(runs) == len(places)
    assert (sieve.cycles[places] == truth[places]).all()
    assert (sieve.cycles[sieve.legal & ~wanted] == NOT_YET).all()
