# SPDX-License-Identifier: Apache-2.0
"""Plans, the file of runs, and going on after a stop."""

import dataclasses
import json

import numpy as np
import pytest
from support.randomness import fresh_rng
from support.search.arena_records import made_up_table

from tilewright.bench.arena import runner
from tilewright.bench.arena.plots import SAMPLING_POINTS, sampling_course
from tilewright.bench.arena.records import records_of
from tilewright.bench.arena.replay import Event, Run, TableSpace, Trial, initial_points, replay
from tilewright.bench.arena.runner import (
    PAST_TASKS,
    Contestant,
    Plan,
    RunStore,
    key_of,
    run_plan,
    sources_of,
)
from tilewright.bench.arena.sampling import COUNT, TracedDcoc, compare_selections, trace_sampling
from tilewright.bench.arena.tables import Table
from tilewright.bench.arena.tasks import make_task
from tilewright.host.common.errors import StoreError
from tilewright.host.network.workload import conv2d
from tilewright.tuner.search import Result, TunerError
from tilewright.tuner.search.learning.confidence import Selection
from tilewright.tuner.search.learning.dcoc import DcocTuner

TASK = make_task("schedule", conv2d("small", 4, 32, 32, 3, 1, 1))
RANDOM = Contestant(label="random", tuner="random")
BROKEN = Contestant(label="broken", tuner="random", options={"no_such_option": 1})


def of_task(task, *cycles):
    """A table of a task, small enough to be told apart; no run is made on it."""
    return Table(task=task, cycles=np.array(cycles or (7, -1)))


def plan(tables=None, **changes):
    tables = {TASK.id: of_task(TASK)} if tables is None else tables
    defaults = {"tables": tables, "contestants": [RANDOM], "seeds": 3, "budget": 16}
    return Plan(**{**defaults, **changes})


TABLES = {"t": of_task(TASK)}


def a_run(**changes):
    event = Event(trial=3, cycles=10, flat=4, tuner_seconds=0.5, measured_cycles=99, invalid=1)
    trial = Trial(**{"task": "t", "tuner": "random", "seed": 1, **changes})
    return Run(trial=trial, events=(event,), trials=3, tuner_seconds=0.5)


def test_a_plan_is_every_combination_with_noise_in_the_masked_arm_alone():
    trials = list(plan(arms=("masked", "as-published"), noises=(0.0, 0.01), seeds=7).trials())
    assert len(trials) == len({key_of(t, plan().tables) for t in trials}) == 3 * 7
    assert not [t for t in trials if t.noise and t.arm != "masked"]
    blocks = [t.seed for t in trials]
    assert blocks[:15] == [*range(5)] * 3  # all conditions before the next seeds


def test_runs_survive_in_their_file_and_a_torn_line_is_lost_alone(tmp_path):
    path = tmp_path / "runs.jsonl"
    store = RunStore(path)
    store.add("one", a_run())
    store.add("two", a_run(options={"x": 1}, noise=0.01, past=("u", "v")))
    with path.open("a") as file:
        file.write('{"key": "three", "run": {"tri')
    again = RunStore(path)
    assert again.get("one") == a_run()
    assert again.get("two") == a_run(options={"x": 1}, noise=0.01, past=("u", "v"))
    assert again.get("three") is None
    again.add("three", a_run())
    again.add("four", a_run())
    for name in ("one", "three", "four"):  # the third one stood on the torn line
        assert RunStore(path).get(name) == a_run()


def test_a_key_depends_on_trial_table_twin_and_sources(monkeypatch):
    trial = Trial(task="t", tuner="random", seed=1)
    before = key_of(trial, TABLES)
    assert before == key_of(dataclasses.replace(trial), {"t": of_task(TASK)})
    for change in ({"seed": 2}, {"noise": 0.1}, {"options": {"a": 1}}, {"prior": False}):
        assert key_of(dataclasses.replace(trial, **change), TABLES) != before
    slow = dataclasses.replace(TASK.memory, read_latency=TASK.memory.read_latency + 1)
    for table in (
        of_task(TASK, 8, -1), of_task(TASK, -1, 7), of_task(TASK, 7, 7),
        of_task(make_task("per-layer", TASK.workload)),
        of_task(dataclasses.replace(TASK, memory=slow)),
        dataclasses.replace(TABLES["t"], twin="another twin"),
    ):  # fmt: skip
        assert key_of(trial, {"t": table}) != before
    past = dataclasses.replace(trial, past=("u",))
    tables = [{**TABLES, "u": of_task(TASK, n)} for n in (7, 8)]
    assert key_of(past, tables[0]) != key_of(past, tables[1])
    monkeypatch.setattr(runner, "identity_of", lambda _: "another twin")
    assert key_of(trial, TABLES) != before


