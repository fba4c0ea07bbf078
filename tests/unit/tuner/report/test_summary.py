# SPDX-License-Identifier: Apache-2.0
"""Reports show what the store holds, with its conditions, and load nothing from outside."""

import html
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from support.command_line import call
from support.randomness import generator
from support.search.analytic_oracle import AnalyticOracle, run
from support.search.results import Found as StudyResult
from support.search.results import network_curve, task_curve

from tilewright.host.common.errors import StoreError
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.testing.analytic import TASKS
from tilewright.tuner.report import figures
from tilewright.tuner.report.drawing.xy_chart import Series
from tilewright.tuner.report.page import write_html
from tilewright.tuner.report.pareto import pareto
from tilewright.tuner.report.summary import condition_lines, number, print_summary
from tilewright.tuner.study.options import Mode
from tilewright.tuner.study.settings import DEFAULT_TUNER


def result_of(
    folder: Path,
    oracle: AnalyticOracle | None = None,
    screening: AnalyticOracle | None = None,
    **changes: Any,
) -> StudyResult:
    """Of a small study by the default tuner, confirmed where it was screened."""
    found, _ = run(
        folder, oracle, study="study", screening=screening,
        screen="none" if screening is None else "twin", tuner=DEFAULT_TUNER, budget=40,
        cpu_operators=("softmax: <not> offloaded",), **changes,
    )  # fmt: skip
    return found


def page(result: StudyResult, folder: Path) -> str:
    """The HTML report."""
    return write_html(result, pareto(result.search), folder / "r.html").read_text(encoding="utf-8")


def race(result: StudyResult) -> dict[str, Series]:
    return {series.name: series for series in figures.race_figure(result).series}


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


def test_conditions_name_memory_clock_fidelity_seed_budget_versions(result: StudyResult) -> None:
    text = "\n".join(condition_lines(result))
    for part in (
        "memory test", "read latency 10", "100 MHz (chosen for tests)", "fidelity analytic",
        "seed 0", "budget 40 of 40", "versions: ", "tilewright", "softmax",
    ):  # fmt: skip
        assert part in text


def test_states_of_a_unit_add_up_to_all_cycles(result: StudyResult) -> None:
    charts = figures.stall_figures(result)
    assert [unit for unit, _ in charts] == ["load", "gemm", "vector", "store"]
    for unit, chart in charts:
        shares = {bars.name: bars.values for bars in chart.bars}
        assert shares[f"waits for {unit}"] == [0.0] * len(TASKS)
        assert [sum(row) for row in zip(*shares.values(), strict=True)] == pytest.approx(
            [100.0] * len(TASKS)
        )


def test_html_lists_failures_and_escapes_text(result: StudyResult, tmp_path: Path) -> None:
    text = page(result, tmp_path)
    assert "made to fail" in text
    assert html.escape("<not>") in text
    assert "<not>" not in text


def test_wrong_results_are_loud_in_both_reports(tmp_path: Path) -> None:
    result = result_of(tmp_path, AnalyticOracle(wrong=lambda r: r.schedule.oc_threading == 2))
    assert result.mismatches
    assert "WRONG RESULT" in terminal(result)
    assert "WRONG RESULT" in page(result, tmp_path)


def test_reports_of_a_study_without_any_valid_trial_say_so(tmp_path: Path) -> None:
    result = result_of(tmp_path, AnalyticOracle(fail=lambda _: True))
    assert "no complete network" in terminal(result)
    assert "no complete network" in page(result, tmp_path)


def test_a_report_that_cannot_be_written_is_refused_by_name(
    result: StudyResult, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="--output"):
        write_html(result, [], tmp_path / "file" / "r.html")


# -- screened studies ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def confirmed(tmp_path_factory) -> StudyResult:
    """Searched on an oracle where some trials fail, confirmed on another; a fresh seed."""
    return result_of(
        tmp_path_factory.mktemp("c"),
        AnalyticOracle(identity="slow-1"),
        screening=AnalyticOracle(identity="fast-1", fail=lambda r: r.schedule.oc_threading == 2),
        seed=int(generator("screened report").integers(2**31)),
    )


def test_the_race_of_a_screened_study_shows_the_search(confirmed) -> None:
    lines = race(confirmed)
    search, counts = confirmed.screening, {t.name: t.count for t in confirmed.tasks}
    best = lines["best network"]
    curve = network_curve(search.trials, counts, shared=True)
    assert [*zip(best.x, best.y, strict=True)] == [*curve, (40, confirmed.best_network)]
    for config in search.configs:
        mine = [t for t in search.trials if t.config_hash == config.config_hash]
        own = network_curve(mine, counts, shared=True)
        assert (config.hw["name"] in lines) == bool(own)
        if own:
            line = lines[config.hw["name"]]
            assert (line.x[-1], line.y[-1]) == (mine[-1].sequence + 1, own[-1][1])
    for task, (_, chart) in zip(search.tasks, figures.layer_figures(confirmed), strict=True):
        curve = task_curve(search.trials, task.name)
        assert list(chart.series[0].y[:-1]) == [c for _, c in curve]


def test_charts_of_a_screened_study_mark_what_was_confirmed(confirmed) -> None:
    counts = {t.name: t.count for t in confirmed.tasks}
    mine = [t for t in confirmed.screening.trials if t.config_hash == confirmed.chosen.config_hash]
    star = race(confirmed)["best, confirmed on analytic"]
    assert (star.x[0], star.y[0]) == network_curve(mine, counts, shared=True)[-1]
    for task, (_, chart) in zip(confirmed.tasks, figures.layer_figures(confirmed), strict=True):
        mark = chart.series[1]
        assert mark.name == "confirmed on analytic"
        assert list(mark.y) == [task.best_cycles]
        trial = confirmed.screening.trials[mark.x[0] - 1]
        assert (trial.task, trial.measurement.cycles) == (task.name, task.best_cycles)


