# SPDX-License-Identifier: Apache-2.0
"""Figures of `bench.allocate` from hand-made rows."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from support.command_line import call
from support.documents.browser import Browser, missing
from support.documents.html_structure import assert_well_made
from support.documents.seen_in_browser import assert_shown_well
from support.randomness import fresh_rng

from tilewright.bench.allocate import case, summary, trials
from tilewright.bench.allocate import page as allocate_page
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.workload import conv2d
from tilewright.sim.twin.device import Twin
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.schedule.spaces import ScheduleSpace

NEAR = 1.01


def test_networks_that_share_layers_are_one_finding():
    found = summary.over_families({"x": {"vgg13": 4.0, "vgg16": 4.0, "vgg19": 4.0, "alexnet": 1.0}})
    assert found["x"]["families"] == 2
    assert found["x"]["typical"] == 2.0
    assert found["x"]["verdict"] == "untold"


def test_a_verdict_needs_families_and_is_corrected_for_the_baselines():
    def verdicts(*baselines):
        names = ("one", "two", "three")
        pairs = {
            names[k]: {"abcdef"[n]: r for n, r in enumerate(ratios)}
            for k, ratios in enumerate(baselines)
        }
        return [each["verdict"] for each in summary.over_families(pairs).values()]

    ahead, behind = (1.2, 1.3, 1.2, 1.4, 1.3, 1.1), (0.7, 0.9, 0.8, 0.9, 0.8, 0.6)
    tie = (0.7, 1.4, 0.8, 1.3, 1.1, 1.1)
    assert verdicts(ahead) == ["ahead"]
    assert verdicts(behind) == ["behind"]
    assert verdicts(tie) == ["tie"]
    assert verdicts(ahead, behind, tie) == ["tie"] * 3  # 3 times 2 / 2**6
    assert verdicts((1.2, 1.3, 1.2, 1.4, 1.3)) == ["untold"]


def rows():
    common = {"price": "rtl", "seed": 0}
    for network in ("alexnet", "resnet18"):
        here = common | {"network": network}
        for name, final in (("dynatune", 90), ("sequential", 95)):
            yield here | {
                "what": "run", "allocator": name, "deciding_seconds": 1.0, "budget_seconds": 99.0,
                "warm_up_seconds": 1.0, "slot_seconds": 9.0, "final_cycles": final,
                "start_cycles": 100, "mean_excess": 0.1, "seconds_to_final": 60.0,
                "least_seconds_to_final": 20.0,
            }  # fmt: skip
        yield here | {
            "what": "oracle", "final_cycles": 89, "start_cycles": 100, "mean_excess": 0.02,
        }  # fmt: skip
        yield here | {
            "what": "forecast", "expected": 0.1, "came": 0.2, "rank_correlation": 0.3,
        }  # fmt: skip
        for near in (1.0, NEAR):
            yield here | {
                "what": "pair", "challenger": "dynatune", "baseline": "sequential", "within": near,
                "speedup": 2.0, "censored": 0,
            }  # fmt: skip


def test_the_tables_tell_ratios_limits_and_the_oracle(tmp_path):
    records = list(rows())
    figures = summary.summarise(records)
    assert figures["speedup_over_networks"]["dynatune"]["sequential"]["typical"] == 2.0
    assert figures["limit_of_any_allocator"]["alexnet"]["sequential"]["median"] == 3.0
    assert figures["mean_excess"]["resnet18"]["oracle"] == 0.02
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"rows": records, "summary": figures}))
    result = call("bench", "allocate-tables", str(path))
    assert result.exit_code == 0
    out = result.stdout
    assert "| sequential | 2.00 (2.00 to 2.00), untold |" in out
    assert "| dynatune against | alexnet (1) | resnet18 (1) |" in out
    assert "| sequential | 3.00 (3.00 to 3.00) | 3.00 (3.00 to 3.00) |" in out
    assert "| oracle | 2.0 %, 0.890 | 2.0 %, 0.890 |" in out


# -- the page of `bench.allocate` from hand-made searches -----------------------------------------

ALLOCATORS = ("dynatune", "sequential", "round-robin")


def a_case():
    """Two tasks: one improves all the time, the other only at first."""
    arms = [SimpleNamespace(name=f"C{n}", count=n, work=10**n) for n in (1, 2)]
    search = SimpleNamespace(table=SimpleNamespace(start=SimpleNamespace(cycles=1000)))
    times = np.arange(1.0, 61.0)
    falling = np.maximum.accumulate(1000 - 9 * times[::-1])[::-1]
    early = np.where(times < 5, 900.0, 800.0)
    return SimpleNamespace(
        arms=arms, searches=[search, search], futures=[(times, falling), (times, early)], slot=10.0
    )


def a_result():
    records = []
    for network in ("alexnet", "resnet18"):
        common = {"network": network, "price": "rtl", "seed": 0}
        records.append({**common, "what": "search", "seconds_per_trial": 0.01})
        records += [
            {
                **common, "what": "run", "allocator": name, "final_cycles": 80 + n, "trials": 50,
                "start_cycles": 100, "budget_seconds": 99.0, "warm_up_seconds": 1.0,
                "deciding_seconds": 2.0,
            }
            for n, name in enumerate(ALLOCATORS)
        ]  # fmt: skip
    curves = [
        {
            "network": network, "price": "rtl",
            "curves": {name: [1.0, 0.9, 0.8 + n / 100] for n, name in enumerate(ALLOCATORS)},
        }
        for network in ("alexnet", "resnet18")
    ]  # fmt: skip
    return {"rows": records, "curves": curves, "conditions": {"hw": "<pynq>", "late": 1.5}}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("a") / "figures.html"
    cases = {"alexnet": a_case(), "resnet18": a_case()}
    path.write_text(allocate_page.page(a_result(), cases), encoding="utf-8")
    return path


def test_the_page_is_one_small_file_with_its_figures_in_tables(page):
    text = page.read_text(encoding="utf-8")
    found = assert_well_made(text, limit=500_000)
    assert found.title == "Who gets the next slot of tuning time: alexnet, resnet18"
    for number, name in enumerate(ALLOCATORS):
        assert f'<th scope="row">{name}</th>' in text
        assert f'data-value="{0.8 + number / 100:g}" class="n">0.{80 + number}0</td>' in text
    assert "hw: &lt;pynq&gt;" in text
    assert "Walkers of parameter a" in text


@pytest.mark.skipif(bool(missing()), reason=missing())
def test_the_page_is_shown_well(page):
    with Browser() as browser:
        assert_shown_well(browser, page)


# -- the trials that `bench.allocate` replays are those of the twin, whoever asks and when --------

HW, MEMORY = load_hwconfig("tiny-4x4"), load_memory("ideal")
LAYER = conv2d("small", 6, 8, 8, 3, 1, 1)


def table(trials, folder):
    rules = host_rules()
    space = ScheduleSpace(LAYER, HW, rules, "full")
    return trials.Table(space, Twin(HW, MEMORY), rules, folder, "x")


def test_rows_behind_one_that_a_full_disk_cut_are_read_as_they_were(tmp_path):
    table(trials, tmp_path).save()
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


def test_rows_that_are_damaged_on_disk_are_measured_anew(tmp_path):
    first = table(trials, tmp_path)
    for index, _ in zip(first.space.enumerate(), range(9), strict=False):
        first.measure(first.space.decode(index), None)
    first.save()
    [path] = tmp_path.glob("*.trials")
    rng, data = fresh_rng(), bytearray(path.read_bytes())
    data[int(rng.integers(len(data)))] ^= int(rng.integers(1, 256))
    path.write_bytes(data)
    second = table(trials, tmp_path)
    assert set(second._rows.items()) <= set(first._rows.items())
    assert len(second._rows) >= len(first._rows) - 1


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


def test_a_search_of_a_small_space_ends(tmp_path):
    rules = host_rules()
    space = ScheduleSpace(conv2d("tiny", 2, 4, 4, 1, 0, 1), HW, rules, "vta")
    search = trials.Search(trials.Table(space, Twin(HW, MEMORY), rules, tmp_path, "x"), "random", 0)
    legal = len(list(space.enumerate()))
    assert search.trial(legal) is None
    assert len(search.trials) == legal - 1
    slot = trials.replay([search], trials.PRICES["twin"])(0, 1e9)
    assert slot.exhausted
    assert len(slot.values) == legal - 1


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