def test_a_kept_run_that_the_table_cannot_have_given_is_refused():
    table = made_up_table()
    run = replay(table, Trial(task=table.task.id, tuner="random", seed=1, budget=24))
    tables = {table.task.id: table}
    assert len(records_of([run], tables, [RANDOM])) == 1
    last = run.events[-1]
    for change in (
        {"cycles": last.cycles - 1}, {"cycles": 3}, {"flat": last.flat + 1},
        {"flat": table.cycles.size}, {"trial": 25}, {"trial": 0},
    ):  # fmt: skip
        events = (*run.events[:-1], dataclasses.replace(last, **change))
        with pytest.raises(StoreError, match="must be one on this table"):
            records_of([dataclasses.replace(run, events=events)], tables, [RANDOM])


@pytest.mark.parametrize(
    "damage",
    [
        lambda run: run.update(trials="x"), lambda run: run.update(trials=-1),
        lambda run: run.update(tuner_seconds=None), lambda run: run.update(events=5),
        lambda run: run["events"][0].update(cycles=1.5),
        lambda run: run["events"][0].update(tuner_seconds=float("nan")),
        lambda run: run["trial"].pop("task"), lambda run: run.update(trial=[]),
    ],
)  # fmt: skip
def test_a_file_of_other_values_is_no_file_of_runs(tmp_path, damage):
    path = tmp_path / "runs.jsonl"
    run = dataclasses.asdict(a_run())
    path.write_text(json.dumps({"key": "k", "run": run}) + "\n")
    assert RunStore(path).get("k") == a_run()
    run = json.loads(path.read_text())["run"]
    damage(run)
    path.write_text(json.dumps({"key": "k", "run": run}) + "\n")
    with pytest.raises(StoreError, match="must be a file of runs"):
        RunStore(path)


def test_a_file_that_is_no_text_is_no_file_of_runs_and_a_deep_line_is_lost_alone(tmp_path):
    path = tmp_path / "runs.jsonl"
    RunStore(path).add("k", a_run())
    whole = path.read_bytes()
    path.write_bytes(whole + b"[" * 100_000 + b"\n")
    assert RunStore(path).get("k") == a_run()
    path.write_bytes(whole[:20] + bytes([fresh_rng().integers(0xC0, 0x100)]) + whole[20:])
    with pytest.raises(StoreError, match="must be a file of runs"):
        RunStore(path)


def test_a_study_goes_on_where_it_stopped_and_names_what_failed(tmp_path):
    store = RunStore(tmp_path / "runs.jsonl")
    nothing = run_plan(plan(), tables=tmp_path, store=store, workers=1, seconds=0)
    assert (list(nothing.runs), nothing.missing) == ([], 3)
    part = run_plan(plan(seeds=1), tables=tmp_path, store=store, workers=1)
    assert len(part.runs) == 1
    told = []
    whole = run_plan(
        plan(contestants=[RANDOM, BROKEN]),
        tables=tmp_path,
        store=RunStore(tmp_path / "runs.jsonl"),
        workers=1,
        on_progress=lambda done, total, trial: told.append((done, total, trial.seed)),
    )
    assert whole.runs[0] == part.runs[0]
    assert [run.trial.seed for run in whole.runs] == [0, 1, 2]
    assert whole.missing == 3
    assert len(whole.failures) == 1
    assert "no_such_option" in whole.failures[0]
    assert told[-1][:2] == (6, 6)
    assert len(told) == 5


def test_contestants_are_written_as_names_with_options():
    parse = Contestant.parse
    assert parse("random") == RANDOM
    ablated = parse("dcoc:selection=top,batch=4")
    assert ablated.options == {"selection": "top", "batch": 4}
    assert (ablated.label, ablated.tuner) == ("dcoc:selection=top,batch=4", "dcoc")
    assert not parse("tilewright:no-prior").prior
    assert parse("autotvm:transfer").transfer
    assert not parse("autotvm").transfer


def test_a_tuner_of_a_file_is_run_anew_when_it_or_what_it_imports_is_changed(tmp_path):
    (tmp_path / "steps_of_mine.py").write_text("STEP = 1\n", encoding="utf-8")
    (tmp_path / "mine.py").write_text(
        "from steps_of_mine import STEP\nimport tilewright as tw\n"
        "class Mine(tw.Tuner):\n"
        "    def __init__(self, space, *, seed, initial=(), width=STEP):\n"
        "        super().__init__(space, seed=seed, initial=initial)\n"
        "    def _propose(self): return self.sample_new()\n"
        "    def _learn(self, result): pass\n",
        encoding="utf-8",
    )
    text = f"{tmp_path}/mine.py:Mine"
    mine = Contestant.parse(f"{text}:width=3")
    assert (mine.tuner, mine.options) == (text, {"width": 3})
    keys = set()
    for content in ("STEP = 1\n", "STEP = 2\n"):
        (tmp_path / "steps_of_mine.py").write_text(content, encoding="utf-8")
        sources_of.cache_clear()
        keys.add(sources_of(text))
    assert len(keys) == 2
    found = run_plan(plan(contestants=[mine]), tables=tmp_path, store=RunStore(tmp_path / "runs"))
    assert found.runs
    assert not found.failures