def test_reports_tell_searched_trials_from_confirmed_ones(confirmed, tmp_path: Path) -> None:
    text, written = terminal(confirmed), page(confirmed, tmp_path)
    searched = confirmed.screening
    for found, task in zip(searched.tasks, confirmed.tasks, strict=True):
        counts = (f"{found.valid_trials}/{found.trials}", f"{task.valid_trials}/{task.trials}")
        line = next(x for x in text.splitlines() if x.split()[:1] == [task.name])
        assert line.split()[-1] == counts[0]
        assert f'<td class="n">{counts[0]}</td>' in written
        assert f'<td class="n">{counts[1]}</td>' in written
    failed = sum(not trial.measurement.valid for trial in searched.trials)
    assert f"not valid: {failed} failed" in text
    conditions = "\n".join(condition_lines(confirmed))
    assert "budget 40 of 40 measurements" in conditions
    assert f"analytic ({len(confirmed.trials)} confirmations of study/screen" in conditions
    assert "study study/screen" in written


@pytest.mark.parametrize("name", ["result", "confirmed"])
def test_the_page_shows_every_network_that_no_other_one_beats(request, name, tmp_path) -> None:
    found = request.getfixturevalue(name)
    archive, text = pareto(found.search), page(found, tmp_path)
    chart = figures.pareto_figure(found, archive)
    points = {
        (cycles, energy)
        for series in chart.series
        for cycles, energy in zip(series.x, series.y, strict=True)
    }
    assert points <= {(p.cycles, p.energy / archive[0].energy) for p in archive}
    tips = "\n".join(tip for series in chart.series for tip in series.tips)
    for place, point in enumerate(archive, start=1):
        assert f"{place}: {point.config}, {point.cycles:,} cycles" in tips
        assert f'<td class="n">{point.cycles:,}</td>' in text
    ring = chart.series[-1]
    assert (ring.name, ring.x, ring.y) == ("chosen", [found.best_network], [1.0])
    assert text.count("<td>chosen</td></tr>") == 1


@pytest.mark.parametrize("name", ["result", "confirmed"])
def test_no_two_points_of_a_configuration_cover_each_other(request, name) -> None:
    found = request.getfixturevalue(name)
    archive = pareto(found.search)
    charts = [chart for _, chart in figures.pareto_details(found, archive)]
    for chart in [figures.pareto_figure(found, archive), *charts]:
        for series in chart.series[:-1]:
            places = [
                (chart.x.place(x, 0, 330), chart.y.place(y, 0, 300))
                for x, y in zip(series.x, series.y, strict=True)
            ]
            for place, (x, y) in enumerate(places):
                assert all(abs(x - a) >= 7 or abs(y - b) >= 7 for a, b in places[:place])


def test_per_layer_pages_have_no_archive_and_one_curve(tmp_path: Path) -> None:
    found = result_of(tmp_path, mode=Mode.PER_LAYER, screening=AnalyticOracle(identity="fast-1"))
    lines = race(found)
    assert lines["sum over layers"].y[-1] == found.best_network
    assert not {config.hw["name"] for config in found.configs} & set(lines)
    assert "Pareto front" not in page(found, tmp_path)


# -- the command ----------------------------------------------------------------------------------


def command(folder: Path, *more: str):
    return call("report", "study", "--store", str(folder / "s.sqlite"), *more)


def test_the_command_writes_the_chosen_configuration_as_a_file_for_hw(tmp_path: Path) -> None:
    found = result_of(tmp_path, screening=AnalyticOracle(identity="fast-1"))
    answer = command(tmp_path, "--output", str(tmp_path / "out" / "r.html"))
    assert answer.exit_code == 0, answer.output
    saved = tmp_path / "out" / "r.yaml"
    assert f"configuration and schedules: {saved}" in answer.output.replace("\n", "")
    hw = load_hwconfig(saved)
    assert {"name": hw.name, **hw.parameters()} == dict(found.chosen.hw)
    assert f"{hw.config_hash:08x}" == found.chosen.config_hash


def test_the_command_does_not_let_report_and_configuration_be_one_file(tmp_path: Path) -> None:
    result_of(tmp_path)
    answer = command(tmp_path, "--output", str(tmp_path / "r.yaml"))
    assert answer.exit_code == 2
    assert "must not end in .yaml" in answer.output + answer.stderr
    assert not (tmp_path / "r.yaml").exists()


def test_a_configuration_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    result_of(tmp_path)
    (tmp_path / "r.yaml").mkdir()
    answer = command(tmp_path, "--output", str(tmp_path / "r.html"))
    assert answer.exit_code == 2
    assert f"{tmp_path / 'r.yaml'}" in (answer.output + answer.stderr).replace("\n", "")


def test_a_clock_is_called_planned_until_a_bitstream_reached_it(result: StudyResult) -> None:
    assert "a planned 100 MHz" in result.clock_text
    board = result.settings["board"]
    reached = board["sources"] | {"clock_mhz": "reached by tilewright.yaml (Vivado 2024.1)"}
    settings = result.settings | {"board": board | {"sources": reached}}
    other = replace(result, study=replace(result.study, settings=settings))
    assert other.clock_text == "100 MHz, reached by a bitstream"
    assert any("reached by tilewright.yaml" in line for line in condition_lines(other))
