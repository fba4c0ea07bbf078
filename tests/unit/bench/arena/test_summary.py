# SPDX-License-Identifier: Apache-2.0
"""Figures from hand-made records."""

import json
import math
import re

import pytest
from support.search.arena_records import (
    NETWORK,
    PARTS,
    a_part,
    a_record,
    a_study,
    some_records,
)

from tilewright.bench.arena.network_figures import (
    compile_reductions,
    readings,
    throughput_gains,
)
from tilewright.bench.arena.page_tables import document
from tilewright.bench.arena.records import Price, common, headline
from tilewright.bench.arena.summary import arms, merge, summarise
from tilewright.host.common.errors import ConfigError


@pytest.fixture(scope="module")
def study():
    return a_study(some_records())


def test_conditions_of_other_budgets_censor_at_the_smaller_one():
    state = {"cycles": 1030, "trials": 32, "tuner_seconds": 1.0, "measured_cycles": 1}
    records = [
        a_record("dcoc", "a", seed, 40 if seed < 4 else None, budget=64, states={"32": state})
        for seed in range(10)
    ]
    records += [{**r, "noise": 0.01, "budget": 48} for r in records]
    exact = arms(records)["tuners"]["dcoc"]["masked"]
    assert exact["trials_to_1pct"] is None, "6 of 10 runs miss it in 48 measurements"


def test_throughput_gain_is_of_latencies_weighted_by_counts():
    heavy = max(PARTS, key=lambda p: p.count)
    rows = [
        a_record(tuner, part.task, seed, 9, cycles=2000 if slow and part is heavy else 1000)
        for tuner, slow in (("autotvm", True), ("dcoc", False))
        for part in PARTS
        for seed in range(3)
    ]
    total = sum(p.count for p in PARTS)
    expected = 100 * ((total + heavy.count) / total - 1)
    gains = throughput_gains(rows, [NETWORK], "per-layer", 32)
    assert gains == {NETWORK: {"dcoc": pytest.approx([expected] * 3)}}
    figures = summarise(rows, networks=[NETWORK])
    assert figures["throughput_gain_over_autotvm_pct"][NETWORK]["dcoc"] == pytest.approx(expected)
    assert figures["throughput_quartiles_pct"][NETWORK]["dcoc"] == pytest.approx([expected] * 2)


def test_compile_time_adds_the_tuner_and_its_measurements_and_ends_at_the_target():
    price = Price(seconds_per_trial=0.1, seconds_per_cycle=1e-4, source="test")
    task = PARTS[0].task
    rows = [
        # misses the target: its whole run is billed
        a_record("autotvm", task, 0, None, tuner_seconds=7.8),  # 7.8 + 32 * 0.1 + 5 = 16
        a_record("dcoc", task, 0, 10),  # 1 + 10 * 0.1 + 2 = 4
    ]
    saved = compile_reductions(rows, [NETWORK], "per-layer", price, 32)
    assert saved == {NETWORK: {"dcoc": pytest.approx(75.0)}}


def test_runs_of_two_budgets_are_compared_at_the_smaller_one():
    task = PARTS[0].task
    early = {"cycles": 1500, "trials": 16, "tuner_seconds": 0.5, "measured_cycles": 10_000}
    rows = [
        a_record("autotvm", task, 0, 20, states={"16": early}),  # 1 % after 20, 1.5 times after 16
        a_record("dcoc", task, 0, None, budget=16, trials=16, cycles=1200, tuner_seconds=0.5,
                 measured_cycles=10_000),
    ]  # fmt: skip
    found = summarise(rows, networks=[NETWORK])
    assert found["network_budget"] == 16
    assert found["throughput_gain_over_autotvm_pct"] == {
        NETWORK: {"dcoc": pytest.approx(100 * (1500 / 1200 - 1))}
    }
    assert found["compile_time_reduction_pct"] == {NETWORK: {"dcoc": pytest.approx(0)}}
    assert found["full"]["network_budget"] == 32
    assert found["full"]["throughput_gain_over_autotvm_pct"] == {}


