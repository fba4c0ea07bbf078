# SPDX-License-Identifier: Apache-2.0
"""The contract that every allocator keeps; a subclass names the allocator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.testing.elsewhere import elsewhere
from tilewright.tuner.allocate import Allocator, Arm, Slot, make_allocator
from tilewright.tuner.allocate.belief import Belief, fit_belief
from tilewright.tuner.search import TunerError

ARMS = 5
TRIALS = 400

Curves = list[tuple[np.ndarray, np.ndarray]]


def curves(seed: int, *, arms: int = ARMS, trials: int = TRIALS) -> Curves:
    """Prices and values of every trial of each arm: searches that improve more or less quickly."""
    rng = np.random.default_rng(seed)
    found = []
    for arm in range(arms):
        scale = 1000.0 * (1 + arm)
        hope = 0.2 + 0.7 * rng.random()
        pace = np.exp(rng.normal(2.5, 1.0))
        floor = scale * (hope + (1 - hope) / (1 + np.arange(trials) / pace))
        values = floor * (1 + 0.5 * rng.random(trials))
        found.append((0.5 + rng.random(trials), values))
    return found


def arms_of(found: Curves) -> list[Arm]:
    return [
        Arm(
            name=f"t{k}",
            count=1 + k % 3,
            start=2000.0 * (1 + k),
            bound=100.0 * (1 + k),
            work=1e6 * (1 + k),
            group="even" if k % 2 else "odd",
        )
        for k in range(len(found))
    ]


def short_fit(x: Any, y: Any, seed: tuple[int, ...], horizon: float | None) -> Belief:
    """A belief of few steps: the contract is about choices, not about how good they are."""
    return fit_belief(x, y, seed=seed, horizon=horizon, steps=40)


QUICK: dict[str, dict[str, Any]] = {
    name: {"fit": short_fit} for name in ("dynatune", "dynatune-share", "epsilon-greedy", "softmax")
}


SPREADING = ("round-robin", "dynamic-round-robin", "ansor", "dynatune")
"""Allocators that give every arm a slot before any gets two."""


def make(name: str, found: Curves, *, seed: int = 7, arms: list[Arm] | None = None) -> Allocator:
    options = QUICK.get(name, {})
    return make_allocator(name, arms or arms_of(found), seed=seed, slot=8.0, **options)


def read(found: Curves, positions: list[int], arm: int, length: float) -> Slot:
    """The next slot of an arm."""
    prices, values = found[arm]
    start = end = positions[arm]
    while end < len(prices) and prices[start:end].sum() < length:
        end += 1
    positions[arm] = end
    return Slot(
        prices=tuple(prices[start:end].tolist()),
        values=tuple(None if np.isnan(v) else float(v) for v in values[start:end]),
        exhausted=end == len(prices),
    )


def drive(allocator: Allocator, found: Curves, *, slots: int) -> list[int]:
    """Choose and tell; returns the arms chosen."""
    positions = [0] * len(found)
    chosen = []
    for _ in range(slots):
        arm = allocator.choose()
        if arm is None:
            break
        chosen.append(arm)
        allocator.tell(arm, read(found, positions, arm, allocator.slot))
    return chosen


def drive_replay(name: str) -> list[int]:
    """The choices of an allocator on curves of its own."""
    return drive(make(name, curves(5)), curves(5), slots=30)


class AllocatorContract:
    """Subclass and set `name`: as on the command line, or ``package.module:Class``."""

    name: str

    def test_equal_seeds_choose_the_same_in_another_process(self) -> None:
        assert elsewhere(__name__, "drive_replay", self.name) == drive_replay(self.name)

    def test_every_arm_gets_a_slot_in_time(self) -> None:
        """Also the one that promises least: the arms' searches end, so all come to their turn."""
        short = curves(1, trials=24)
        assert set(drive(make(self.name, short), short, slots=200)) == set(range(ARMS))

    def test_never_chooses_an_exhausted_search_and_ends_with_the_last(self) -> None:
        short = curves(2, trials=20)
        allocator = make(self.name, short)
        chosen = drive(allocator, short, slots=500)
        assert allocator.choose() is None
        assert [t.trials for t in allocator.tracks] == [20] * ARMS
        assert len(chosen) == allocator.slots < 500

    def test_the_network_costs_the_sum_of_the_best_times_count(self) -> None:
        found = curves(3)
        allocator = make(self.name, found)
        drive(allocator, found, slots=20)
        expected = sum(
            arm.count * min(arm.start or 0, *found[k][1][: track.trials], np.inf)
            for k, (arm, track) in enumerate(zip(allocator.arms, allocator.tracks, strict=True))
        )
        assert allocator.network == pytest.approx(expected)

    def test_arms_without_a_valid_measurement_come_first(self) -> None:
        found = curves(4)
        arms = [Arm(name=a.name, count=a.count, bound=a.bound) for a in arms_of(found)]
        found[2][1][:40] = np.nan
        allocator = make(self.name, found, arms=arms)
        assert allocator.network is None
        chosen = drive(allocator, found, slots=ARMS + 2)
        assert set(chosen[:ARMS]) == set(range(ARMS))
        assert chosen[ARMS:] == [2, 2]
        assert allocator.network is None

    def test_survives_a_task_that_never_measures_and_ends(self) -> None:
        found = curves(6, trials=30)
        found[0][1][:] = np.nan
        allocator = make(self.name, found)
        drive(allocator, found, slots=500)
        assert allocator.tracks[0].best == allocator.arms[0].start
        assert allocator.choose() is None

    def test_works_with_one_arm(self) -> None:
        found = curves(7, arms=1)
        assert drive(make(self.name, found), found, slots=6) == [0] * 6

    def test_a_slot_is_told_once_and_by_the_chosen_arm(self) -> None:
        found = curves(8)
        allocator = make(self.name, found)
        arm = allocator.choose()
        assert arm is not None
        slot = Slot(prices=(8.0,), values=(1.0,))
        with pytest.raises(TunerError, match="told once"):
            allocator.tell((arm + 1) % ARMS, slot)
        allocator.tell(arm, slot)
        with pytest.raises(TunerError, match="told once"):
            allocator.tell(arm, slot)

    def test_slots_overlap(self) -> None:
        """They are told in any order; what is told and when is all that choices depend on."""

        def course() -> list[int]:
            rng, found = np.random.default_rng(10), curves(10, trials=60)
            allocator, positions = make(self.name, found), [0] * ARMS
            running: list[tuple[int, Slot]] = []
            chosen = []
            while True:
                arm = allocator.choose() if len(running) < 4 else None
                if arm is not None and positions[arm] < 60:
                    chosen.append(arm)
                    running.append((arm, read(found, positions, arm, allocator.slot)))
                elif arm is not None:  # its last slot is on its way
                    allocator.tell(arm, Slot(prices=(), values=(), exhausted=True))
                elif running:
                    allocator.tell(*running.pop(int(rng.integers(len(running)))))
                else:
                    return [*chosen, *positions]

        once = course()
        assert once[-ARMS:] == [60] * ARMS
        assert set(once[:ARMS]) == set(range(ARMS)) or self.name not in SPREADING
        assert course() == once

    @pytest.mark.parametrize("slot", [0.0, -1.0, float("nan"), float("inf")])
    def test_refuses_a_slot_without_length(self, slot: float) -> None:
        found = curves(9)
        allocator = make(self.name, found)
        with pytest.raises(TunerError, match="slot"):
            type(allocator)(allocator.arms, seed=0, slot=slot)

    def test_refuses_no_arms_and_equal_names(self) -> None:
        for arms in ([], [Arm(name="same"), Arm(name="same")]):
            with pytest.raises(TunerError, match="distinct names"):
                make_allocator(self.name, arms, seed=0, slot=1.0)
