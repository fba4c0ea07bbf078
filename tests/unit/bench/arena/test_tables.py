# SPDX-License-Identifier: Apache-2.0
"""Tables against the twin, point by point, and the tasks that they are of."""

import dataclasses
import json

import numpy as np
import pytest
from support.command_line import call
from support.documents.browser import Browser, missing
from support.documents.html_structure import assert_well_made
from support.documents.seen_in_browser import assert_shown_well
from support.search.arena_records import NETWORK, PARTS, a_part, a_record, a_study, some_records

from tilewright.bench.arena import tables, tasks
from tilewright.bench.arena.page_tables import document
from tilewright.bench.arena.plots import curves, page, reached
from tilewright.bench.arena.study import confirm, point_of
from tilewright.bench.arena.tables import load_table
from tilewright.host.common.errors import ConfigError
from tilewright.host.lowering import lower
from tilewright.host.network.workload import conv2d
from tilewright.host.network.zoo import load_network
from tilewright.sim.twin.device import Twin
from tilewright.tuner.exhaustive.exhaust import exhaust
from tilewright.tuner.schedule.shortlist import timing_class

LAYER = conv2d("small", 4, 32, 32, 3, 1, 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tables")


@pytest.fixture(scope="module")
def joint(folder):
    return load_table(tasks.make_task("per-layer", LAYER), folder)


def test_a_joint_table_agrees_with_the_rules_and_the_twin_on_a_sample(joint):
    space = joint.task.space
    flats = np.random.default_rng(1).choice(joint.cycles.size, size=300, replace=False)
    checked = 0
    for flat in flats:
        index = tuple(int(i) for i in np.unravel_index(flat, joint.cycles.shape))
        assert (joint.measure(index) is not None) == space.valid(index)
        if joint.measure(index) is not None and checked < 30:
            hw, schedule = point_of(joint, int(flat))
            program = lower(hw, LAYER, schedule).program
            assert Twin(hw, joint.task.memory).counters(program).cycles == joint.measure(index)
            checked += 1
    assert checked == 30


def test_configurations_of_a_timing_class_share_a_landscape_that_agrees_with_their_own(
    joint, folder, tmp_path
):
    classes = {timing_class(hw) for hw in joint.task.configs}
    assert len(classes) < len(joint.task.configs)
    assert len(list(folder.glob("*.cycles"))) == len(classes)
    for position, hw in enumerate(joint.task.configs):
        own = dataclasses.replace(joint.task, configs=(hw,))
        alone = exhaust(own.space, own.memory, tmp_path, identity="twin", workers=1).cycles
        column = joint.cycles[position]
        assert (column[column > 0] == alone[alone > 0]).all()


@pytest.mark.parametrize("track", ["per-layer", "schedule"])
def test_a_sifted_table_is_complete_near_the_optimum_and_runs_the_rest_on_demand(
    folder, tmp_path, monkeypatch, track
):
    whole = load_table(tasks.make_task(track, LAYER), folder)
    monkeypatch.setattr(tables, "WHOLE_WORK", 0)
    sifted = load_table(tasks.make_task(track, LAYER), tmp_path)
    assert sifted.best == whole.best
    about, truth = sifted.summary(), whole.summary()
    assert {name for name in about if about[name] != truth[name]} == {"whole"}
    assert (sifted.legal == whole.legal).all()
    known = sifted.cycles > 0
    assert (sifted.cycles[known] == whole.cycles[known]).all()
    assert (whole.cycles[whole.legal & ~known] > tables.REACH * whole.optimum).all()
    assert known.sum() < 0.7 * whole.legal.sum()
    asked = np.argwhere(whole.legal & ~known)[::40]
    for index in map(tuple, asked.tolist()):
        assert sifted.measure(index) == whole.measure(index)
    again = load_table(tasks.make_task(track, LAYER), tmp_path)
    known = sifted.cycles > 0
    assert (again.cycles[known] == sifted.cycles[known]).all(), "what was asked for is kept"


def test_what_is_drawn_depends_on_names_alone():
    names = [f"layer {number}" for number in range(20)]
    few, more = tasks.drawn(names, 5), tasks.drawn(names, 9)
    assert len(few) == 5
    assert set(few) < set(more)
    assert more == [name for name in names if name in more]
    assert set(tasks.drawn(names[::-1], 5)) == set(few)
    assert tasks.drawn(names, None) == tasks.drawn(names, 99) == names


def test_the_schedule_track_is_the_first_configurations_column(joint, folder):
    alone = load_table(tasks.make_task("schedule", LAYER), folder)
    hw = joint.task.configs[0]
    for flat in np.flatnonzero(alone.legal)[::7]:
        _, schedule = point_of(alone, int(flat))
        index = joint.task.space.index_of(
            {"hw": hw.config_hash, **{k: v for k, v in vars(schedule).items()
                                      if k in {knob.name for knob in joint.task.space.knobs}}}
        )  # fmt: skip
        assert joint.measure(index) == int(alone.cycles.ravel()[flat])


def test_another_twin_starts_another_table(folder, monkeypatch):
    class CalledError(Exception):
        pass

    def measured(*_args, **_more):
        raise CalledError

    monkeypatch.setattr(tables, "identity_of", lambda _: "twin-of-tomorrow")
    monkeypatch.setattr(Twin, "batch", measured)
    with pytest.raises(CalledError):
        load_table(tasks.make_task("per-layer", LAYER), folder)


@pytest.mark.parametrize("name", tasks.NETWORKS)
def test_the_parts_of_a_network_are_its_layers(name):
    network = load_network(name)
    parts = tasks.parts_of("per-layer", network)
    assert sum(part.count for part in parts) == network.layers
    assert {part.task for part in parts} == set(tasks.tasks_of("per-layer", [name]))


def test_an_unknown_track_lists_the_known_ones():
    with pytest.raises(ConfigError, match="per-layer, schedule"):
        tasks.make_task("shared", LAYER)


# -- winners of the tables on the full RTL --------------------------------------------------------


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    task = tasks.make_task("schedule", conv2d("small", 4, 32, 32, 3, 1, 1))
    return load_table(task, tmp_path_factory.mktemp("tables"))


def record(table, flat, seed=0):
    return {"task": table.task.id, "flat": flat, "seed": seed}


@pytest.mark.slow
def test_winners_and_the_optimum_take_the_tables_cycles_once_each(table):
    legal = np.flatnonzero(table.legal)
    worst = int(legal[np.argmax(table.cycles.ravel()[legal])])
    rows = list(
        confirm(
            [record(table, worst), record(table, worst, seed=1), record(table, 0, seed=7)],
            {table.task.id: table},
            workers=1,
        )
    )
    assert sorted(r["expected_cycles"] for r in rows) == [
        table.optimum,
        int(table.cycles.ravel()[worst]),
    ]
    assert all(r["equal"] and r["rtl_cycles"] == r["expected_cycles"] for r in rows)


@pytest.mark.slow
@pytest.mark.parametrize("error", [-2000, 5])
def test_a_table_that_is_wrong_is_found_out(table, error):
    wrong = dataclasses.replace(table, cycles=np.where(table.legal, table.cycles + error, -1))
    flat = int(np.flatnonzero(wrong.legal)[0])
    rows = list(confirm([record(wrong, flat)], {wrong.task.id: wrong}, workers=1))
    assert rows
    assert not any(r["equal"] for r in rows)


# -- the page and the plots of hand-made records --------------------------------------------------


@pytest.fixture(scope="module")
def study():
    return a_study(some_records())


def test_curves_end_where_the_shortest_run_does_and_longer_runs_have_their_own(tmp_path):
    task = PARTS[0].task
    rows = [a_record("autotvm", task, seed, 3, budget=32) for seed in range(3)]
    late = a_record("autotvm", task, 3, 50, budget=64)
    for chart in (curves([*rows, late]), reached([*rows, late])):
        assert max(max(series.x) for series in chart.series) == 32
    assert max(reached([*rows, late]).series[0].y) == 0.75
    assert "Best so far (the runs of 64 measurements alone)" in page(a_study([*rows, late]))


def test_the_page_holds_the_figures_and_separates_the_tracks(study):
    page = document(study)
    same = "4 (4 to 4) | 2.50 (2.50 to 2.50) | 1.00 (1.00 to 1.00) |"
    runs = 8 * len(PARTS)
    black = page.index(f"| dcoc | black-box | {runs} | 8 | 32 | 12 (12 to 12) | {same}")
    assert black < page.index(
        f"| tilewright | grey-box | {runs} | 8 | 32 | 9 (9 to 9) | 4 (4 to 4) | 3.33 ("
    )
    rows = [line for line in page.splitlines() if line.startswith("| autotvm | 1.67")]
    assert len(rows) == 1  # dcoc needs fewer on all tasks
    assert rows[0] == (
        f"| autotvm | 1.67 (1.67 to 1.67) | {len(PARTS)}, 0; 0.023; better "
        "| 1.00 (1.00 to 1.00) | 0, 0; 1; tie |"
    )
    assert f"| {NETWORK} | {len(PARTS)} | {len(PARTS)} | {len(PARTS)} | 100 % | 100 % |" in page
    assert "$ tilewright bench tuners --seeds 8\n" in page
    assert "- Runs of the plan that were not made: 0" in page
    assert "On the RTL" not in page


def test_the_page_says_what_is_missing_wrong_and_compared():
    rows = [
        {"what": "confirmation", "layer": "C1", "hw": "a", "equal": False, "failure": "differs"},
        {"what": "confirmation", "layer": "C2", "hw": "a", "equal": True, "failure": ""},
        {"what": "selection", "selection": "top", "ratios": [1.0, 1.5, 2.0]},
    ]
    broken = a_study(
        some_records(), runs_missing=1234, failures=["ppo: ValueError: no"], note="Stopped early."
    )
    broken["records"] += rows
    page = document(broken)
    assert "- Runs of the plan that were not made: 1,234" in page
    assert "- ppo: ValueError: no" in page
    assert "- Stopped early." in page
    assert f"| all | 2 | 1 | {len(PARTS) - 2} | - |" in page
    assert "| C1 on a | 1 | 0 | - | differs |" in page
    assert "| top | 1 | 1.000 | 1.500 | 2.000 |" in page


def test_the_command_writes_the_page_from_the_json(study, tmp_path):
    source, page = tmp_path / "part.json", tmp_path / "page.md"
    source.write_text(json.dumps(a_part(some_records())))
    plots = tmp_path / "plots.html"
    words = ["bench", "tuners-page", str(source), "--output", str(page), "--html", str(plots)]
    assert call(*words).exit_code == 0
    assert page.read_text() == document(study)
    assert "Log-regret at fixed budgets" in plots.read_text()
    source.write_text("{}")
    refused = call(*words)
    assert refused.exit_code == 2
    assert "must be a JSON file that a command wrote" in refused.stderr
    source.write_text(json.dumps(a_part(some_records())))
    (tmp_path / "file").write_text("")
    refused = call(*words[:-1], str(tmp_path / "file" / "plots.html"))
    assert refused.exit_code == 2
    assert "file" in refused.stderr


def test_plots_are_one_small_file_with_their_figures_in_tables(study, tmp_path):
    study["records"].append({"what": "selection", "selection": "confidence", "ratios": [1.0, 1.1]})
    text = page(study)
    found = assert_well_made(text)
    assert (found.charts, found.tables) == (4 * 2, 13)  # each drawn for a screen and for a phone
    for tuner, needed in study["summary"]["trials_to_1pct"].items():
        assert f'<th scope="row">{tuner}</th>' in text
        assert f">{needed:.0f} ({needed:.0f} to {needed:.0f})</td>" in text


@pytest.mark.skipif(bool(missing()), reason=missing())
def test_plots_are_shown_well(study, tmp_path):
    course = [
        {"what": "sampling", "task": t, "layer": t, "seed": 0, "trial": n, "before": [1.1, 2, 9],
         "after": [1.1]}
        for t in ("C1", "C2") for n in (8, 16, 24)
    ]  # fmt: skip
    selection = {"what": "selection", "selection": "top", "ratios": [1.0, 1.5]}
    whole = {**study, "records": [*study["records"], selection, *course]}
    path = tmp_path / "plots.html"
    path.write_text(page(whole), encoding="utf-8")
    with Browser() as browser:
        assert_shown_well(browser, path)