def test_runs_of_the_largest_budget_are_shown_by_themselves():
    task = PARTS[0].task
    state = {"cycles": 1030, "trials": 32, "tuner_seconds": 1.0, "measured_cycles": 30_000}
    long = {"budget": 64, "regret": {"32": math.log(1.03), "64": 0.0}, "states": {"32": state}}
    rows = [
        a_record("autotvm", task, 0, 20, **long),
        *(a_record("autotvm", task, seed, None) for seed in (1, 2)),
        a_record("dcoc", task, 0, None),
    ]
    found = summarise(rows, networks=[NETWORK])["longest"]
    assert (found["budget"], found["tasks"], found["seeds"]) == (64, 1, 1)
    assert found["log_regret"]["64"] == {"autotvm": {"value": 0, "low": 0, "high": 0}}
    assert found["log_regret"]["32"].keys() == {"autotvm"}
    page = document(a_study(rows))
    assert "## Regret, the runs of 64 measurements alone" in page
    assert "| autotvm | black-box | 3 | 3 | 32 to 64 |" in page
    alike = [row for row in rows if row["budget"] == 32]
    assert summarise(alike, networks=[NETWORK])["longest"] is None


def test_every_task_weighs_alike_when_a_tuner_has_more_seeds_on_some():
    first, second = (part.task for part in PARTS[:2])
    others = [part.task for part in PARTS[1:]]
    rows = [
        *(a_record("dcoc", first, seed, 30) for seed in range(20)),
        *(a_record("dcoc", task, seed, 5) for task in others for seed in range(2)),
    ]
    kept, left_out = headline(rows)
    assert not left_out
    assert {(r["task"], r["seed"]) for r in kept} == {
        (part.task, seed) for part in PARTS for seed in range(2)
    }
    alone = [a_record("ppo", first, 0, 5), *(a_record("ppo", task, 1, 5) for task in others)]
    kept, left_out = headline([*rows, *alone])
    assert left_out == ["ppo"]
    assert {r["seed"] for r in common([*rows, a_record("ppo", second, 7, 5)])} == {0, 1, 7}


def test_a_tuner_that_misses_a_task_is_left_out_and_named():
    rows = [*some_records(), a_record("botorch", PARTS[0].task, 0, 2)]
    summary = summarise(rows, networks=[])
    assert summary["incomplete"] == ["botorch"]
    assert summary["trials_to_1pct"] == summarise(some_records(), networks=[])["trials_to_1pct"]
    assert "- Not run on all tasks: `botorch`" in document(a_study(rows))


def test_slow_tuners_are_compared_with_all_others_on_the_tasks_that_all_were_run_on():
    few = [part.task for part in PARTS[:2]]
    rows = [*some_records(), *(a_record("ppo", task, s, 3) for task in few for s in range(4))]
    summary = summarise(rows, networks=[NETWORK])
    assert summary["incomplete"] == ["ppo"]
    assert summary["headline_tasks"] == len(PARTS)
    shared = summary["common"]
    assert shared["headline_tasks"] == 2
    assert shared["trials_to_1pct"]["ppo"] == 3
    assert shared["trials_to_1pct"]["dcoc"] == 12
    assert shared["ratio_to_1pct"]["dcoc"]["ppo"]["pairs"] == 2
    assert shared["coverage"][NETWORK] < summary["coverage"][NETWORK]
    page = document(a_study(rows))
    assert page.index("## Measurements to the target, every tuner") < page.index(
        "| ppo | black-box | 8 | 4 | 32 | 3 (3 to 3) | 4 (4 to 4) | 10.00 ("
    )


