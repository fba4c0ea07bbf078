# SPDX-License-Identifier: Apache-2.0
"""The trials that `bench.allocate` replays are those of the twin, whoever asks and when."""

from dataclasses import replace

import pytest

from tilewright.bench.allocate import case, trials
from tilewright.host.lowering import lower
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.workload import conv2d
from tilewright.sim.twin.device import Twin
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.schedule.spaces import ScheduleSpace

HW, MEMORY = load_hwconfig("tiny-4x4"), load_memory("ideal")
LAYER = conv2d("small", 6, 8, 8, 3, 1, 1)


def table(trials, folder):
    rules = host_rules()
    space = ScheduleSpace(LAYER, HW, rules, "full")
    return trials.Table(space, Twin(HW, MEMORY), rules, folder, "x")


def test_a_trial_has_the_cycles_of_the_twin_and_is_kept(tmp_path):
    first = table(trials, tmp_path)
    space = first.space
    points = [space.decode(i) for i, _ in zip(space.enumerate(), range(20), strict=False)]
    twin = Twin(HW, MEMORY)
    for schedule in points:
        program = lower(HW, LAYER, schedule).program
        found = first.measure(schedule, None)
        assert found.cycles == found.ran == twin.counters(program).cycles
        assert found.instructions == program.instruction_count
    first.save()
    first.save()
    again = table(trials, tmp_path)
    again._run = None  # nothing is measured a second time
    assert [again.measure(s, None) for s in points] == [first.measure(s, None) for s in points]


def test_rows_behind_one_that_a_full_disk_cut_are_read_as_they_were(tmp_path):
    first = table(trials, tmp_path)
    first.save()
    [path] = tmp_path.glob("*.trials")
    with path.open("ab") as file:
        file.write(b"\1" * 20)
    second = table(trials, tmp_path)
    point = second.space.decode(next(i for i in second.space.enumerate() if i != second.default))
    found = second.measure(point, None)
    second.save()
    third = table(trials, tmp_path)
    assert third._rows == second._rows
    third._run = None  # nothing is measured a second time
    assert third.measure(point, None) == found


def test_a_slow_trial_is_stopped_and_measured_again_only_under_a_higher_limit(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(trials, "LIMIT_SLACK", 0)
    found = table(trials, tmp_path)
    schedule = found.space.decode((0,) * len(found.space.knobs))
    cycles = table(trials, tmp_path / "other").measure(schedule, None).cycles
    runs = []
    run = found._run
    found._run = lambda *a: runs.append(a[2]) or run(*a)

    def outcome(limit):
        trial = found.measure(schedule, limit // trials.INCUMBENT_LIMIT)
        return trial.cycles, trial.ran

    low = cycles // 2 // trials.INCUMBENT_LIMIT * trials.INCUMBENT_LIMIT
    assert outcome(low) == (None, low)
    assert outcome(low) == (None, low)
    assert outcome(low - 4) == (None, low - 4)
    assert runs == [low]
    assert outcome(4 * cycles) == (cycles, cycles)
    assert outcome(low) == (None, low)
    assert runs == [low, min(4 * cycles, trials.BOUND_LIMIT * found.bound)]


def test_searches_are_rested_and_every_allocator_reads_the_same_trials(tmp_path):
    found = table(trials, tmp_path)
    price = trials.PRICES["rtl"]
    one, two = (trials.Search(found, "genetic", 3) for _ in range(2))
    whole = [one.trial(n) for n in range(40)]
    pull = trials.replay([two], price)
    slots = [pull(0, price.seconds(whole[0]) * 3) for _ in range(6)]
    values = [v for slot in slots for v in slot.values]
    assert values == [None if t.cycles is None else float(t.cycles) for t in whole[: len(values)]]
    times, bests = one.future(40, price)
    assert times[-1] == pytest.approx(sum(price.seconds(t) for t in whole))
    assert bests[-1] == min(found.start.cycles, *(t.cycles for t in whole if t.cycles))


def test_a_search_of_a_small_space_ends(tmp_path):
    rules = host_rules()
    layer = conv2d("tiny", 2, 4, 4, 1, 0, 1)
    space = ScheduleSpace(layer, HW, rules, "vta")
    search = trials.Search(trials.Table(space, Twin(HW, MEMORY), rules, tmp_path, "x"), "random", 0)
    legal = len(list(space.enumerate()))
    assert search.trial(legal) is None
    assert len(search.trials) == legal - 1
    slot = trials.replay([search], trials.PRICES["twin"])(0, 1e9)
    assert slot.exhausted
    assert len(slot.values) == legal - 1


def test_without_the_untuned_schedule_a_search_starts_from_its_first_valid_result(tmp_path):
    found = table(trials, tmp_path)
    search = trials.Search(found, "random", 1, untuned=False)
    assert search.start is None
    assert search.trial(0).ran <= trials.BOUND_LIMIT * found.bound + trials.LIMIT_SLACK
    first = trials.Trial(cycles=None, ran=9, instructions=1)
    search.trials.insert(0, first)
    times, bests = search.future(3, trials.PRICES["rtl"])
    assert len(times) == 3
    assert bests[0] == float("inf")
    assert bests[1] == search.trials[1].cycles


@pytest.mark.parametrize("regime", ["study", "paper"])
def test_a_case_is_bounded_by_the_exact_optimum_of_what_its_runs_read(
    tmp_path, monkeypatch, regime
):
    layers = (LAYER, conv2d("other", 5, 4, 12, 1, 0, 1, count=3))
    monkeypatch.setattr(case, "tasks_of", lambda _: layers)
    rules = host_rules()
    searches = [
        trials.Search(
            trials.Table(ScheduleSpace(layer, HW, rules, "full"), Twin(HW, MEMORY), rules, tmp_path,
                         "x"),
            "random", 0, untuned=case.REGIMES[regime].untuned,
        )
        for layer in layers
    ]  # fmt: skip
    small = replace(case.REGIMES[regime], trials=24, patience=6)
    one = case.Case("x", 0, searches, trials.PRICES["rtl"], small)
    stops = [s for s in searches if one.regime.impatient]
    whole = sum(float(times[-1]) for times, _ in one.futures)
    assert one.budget <= whole if stops else one.budget == whole
    courses = [one.run(name)[0] for name in ("sequential", "round-robin", "dynamic-random")]
    oracle, paid = one.oracle()
    assert (paid > 0) is (regime == "paper")
    for course in courses:
        cost = one.cost_at(course, 1.0)
        assert oracle.best(one.budget - paid).cost <= cost
        assert oracle.cheapest(cost).price + paid <= course.time_to(cost) * (1 + 1e-9)
