# SPDX-License-Identifier: Apache-2.0
"""DCOC: its agents, its options, its loop."""

import numpy as np
import pytest

from tilewright.testing.analytic import BASE, BOARD, RULES, TASKS, cycles_of
from tilewright.testing.tuner_contract import drive, full_space, schedule_cost
from tilewright.tuner.schedule.spaces import HardwareSpace, JointSpace, ScheduleSpace
from tilewright.tuner.search import TunerError, make_tuner
from tilewright.tuner.search.learning.dcoc import DcocTuner
from tilewright.tuner.search.learning.planned import BATCH, WARM_UP
from tilewright.tuner.search.plain.random import RandomTuner


def knobs_by_agent(space) -> dict[str, list[str]]:
    agents = DcocTuner(space, seed=0)._learner.team.agents
    return {agent.name: [space.knobs[k].name for k in agent.knobs] for agent in agents}


def test_three_agents_share_the_knobs_of_a_schedule() -> None:
    assert knobs_by_agent(full_space()) == {
        "hardware": ["tile_b", "tile_ci", "tile_co"],
        "mapping": ["tile_h", "tile_w"],
        "scheduling": ["h_threading", "oc_threading", "loop_order", "fusion"],
    }


def test_the_hardware_agent_owns_the_configuration_of_a_joint_space() -> None:
    hardware = HardwareSpace(BOARD, BASE, RULES)
    groups = knobs_by_agent(JointSpace(TASKS[0], hardware, RULES, "vta"))
    assert {knob.name for knob in hardware.knobs} < set(groups["hardware"])
    assert groups["mapping"] == ["tile_h", "tile_w"]


def test_agents_without_knobs_vanish() -> None:
    assert list(knobs_by_agent(HardwareSpace(BOARD, BASE, RULES))) == ["hardware"]


def best_of(tuner, batches) -> float:
    drive(tuner, schedule_cost, batches=batches)
    assert tuner.best is not None
    assert tuner.best.value is not None
    return tuner.best.value


def test_beats_random_search_at_an_equal_budget() -> None:
    wins = [
        best_of(DcocTuner(full_space(), seed=s), [8] * 6)
        < best_of(RandomTuner(full_space(), seed=s), [8] * 6)
        for s in range(4)
    ]
    assert sum(wins) >= 3


@pytest.mark.parametrize("legality", ["mask", "penalty", "both"])
def test_improves_on_its_warm_up_however_it_learns_what_is_legal(legality) -> None:
    tuner = DcocTuner(full_space(), seed=1, legality=legality)
    log = drive(tuner, schedule_cost, batches=[8] * 6)
    assert min(v for _, v in log[WARM_UP:]) < min(v for _, v in log[:WARM_UP])


@pytest.mark.parametrize("option", ["legality", "selection", "view"])
def test_an_option_that_does_not_exist_is_refused(option) -> None:
    with pytest.raises(TunerError, match="no such value") as failure:
        make_tuner("dcoc", full_space(), seed=0, **{option: "other"})
    assert option in str(failure.value)


@pytest.mark.parametrize("option", [{"selection": "top"}, {"legality": "both"}, {"view": "point"}])
def test_an_option_changes_what_is_proposed_after_the_warm_up(option) -> None:
    plain = drive(DcocTuner(full_space(), seed=2), schedule_cost, batches=[8] * 4)
    other = drive(DcocTuner(full_space(), seed=2, **option), schedule_cost, batches=[8] * 4)
    assert plain[:WARM_UP] == other[:WARM_UP]
    assert plain[WARM_UP:] != other[WARM_UP:]


def test_learns_once_a_batch_whatever_the_size_of_the_asks() -> None:
    class Counted(DcocTuner):
        explored = 0

        def _explore(self):
            self.explored += 1
            return super()._explore()

    for batches in ([1] * 32, [BATCH] * 4, [32], [3] * 11):
        tuner = Counted(full_space(), seed=0)
        drive(tuner, schedule_cost, batches=[WARM_UP, *batches])
        assert tuner.explored <= 1 + sum(batches) // BATCH


def test_what_fails_is_avoided() -> None:
    space = full_space()

    def cost(schedule) -> float | None:
        return None if schedule.oc_threading == 2 else schedule_cost(schedule)

    log = drive(DcocTuner(space, seed=4), cost, batches=[8] * 7)
    failed = [value is None for _, value in log]
    assert np.mean(failed[WARM_UP:]) < np.mean(failed[:WARM_UP])


def test_finds_a_good_configuration_and_schedule_together() -> None:
    hardware = HardwareSpace(
        BOARD, BASE, RULES, {"block_in": (8, 16), "block_out": (8, 16), "acc_bytes": (32768, 65536)}
    )

    def best(kind) -> float:
        space = JointSpace(TASKS[0], hardware, RULES, "vta")
        tuner = kind(space, seed=3)
        drive(tuner, lambda p: float(cycles_of(p.hw, TASKS[0], p.schedule)), batches=[8] * 8)
        return tuner.best.value

    assert best(DcocTuner) <= best(RandomTuner)


def test_a_space_of_one_point_ends() -> None:
    task = TASKS[0]
    space = ScheduleSpace(task, BASE, RULES, "vta")
    only = space.sample(np.random.default_rng(0))
    space._verdicts = dict.fromkeys(space.enumerate(), "no") | {only: ""}
    tuner = DcocTuner(space, seed=0)
    log = drive(tuner, schedule_cost_vta, batches=[4, 4])
    assert [index for index, _ in log] == [only]
    assert tuner.exhausted


def schedule_cost_vta(schedule) -> float:
    return float(cycles_of(BASE, TASKS[0], schedule))