def test_break_even_is_of_the_tasks_and_seeds_of_both():
    rows = [
        a_record("random", "a", 0, 30, seconds_to_1pct=0.0),
        a_record("random", "b", 0, None, tuner_seconds=0.0, trials=999),
        a_record("dcoc", "a", 0, 10, seconds_to_1pct=4.0),
    ]
    found = summarise(rows, networks=[])["common"]["break_even_seconds"]
    assert found["dcoc"]["random"] == pytest.approx(4.0 / 20)
    assert found["random"] == {}


def test_arms_compare_the_same_tasks_and_seeds_of_a_tuner():
    changes = {"masked": {}, "as-published": {"arm": "as-published", "invalid": 5}}
    rows = [a_record("x", "t", s, 10, **changes["masked"]) for s in range(5)]
    rows += [a_record("x", "t", s, 20, trials=20, **changes["as-published"]) for s in range(3)]
    rows += [a_record("y", "t", 0, 10)]  # in one arm alone
    rows += [a_record("z", "t", 0, 10), a_record("z", "t", 0, 30, noise=0.01)]
    found = arms(rows)
    assert found["conditions"] == ["masked", "as-published", "masked, noise 1 %"]
    assert set(found["tuners"]) == {"x", "z"}
    assert found["tuners"]["z"]["masked, noise 1 %"]["trials_to_1pct"] == 30
    assert "as-published" not in found["tuners"]["z"]
    own = found["tuners"]["x"]
    assert (own["tasks"], own["runs"]) == (1, 3)
    assert own["masked"] == {"trials_to_1pct": 10, "invalid_share": 0}
    assert own["as-published"] == {"trials_to_1pct": 20, "invalid_share": 0.25}
    assert arms(rows[:5]) == {"conditions": [], "tuners": {}}


def test_parts_make_one_study_without_repetition():
    rows = some_records()
    longer = [{**r, "budget": 64, "states": {"32": r}} for r in rows if r["tuner"] == "random"]
    whole = merge([a_part(rows), a_part([*rows[-3:], *longer], seeds=3, runs_missing=2)])
    runs = [r for r in whole["records"] if r["what"] == "run"]
    assert len(runs) == len(rows)
    assert {r["budget"] for r in runs if r["tuner"] == "random"} == {64}
    page = document(whole)
    assert page.count("$ tilewright bench tuners") == 2
    assert "- Runs of the plan that were not made: 2" in page


def test_parts_that_do_not_fit_together_are_refused():
    with pytest.raises(ConfigError, match=r"JSON 2: twin: must be that of JSON 1.*twin-1"):
        merge([a_part([]), a_part([], twin="twin-1")])
    with pytest.raises(ConfigError, match="needs a part"):
        merge([])


def test_a_clear_winner_is_better_and_equal_tuners_tie():
    rows = some_records()
    rows += [{**r, "tuner": "twin"} for r in rows if r["tuner"] == "dcoc"]
    ratios = summarise(rows, networks=[])["ratio_to_1pct"]
    assert ratios["dcoc"]["autotvm"]["verdict"] == "better"
    assert ratios["dcoc"]["twin"]["verdict"] == "tie"
    assert "random" not in ratios
    assert ratios["dcoc"]["random"]["wins"] == len(PARTS)


def test_summary_is_plain_data_with_the_promised_keys(study):
    summary = json.loads(json.dumps(study["summary"]))
    assert summary["trials_to_1pct"] == {
        "random": 30, "autotvm": 20, "dcoc": 12, "tilewright": 9,
    }  # fmt: skip
    for key in (
        "trials_to_5pct", "throughput_gain_over_autotvm_pct", "compile_time_reduction_pct",
    ):  # fmt: skip
        assert summary[key]
    assert set(summary["compile_time_reduction_pct"][NETWORK]) == {"random", "dcoc", "tilewright"}


