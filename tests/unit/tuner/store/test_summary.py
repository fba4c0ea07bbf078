# SPDX-License-Identifier: Apache-2.0
"""What the database counts is what follows from the trials one by one."""

import sqlite3
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.dialects import sqlite
from support.analytic_oracle import counters_of
from support.randomness import generator
from support.results import network_curve, task_curve
from support.trials import DIALECTS, SETTINGS, new_location

from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import conv2d
from tilewright.testing.analytic import BASE, MEMORY
from tilewright.tuner.measure.energy import energy_pj
from tilewright.tuner.measure.measurement import Measurement, Request, Status, hw_key
from tilewright.tuner.store.store import Store
from tilewright.tuner.store.summary import _COUNTS, _FRONT, _IMPROVEMENTS
from tilewright.tuner.study import results
from tilewright.tuner.study.schedule_lookup import ScheduleLookup

TASKS = tuple(conv2d(name, 14, 64, 64, 3, 1, 1, count=n) for name, n in (("A", 2), ("B", 1)))
CONFIGS = (BASE, BASE.with_(name="other", mac_pipeline=3))
COUNTS = {task.name: task.count for task in TASKS}


def fill(store: Store, trials: int, name: str = "a") -> int:
    """A study of random trials; cycles and energies are often equal."""
    rng = generator(f"summaries {name}")
    study = store.open_study(name, SETTINGS, {})
    for sequence in range(trials):
        task, hw = TASKS[rng.integers(2)], CONFIGS[rng.integers(2)]
        request = Request(
            hw=hw, workload=task, memory=MEMORY, max_cycles=10_000,
            schedule=Schedule(tile_h=sequence + 1, tile_w=1, tile_ci=1, tile_co=1),
        )  # fmt: skip
        cycles = int(rng.integers(100, 130))
        counters = counters_of(cycles) | {"bytes_read": int(rng.integers(0, 3))}
        answer = Measurement(
            status=Status.OK, fidelity="rtl", cycles=cycles, counters=counters,
            output_checked=bool(rng.integers(5)), cached=bool(rng.integers(2)),
        )  # fmt: skip
        if not rng.integers(4):
            status = list(Status)[1 + rng.integers(3)]
            none = {"cycles": None, "counters": {}, "output_checked": False}
            answer = replace(answer, status=status, failure="it failed", **none)
        store.add_trial(
            study.id, sequence=sequence, task=task.name, request=request, measurement=answer,
            origin=["default", "random"][rng.integers(2)], oracle="o",
        )  # fmt: skip
    return study.id


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_fastest_of_all_studies_is_found_by_the_database(
    tmp_path: Path, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(new_location(dialect, tmp_path)) as store:
        studies = [fill(store, 60, name) for name in ("a", "b")]
        trials = [trial for study in studies for trial in store.trials(study)]
        monkeypatch.setattr(Store, "trials", None)  # a million of them would not be read
        for hw in CONFIGS:
            mine = [t for t in trials if t.config_hash == hw_key(hw) and t.measurement.valid]
            first = min(mine, key=lambda t: t.measurement.cycles)  # A and B are one workload
            assert store.fastest(hw_key(hw)) == [first]
            lookup = ScheduleLookup(hw, MEMORY, budget=0, store=store)
            known = lookup._by_key[TASKS[0].key]
            assert known.schedule.to_mapping() == first.schedule
            assert known.cycles == first.measurement.cycles


@pytest.mark.parametrize("dialect", DIALECTS)
def test_summary_front_and_failures_are_those_of_the_trials(tmp_path: Path, dialect: str) -> None:
    with Store(new_location(dialect, tmp_path)) as store:
        study = fill(store, 150)
        trials = store.trials(study)
        assert len(trials) == 150
        summary = store.summary(study)
        valid = [t for t in trials if t.measurement.valid]
        assert summary.count == len(trials)
        assert summary.trials == Counter((t.config_hash, t.task) for t in trials)
        assert summary.valid == Counter((t.config_hash, t.task) for t in valid)
        assert summary.statuses == Counter(t.measurement.status.value for t in trials)
        assert summary.cached == sum(t.measurement.cached for t in trials)
        assert summary.last == {t.config_hash: t.sequence for t in trials}
        for shared in (False, True):
            curve = results.network_curve(summary.improvements, COUNTS, shared=shared)
            assert curve == network_curve(trials, COUNTS, shared=shared)
        for task in COUNTS:
            assert results.task_curve(summary.improvements, task) == task_curve(trials, task)

        def cost(trial):
            hw = next(c for c in CONFIGS if f"{c.config_hash:08x}" == trial.config_hash)
            return trial.measurement.cycles, energy_pj(hw, trial.measurement.counters)

        def beaten(trial):
            mine, rivals = cost(trial), [
                t for t in valid if (t.task, t.config_hash) == (trial.task, trial.config_hash)
            ]  # fmt: skip
            return any(
                (cost(t) != mine and all(a <= b for a, b in zip(cost(t), mine, strict=True)))
                or (cost(t) == mine and t.sequence < trial.sequence)
                for t in rivals
            )  # fmt: skip

        assert store.front(study) == [t for t in valid if not beaten(t)]
        bad = [t for t in trials if t.measurement.status is not Status.OK]
        assert store.failures(study, 7) == bad[:7]
        wrong = [t for t in bad if t.measurement.status is Status.MISMATCH]
        assert store.failures(study, 999, status=Status.MISMATCH) == wrong
        base = f"{BASE.config_hash:08x}"
        untuned = [t for t in valid if t.origin == "default" and t.config_hash == base]
        assert store.untuned(study, base) == untuned


@pytest.mark.parametrize(
    "query", [_COUNTS, _IMPROVEMENTS, _FRONT], ids=["counts", "curves", "front"]
)
def test_reports_read_the_index_and_not_the_trials(tmp_path: Path, query) -> None:
    """A million trials are gigabytes; what the summary reads of them is not."""
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        study = fill(store, 5)
    text = query.params(study=study).compile(
        dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True}
    )
    with sqlite3.connect(path) as raw:
        plan = [row[3] for row in raw.execute(f"EXPLAIN QUERY PLAN {text}")]
    raw.close()
    assert any("SEARCH trials USING" in step and "ix_trials_summary" in step for step in plan), plan
    assert not any(step.startswith("SCAN trials") for step in plan)