def test_experience_is_of_other_tasks_and_makes_another_run():
    tables = {
        task.id: of_task(task)
        for task in (
            make_task("schedule", conv2d("x", 4, c, 32, 3, 1, 1)) for c in (16, 32, 48, 64)
        )
    }
    transfer = Contestant.parse("autotvm:transfer")
    trials = list(plan(tables=tables, contestants=[transfer], seeds=1).trials())
    assert all(len(t.past) == PAST_TASKS and t.task not in t.past for t in trials)
    alone = dataclasses.replace(trials[0], past=())
    assert key_of(trials[0], tables) != key_of(alone, tables)
    with pytest.raises(TunerError, match="other tasks"):
        list(plan(contestants=[transfer]).trials())


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("nobody", "no tuner"),
        ("dcoc:no_such=1", "must be an option"),
        ("mine.py:", "must be a name"),
        ("gone.py:Climb", "no such file"),
    ],
)
def test_a_contestant_that_cannot_be_is_refused(text, complaint):
    with pytest.raises(TunerError, match=complaint):
        Contestant.parse(text)


# -- every selection is given the candidates that DCOC would choose from --------------------------


@pytest.fixture(scope="module")
def rows():
    return list(compare_selections(made_up_table(), [0, 1]))


def test_each_seed_has_its_candidates_and_every_selection(rows):
    names = ["candidates", *map(str, Selection)]
    assert [(r["seed"], r["selection"]) for r in rows] == [(s, n) for s in (0, 1) for n in names]


def test_selections_take_a_few_of_the_candidates(rows):
    for seed in (0, 1):
        own = {r["selection"]: r["ratios"] for r in rows if r["seed"] == seed}
        candidates = own.pop("candidates")
        assert len(candidates) > 2 * COUNT
        for name, ratios in own.items():
            assert len(ratios) == COUNT
            foreign = set(ratios) - set(candidates)
            # Confidence sampling alone makes a point of its own: the mode of the kept ones.
            assert len(foreign) <= (name == Selection.CONFIDENCE)
            assert np.all(np.diff(ratios) >= 0)


def test_equal_seeds_give_equal_rows(rows):
    assert list(compare_selections(made_up_table(), [0])) == rows[: len(rows) // 2]


@pytest.fixture(scope="module")
def course():
    return list(trace_sampling(made_up_table(), 0, 64))


def test_a_run_shows_each_plan_before_and_after_the_sampling(course):
    trials = [row["trial"] for row in course]
    assert trials == sorted(trials)
    assert trials[0] == 16  # the first points are random
    assert trials[-1] <= 64 - 1
    for row in course:
        assert len(row["before"]) > 2 * COUNT
        assert 0 < len(row["after"]) <= COUNT
        assert len(set(row["after"]) - set(row["before"])) <= 1  # the mode of the kept ones
        assert min(row["before"]) >= 1.0


def test_what_is_traced_is_what_dcoc_measures():
    """Looking on changes nothing: equal seeds measure equal points."""
    table = made_up_table()
    space = TableSpace(table.task.space, table.legal)

    def measured(kind):
        tuner = kind(space, seed=3, initial=initial_points(space, table.task.id, 3))
        found = []
        for _ in range(5):
            batch = tuner.ask(COUNT)
            found += [c.index for c in batch]
            tuner.tell([Result(index=c.index, value=table.measure(c.index)) for c in batch])
        return found

    assert measured(TracedDcoc) == measured(DcocTuner)


def test_the_course_is_drawn_with_two_charts_per_task(course):
    other = [{**row, "task": "other", "layer": "O"} for row in course]
    charts = sampling_course([*course, *other])
    assert [title.partition(":")[0] for title, _ in charts] == ["T", "T", "O", "O"]
    before, after = charts[0][1].series
    assert list(before.y) == [len(row["before"]) for row in course]
    assert list(after.y) == [len(row["after"]) for row in course]
    cloud = charts[1][1].series[0]
    assert len(cloud.x) == sum(min(SAMPLING_POINTS, len(row["before"])) for row in course)
    assert max(cloud.y) == max(max(row["before"]) for row in course)