def test_a_thousand_measurements_are_read_both_ways():
    each = 1000 // len(PARTS)
    curves = {
        "dcoc": [[1, 4000], [each, 2000], [each + 1, 1500], [1000, 1000]],
        "autotvm": [[1, 5000], [each - 1, 3000], [1000, 1100]],
    }
    rows = [
        a_record(tuner, part.task, seed, 9, budget=1000, trials=1000, curve=curve)
        for tuner, curve in curves.items()
        for part in PARTS
        for seed in range(2)
    ]
    found = readings(rows, [NETWORK, "resnet18"], "per-layer")
    assert found == {
        NETWORK: {
            "tasks": len(PARTS), "of": len(PARTS), "each": each,
            "per_task": pytest.approx([10.0, 10.0]), "per_network": pytest.approx([50.0, 50.0]),
        }
    }  # fmt: skip
    assert readings([r for r in rows if r["tuner"] == "dcoc"], [NETWORK], "per-layer") == {}
    assert readings([{**r, "budget": 999} for r in rows], [NETWORK], "per-layer") == {}
    few = readings([r for r in rows if r["task"] != PARTS[0].task], [NETWORK], "per-layer")
    assert (few[NETWORK]["tasks"], few[NETWORK]["each"]) == (len(PARTS) - 1, each)
    page = document(a_study(rows))
    gains = f"+10.0 (+10.0 to +10.0) | +50.0 (+50.0 to +50.0); {each} each |"
    assert f"| {NETWORK} | {len(PARTS)} of {len(PARTS)} | 100 % | 2 | {gains}" in page
    assert "1,000 measurements" not in document(a_study(some_records()))


def test_seeds_cannot_make_up_for_tasks():
    """Ahead on five tasks and behind on three: a tie of tasks, however many seeds agree."""
    needs = {"dcoc": [10] * 5 + [20] * 3, "autotvm": [12] * 5 + [14] * 3}
    rows = [
        a_record(tuner, part.task, seed, own[n])
        for tuner, own in needs.items()
        for n, part in enumerate(PARTS)
        for seed in range(40)
    ]
    figures = summarise(rows, networks=[])
    ratio = figures["ratio_to_1pct"]["dcoc"]["autotvm"]
    assert ratio["low"] < 1 < ratio["high"]
    assert (ratio["verdict"], ratio["tasks"], ratio["budget"]) == ("tie", len(PARTS), 32)
    assert (ratio["wins"], ratio["losses"], ratio["pairs"]) == (5, 3, len(PARTS))
    assert figures["interval_to_1pct"]["dcoc"] == {"value": 10, "low": 10, "high": 20}


def test_a_few_tasks_give_no_verdict():
    few = [part.task for part in PARTS[:4]]
    rows = [
        a_record(tuner, task, seed, n)
        for tuner, n in (("tilewright", 3), ("autotvm", 30))
        for task in few
        for seed in range(30)
    ]
    ratio = summarise(rows, networks=[])["ratio_to_1pct"]["tilewright"]["autotvm"]
    assert (ratio["verdict"], ratio["tasks"]) == ("untold", 4)
    assert "| 10.00 (10.00 to 10.00) | 4, 0; 0.12; untold |" in document(a_study(rows))


def test_a_ratio_is_no_better_than_what_is_known_of_both_medians():
    """A median beyond the budget stood for 33 measurements, and two of them for a ratio above 1."""
    rows = [
        a_record(tuner, part.task, seed, n)
        for tuner, n in (("dcoc", None), ("random", 11), ("autotvm", None))
        for part in PARTS
        for seed in range(3)
    ]
    figures = summarise(rows, networks=[])
    ratio = figures["ratio_to_1pct"]["dcoc"]["random"]
    assert (ratio["bound"], ratio["ceiling"]) == (False, True)
    assert ratio["value"] == pytest.approx(11 / 33)
    assert "autotvm" not in figures["ratio_to_1pct"]["dcoc"]
    page = document(a_study(rows))
    assert re.search(
        rf"\| dcoc \| black-box \| {3 * len(PARTS)} \| 3 \| 32 \| more \| 4 \S+ \S+ \S+ \| < 0.33 ",
        page,
    )
