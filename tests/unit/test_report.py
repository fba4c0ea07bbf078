# SPDX-License-Identifier: Apache-2.0
"""Reports show what the store holds, with its conditions, and load nothing from outside."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest
from rich.console import Console
from support.analytic import BASE, BOARD, MEMORY, RULES, TASKS, AnalyticOracle, Silent

from tilewright.host.errors import StoreError
from tilewright.tuner.report import condition_lines, number, outcome_line, print_summary
from tilewright.tuner.report_html import write_html
from tilewright.tuner.results import StudyResult, load_result, network_curve, task_curve
from tilewright.tuner.settings import Mode, StudySettings
from tilewright.tuner.store import Store
from tilewright.tuner.study import run_study


def result_of(folder: Path, oracle: AnalyticOracle | None = None, mode: Mode = Mode.SHARED):
    settings = StudySettings(
        model="net",
        tasks=TASKS,
        cpu_operators=("softmax: <not> offloaded",),
        board=BOARD,
        memory=MEMORY,
        base=BASE,
        budget=40,
        configs=3,
        mode=mode,
    )
    with Store(folder / "s.sqlite") as store:
        run_study(
            "study",
            settings,
            store=store,
            oracle=oracle or AnalyticOracle(),
            rules=RULES,
            listener=Silent(),
        )
        return load_result(store, "study")


@pytest.fixture(scope="module")
def result(tmp_path_factory) -> StudyResult:
    return result_of(
        tmp_path_factory.mktemp("r"), AnalyticOracle(fail=lambda r: r.schedule.oc_threading == 2)
    )


def terminal(result: StudyResult) -> str:
    console = Console(width=200, record=True, file=None, quiet=False)
    with console.capture() as capture:
        print_summary(result, console)
    return capture.get()


def test_terminal_summary_shows_each_layer_with_its_figures(result: StudyResult) -> None:
    text = terminal(result)
    for task in result.tasks:
        line = next(x for x in text.splitlines() if x.split()[:1] == [task.name])
        assert number(task.default_cycles) in line
        assert number(task.best_cycles) in line
        assert number(task.bound) in line
    assert result.chosen is not None
    assert result.chosen.hw["name"] in text
    assert result.chosen.area["text"] in text


def test_outcome_line_states_time_and_ratios(result: StudyResult) -> None:
    best, default = result.best_network, result.default_network
    assert best is not None
    assert default is not None
    line = outcome_line(result)
    assert f"{best:,} cycles = {best / 100 / 1e3:.2f} ms at 100 MHz" in line
    assert f"{default / best:.2f}x the untuned {default:,}" in line


def test_conditions_name_memory_clock_fidelity_seed_budget_versions(result: StudyResult) -> None:
    text = "\n".join(condition_lines(result))
    for part in (
        "memory test", "read latency 10", "100 MHz (chosen for tests)", "fidelity analytic",
        "seed 0", "budget 40 of 40", "versions: ", "tilewright", "softmax",
    ):  # fmt: skip
        assert part in text


def test_per_layer_reports_say_that_they_cannot_be_deployed(tmp_path: Path) -> None:
    result = result_of(tmp_path, mode=Mode.PER_LAYER)
    assert "no single bitstream" in terminal(result)
    assert " ms at " not in outcome_line(result)
    assert "not deployable" in write_html(result, tmp_path / "r.html").read_text()


def test_html_loads_nothing_from_outside(result: StudyResult, tmp_path: Path) -> None:
    text = write_html(result, tmp_path / "r.html").read_text(encoding="utf-8")
    own = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r"(?:src|href)\s*=|url\(|@import", own)
    assert not re.search(r"<script[^>]+src", text)
    assert "plotly.js v" in text


def test_html_plots_hold_the_measured_figures(result: StudyResult, tmp_path: Path) -> None:
    text = write_html(result, tmp_path / "r.html").read_text(encoding="utf-8")
    traces = [
        trace
        for match in re.finditer(r"Plotly\.newPlot\(\s*\"[^\"]+\",\s*(\[.*?\]),\s*\{\"", text)
        for trace in json.loads(match[1])
    ]
    by_name: dict[str, list[dict]] = {}
    for trace in traces:
        by_name.setdefault(trace["name"], []).append(trace)
    assert by_name["best"][0]["y"] == [t.best_cycles for t in result.tasks]
    assert by_name["bound"][0]["y"] == [t.bound for t in result.tasks]
    assert by_name["network"][0]["customdata"][-1] == result.best_network
    assert len(by_name["busy"]) == 4
    columns: dict[str, list[float]] = {}
    for trace in traces:
        if trace.get("legendgroup"):
            sums = columns.setdefault(trace.get("xaxis", "x"), [0.0] * len(trace["y"]))
            columns[trace.get("xaxis", "x")] = [
                a + b for a, b in zip(sums, trace["y"], strict=True)
            ]
    assert len(columns) == 4
    for sums in columns.values():
        assert sums == pytest.approx([100.0] * len(TASKS))


def test_html_lists_failures_and_escapes_text(result: StudyResult, tmp_path: Path) -> None:
    text = write_html(result, tmp_path / "r.html").read_text(encoding="utf-8")
    assert "made to fail" in text
    assert html.escape("<not>") in text
    assert "<not>" not in text


def test_wrong_results_are_loud_in_both_reports(tmp_path: Path) -> None:
    result = result_of(tmp_path, AnalyticOracle(wrong=lambda r: r.schedule.oc_threading == 2))
    assert result.mismatches
    assert "WRONG RESULT" in terminal(result)
    assert "WRONG RESULT" in write_html(result, tmp_path / "r.html").read_text(encoding="utf-8")


def test_reports_of_a_study_without_any_valid_trial_say_so(tmp_path: Path) -> None:
    result = result_of(tmp_path, AnalyticOracle(fail=lambda _: True))
    assert "no complete network" in terminal(result)
    assert "no complete network" in write_html(result, tmp_path / "r.html").read_text()


def test_curves_only_go_down_and_end_at_the_best(result: StudyResult) -> None:
    counts = {t.name: t.count for t in result.tasks}
    network = network_curve(result.trials, counts, shared=True)
    assert network[-1][1] == result.best_network
    curves = [network, *(task_curve(result.trials, t.name) for t in result.tasks)]
    for curve in curves:
        assert curve == sorted(curve, key=lambda point: (point[0], -point[1]))
        assert [c for _, c in curve] == sorted((c for _, c in curve), reverse=True)


def test_a_report_that_cannot_be_written_is_refused_by_name(
    result: StudyResult, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="--output"):
        write_html(result, tmp_path / "file" / "r.html")
