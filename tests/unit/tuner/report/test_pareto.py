# SPDX-License-Identifier: Apache-2.0
"""The Pareto archive: nothing in it is beaten, and nothing that a study found beats it."""

import itertools
import json

import pytest
from support.analytic_study import run

from tilewright.tuner.report.pareto import Point, pareto, pareto_lines
from tilewright.tuner.report.result_json import conditions_of, summary_of, task_rows
from tilewright.tuner.study.best_network import cost_of, stored_share
from tilewright.tuner.study.options import Mode


def test_the_archive_holds_no_network_that_another_beats(tmp_path) -> None:
    result, _ = run(tmp_path, configs=4, budget=150)
    archive = pareto(result)
    assert archive[0].cycles == result.best_network
    assert not any(a.beats(b) for a, b in itertools.permutations(archive, 2))


def test_no_network_on_the_hull_is_missing(tmp_path) -> None:
    """Against brute force: the least weighted sum over every combination of measured trials."""
    result, _ = run(tmp_path, configs=1, budget=24)
    area = stored_share(result.configs[0], result.settings["board"])
    choices = [
        [cost_of(t, area) for t in result.trials if t.task == task.name and t.measurement.valid]
        for task in result.tasks
    ]
    counts = [task.count for task in result.tasks]
    networks = [
        (
            sum(c.cycles * n for c, n in zip(combination, counts, strict=True)),
            sum(c.energy * n for c, n in zip(combination, counts, strict=True)),
        )
        for combination in itertools.product(*choices)
    ]
    archive = pareto(result)
    assert min(p.cycles for p in archive) == min(cycles for cycles, _ in networks)
    assert min(p.energy for p in archive) == pytest.approx(min(energy for _, energy in networks))
    found = {(p.cycles, round(p.energy)) for p in archive}
    assert found <= {(cycles, round(energy)) for cycles, energy in networks}


def test_beats_needs_no_worse_anywhere_and_better_somewhere() -> None:
    def point(cycles: int, energy: float, area: float) -> Point:
        return Point(
            config="c", config_hash="0", cycles=cycles, energy=energy, area=area, schedules={}
        )

    assert point(1, 2, 3).beats(point(1, 2, 4))
    assert not point(1, 2, 3).beats(point(1, 2, 3))
    assert not point(1, 5, 3).beats(point(2, 2, 3))


def test_per_layer_results_have_no_archive(tmp_path) -> None:
    result, _ = run(tmp_path, mode=Mode.PER_LAYER)
    assert pareto(result) == []
    assert pareto_lines([]) == []


def test_the_rows_and_the_summary_say_what_was_found(tmp_path) -> None:
    result, _ = run(tmp_path)
    assert summary_of(result)["best_cycles"] == result.best_network
    rows = task_rows(result)
    assert sum(row["best_cycles"] * row["count"] for row in rows) == result.best_network
    assert conditions_of(result)["study"] == result.study.name
    json.dumps([rows, summary_of(result), conditions_of(result)], allow_nan=False)
