# SPDX-License-Identifier: Apache-2.0
"""Objectives: values in cycles of a kind, bounds that hold, and what a study chooses by them."""

import sys
import types

import pytest
from support.analytic_oracle import counters_of

from tilewright.testing.analytic import BASE, BOARD, MEMORY, RULES, TASKS, estimate
from tilewright.tuner.measure.energy import energy_pj, least_energy_pj
from tilewright.tuner.measure.measurement import Measurement, Status
from tilewright.tuner.study.goals import Goal, GoalError
from tilewright.tuner.study.objective import Objective, ObjectiveName, TaskCost, area_share

SMALL = BASE.with_(block_in=8, name="small")


def objective(name: ObjectiveName) -> Objective:
    return Objective(name, board=BOARD, base=BASE, rules=RULES)


def answer(cycles: int) -> Measurement:
    return Measurement(
        status=Status.OK, fidelity="twin", cycles=cycles, counters=counters_of(cycles)
    )


def test_latency_is_cycles() -> None:
    latency = objective(ObjectiveName.LATENCY)
    assert latency.value(SMALL, TASKS[0], answer(1234)) == 1234
    assert latency.bound(SMALL, TASKS[0], 77) == 77
    parts = [TaskCost(task=task, cycles=100, energy=1.0) for task in TASKS]
    assert latency.network(SMALL, parts) == 100 * (2 + 1 + 3)


def test_edp_orders_like_cycles_times_energy() -> None:
    edp, task = objective(ObjectiveName.EDP), TASKS[0]
    products = [
        cycles * energy_pj(BASE, counters_of(cycles)) / least_energy_pj(task)
        for cycles in (9_000, 20_000)
    ]
    values = [edp.value(BASE, task, answer(cycles)) for cycles in (9_000, 20_000)]
    assert values == pytest.approx(products)


def test_edp_of_a_network_is_a_product_of_sums() -> None:
    edp = objective(ObjectiveName.EDP)
    parts = [
        TaskCost(task=TASKS[0], cycles=10, energy=5.0),
        TaskCost(task=TASKS[1], cycles=7, energy=3.0),
    ]
    least = 2 * least_energy_pj(TASKS[0]) + least_energy_pj(TASKS[1])
    assert edp.network(BASE, parts) == pytest.approx((2 * 10 + 7) * (2 * 5.0 + 3.0) / least)


def test_area_weighs_cycles_by_the_share_of_the_board() -> None:
    area = objective(ObjectiveName.AREA)
    assert area.weight(BASE) == 1
    shares = [area_share(estimate(hw), BOARD) for hw in (SMALL, BASE)]
    assert area.value(SMALL, TASKS[0], answer(100)) == pytest.approx(100 * shares[0] / shares[1])
    assert area.weight(SMALL) < 1


def test_what_is_not_valid_has_no_value() -> None:
    failed = Measurement(status=Status.TIMEOUT, fidelity="twin")
    assert all(objective(name).value(BASE, TASKS[0], failed) is None for name in ObjectiveName)


@pytest.mark.parametrize("name", list(ObjectiveName))
@pytest.mark.parametrize("hw", [BASE, SMALL])
def test_bounds_hold_for_every_run_of_at_least_the_bound_in_cycles(name, hw) -> None:
    """For runs that spend at least the least energy and the static energy of their cycles."""
    what = objective(name)
    parts, bounds = [], 0
    for task in TASKS:
        cycles = int(RULES.bound(hw, task, MEMORY).cycles)
        measured = answer(cycles + 50)
        moved = {"bytes_read": 4 * int(least_energy_pj(task)) // 162, "bytes_written": 0}
        counters = {**measured.counters, **moved}
        measured = Measurement(
            status=Status.OK, fidelity="twin", cycles=cycles + 50, counters=counters
        )
        value = what.value(hw, task, measured)
        assert value is not None
        assert what.bound(hw, task, cycles) <= value
        parts.append(TaskCost(task=task, cycles=cycles + 50, energy=energy_pj(hw, counters)))
        bounds += cycles * task.count
    assert what.network_bound(hw, TASKS, bounds) <= what.network(hw, parts)


class Cubic(Goal):
    """Cycles times energy times area: of a user."""

    unit = "everything"

    def value(self, cycles: float, energy: float, area: float) -> float:
        return cycles * energy * area


class Falling(Goal):
    def value(self, cycles: float, energy: float, area: float) -> float:
        return cycles / area


class Negative(Goal):
    def value(self, cycles: float, energy: float, area: float) -> float:
        return cycles - 2


class Wordy(Goal):
    def value(self, cycles: float, energy: float, area: float) -> float:
        return "few"  # type: ignore[return-value]  # the fault


class Failing(Goal):
    def value(self, cycles: float, energy: float, area: float) -> float:
        raise KeyError("x")


class Needy(Goal):
    def __init__(self, more: int) -> None:
        self.more = more

    def value(self, cycles: float, energy: float, area: float) -> float:
        return cycles


class Late(Goal):
    """Fails where `load_goal` does not look."""

    def value(self, cycles: float, energy: float, area: float) -> float:
        return cycles if cycles < 1000 else float("inf")


@pytest.fixture
def mine(monkeypatch) -> None:
    module = types.ModuleType("goals_of_mine")
    for kind in (Cubic, Falling, Negative, Wordy, Failing, Needy, Late):
        setattr(module, kind.__name__, kind)
    monkeypatch.setitem(sys.modules, "goals_of_mine", module)


def test_an_objective_of_a_users_own_values_trials_networks_and_bounds(mine) -> None:
    own = Objective("goals_of_mine:Cubic", board=BOARD, base=BASE, rules=RULES)
    edp, area, task = objective(ObjectiveName.EDP), objective(ObjectiveName.AREA), TASKS[0]
    value = own.value(SMALL, task, answer(9000))
    known = edp.value(SMALL, task, answer(9000))
    assert value is not None
    assert known is not None
    assert value == pytest.approx(known * area.weight(SMALL))
    assert own.bound(SMALL, task, 9000) == pytest.approx(
        edp.bound(SMALL, task, 9000) * area.weight(SMALL)
    )
    assert own.unit == "everything"
    assert own.weight(SMALL) == pytest.approx(area.weight(SMALL))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("Falling", "must not fall when cycles, energy or area grow"),
        ("Negative", "must be positive and finite"),
        ("Gone", "no such class"),
        ("Wordy", "must be positive and finite"),
        ("Failing", "failed with KeyError: 'x'"),
        ("Needy", "failed with TypeError"),
    ],
)
def test_an_objective_that_cannot_be_minimised_is_refused(mine, name, wrong) -> None:
    with pytest.raises(GoalError, match=wrong):
        Objective(f"goals_of_mine:{name}", board=BOARD, base=BASE, rules=RULES)


def test_each_value_of_a_users_objective_is_checked(mine) -> None:
    own = Objective("goals_of_mine:Late", board=BOARD, base=BASE, rules=RULES)
    with pytest.raises(GoalError, match="must be positive and finite"):
        own.value(SMALL, TASKS[0], answer(9000))


def test_an_unknown_objective_suggests_the_nearest() -> None:
    with pytest.raises(GoalError, match="did you mean latency"):
        Objective("latancy", board=BOARD, base=BASE, rules=RULES)
