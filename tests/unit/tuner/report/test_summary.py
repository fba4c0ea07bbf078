# SPDX-License-Identifier: Apache-2.0
"""Reports show what the store holds, with its conditions, and load nothing from outside."""

from __future__ import annotations

import html
import itertools
import json
import re
from pathlib import Path

import pytest
from e2e.drawing import generator
from rich.console import Console
from support.results import Found as StudyResult
from support.results import load_result, network_curve, task_curve
from typer.testing import CliRunner

from tilewright.cli import app
from tilewright.host.common.errors import StoreError
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.testing.analytic import BASE, BOARD, MEMORY, RULES, TASKS, AnalyticOracle, Silent
from tilewright.tuner.report.figures import SHOWN_RATIO, race_figure
from tilewright.tuner.report.page import write_html
from tilewright.tuner.report.pareto import pareto
from tilewright.tuner.report.summary import condition_lines, number, outcome_line, print_summary
from tilewright.tuner.store.store import Store
from tilewright.tuner.study.settings import Mode, StudySettings
from tilewright.tuner.study.study import run_study


def result_of(
    folder: Path,
    oracle: AnalyticOracle | None = None,
    mode: Mode = Mode.SHARED,
    screen: AnalyticOracle | None = None,
    seed: int = 0,
) -> StudyResult:
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
        seed=seed,
        screen="none" if screen is None else "twin",
    )
    with Store(folder / "s.sqlite") as store:
        run_study(
            "study",
            settings,
            store=store,
            oracle=oracle or AnalyticOracle(),
            rules=RULES,
            listener=Silent(),
            screen=screen,
        )
        return load_result(store, "study")


def page(result: StudyResult, folder: Path) -> str:
    """The HTML report."""
    return write_html(result, pareto(result.search), folder / "r.html").read_text(encoding="utf-8")


def traces(text: str) -> dict[str, list[dict]]:
    """What a page plots, by name, in the order of the page."""
    found: dict[str, list[dict]] = {}
    for match in re.finditer(r"Plotly\.newPlot\(\s*\"[^\"]+\",\s*(\[.*?\]),\s*\{\"", text):
        for trace in json.loads(match[1]):
            found.setdefault(trace["name"], []).append(trace)
    return found


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
    assert "not deployable" in page(result, tmp_path)


def test_html_loads_nothing_from_outside(result: StudyResult, tmp_path: Path) -> None:
    text = page(result, tmp_path)
    own = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r"(?:src|href)\s*=|url\(|@import", own)
    assert not re.search(r"<script[^>]+src", text)
    assert "plotly.js v" in text


def test_html_plots_hold_the_measured_figures(result: StudyResult, tmp_path: Path) -> None:
    text = page(result, tmp_path)
    by_name = traces(text)
    assert by_name["best"][0]["y"] == [t.best_cycles for t in result.tasks]
    assert by_name["bound"][0]["y"] == [t.bound for t in result.tasks]
    assert by_name["best network"][0]["y"][-1] == result.best_network
    for task in result.tasks:
        assert by_name[task.name][0]["customdata"][-1] == min(
            t.measurement.cycles
            for t in result.trials
            if t.task == task.name and t.measurement.valid
        )
    assert len(by_name["busy"]) == 4
    columns: dict[str, list[float]] = {}
    for trace in itertools.chain.from_iterable(by_name.values()):
        if trace.get("legendgroup"):
            sums = columns.setdefault(trace.get("xaxis", "x"), [0.0] * len(trace["y"]))
            columns[trace.get("xaxis", "x")] = [
                a + b for a, b in zip(sums, trace["y"], strict=True)
            ]
    assert len(columns) == 4
    for sums in columns.values():
        assert sums == pytest.approx([100.0] * len(TASKS))


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
        write_html(result, [], tmp_path / "file" / "r.html")


# -- screened studies ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def confirmed(tmp_path_factory) -> StudyResult:
    """Searched on an oracle where some trials fail, confirmed on another; a fresh seed."""
    return result_of(
        tmp_path_factory.mktemp("c"),
        AnalyticOracle(identity="slow-1"),
        screen=AnalyticOracle(identity="fast-1", fail=lambda r: r.schedule.oc_threading == 2),
        seed=int(generator("screened report").integers(2**31)),
    )


def test_a_screened_study_knows_which_measurements_it_repeats(confirmed, result) -> None:
    assert confirmed.screening is not None
    assert confirmed.search is confirmed.screening
    found = confirmed.confirmations
    assert [c.trial for c in found] == list(confirmed.trials)
    for each in found:
        searched = confirmed.screening.trials[each.measurement - 1]
        assert (searched.task, searched.config_hash, searched.schedule) == (
            each.trial.task, each.trial.config_hash, each.trial.schedule,
        )  # fmt: skip
        assert searched.measurement.cycles == each.trial.measurement.cycles
    assert result.search is result
    assert result.confirmations == ()


def test_the_page_of_a_screened_study_shows_the_search(confirmed, tmp_path: Path) -> None:
    plots = traces(page(confirmed, tmp_path))
    search, counts = confirmed.screening, {t.name: t.count for t in confirmed.tasks}
    (best,) = plots["best network"]
    curve = network_curve(search.trials, counts, shared=True)
    assert [*zip(best["x"], best["y"], strict=True)] == [*curve, (40, confirmed.best_network)]
    for config in search.configs:
        mine = [t for t in search.trials if t.config_hash == config.config_hash]
        own = network_curve(mine, counts, shared=True)
        assert (config.hw["name"] in plots) == bool(own)
        if own:
            (line,) = plots[config.hw["name"]]
            assert (line["x"][-1], line["y"][-1]) == (mine[-1].sequence + 1, own[-1][1])
    for task in search.tasks:
        (line,) = plots[task.name]
        assert line["customdata"][:-1] == [c for _, c in task_curve(search.trials, task.name)]


def test_the_page_of_a_screened_study_marks_what_was_confirmed(confirmed, tmp_path: Path) -> None:
    plots = traces(page(confirmed, tmp_path))
    counts = {t.name: t.count for t in confirmed.tasks}
    mine = [t for t in confirmed.screening.trials if t.config_hash == confirmed.chosen.config_hash]
    (star,) = plots["best, confirmed on analytic"]
    assert (star["x"][0], star["y"][0]) == network_curve(mine, counts, shared=True)[-1]
    (marks,) = plots["confirmed on analytic"]
    assert {tuple(shown) for shown in marks["customdata"]} == {
        (task.name, task.best_cycles) for task in confirmed.tasks
    }
    for (name, cycles), place in zip(marks["customdata"], marks["x"], strict=True):
        trial = confirmed.screening.trials[place - 1]
        assert (trial.task, trial.measurement.cycles) == (name, cycles)


def test_the_first_view_of_a_race_is_of_the_networks_near_the_best(result) -> None:
    figure = race_figure(result)
    values = [y for trace in figure.data if trace.mode == "lines" for y in trace.y]
    near = [y for y in values if y <= SHOWN_RATIO * result.best_network]
    low, high = figure.layout.yaxis.range
    assert low < result.bound_network
    assert max(near) < high < max(values)
    assert f"{max(values):,} cycles" in figure.layout.annotations[-1].text


def test_reports_tell_searched_trials_from_confirmed_ones(confirmed, tmp_path: Path) -> None:
    text, written = terminal(confirmed), page(confirmed, tmp_path)
    searched = confirmed.screening
    for found, task in zip(searched.tasks, confirmed.tasks, strict=True):
        counts = (f"{found.valid_trials}/{found.trials}", f"{task.valid_trials}/{task.trials}")
        line = next(x for x in text.splitlines() if x.split()[:1] == [task.name])
        assert line.split()[-1] == counts[0]
        assert "".join(f"<td class=n>{count}</td>" for count in counts) in written
    failed = sum(not trial.measurement.valid for trial in searched.trials)
    assert f"not valid: {failed} failed" in text
    conditions = "\n".join(condition_lines(confirmed))
    assert "budget 40 of 40 measurements" in conditions
    assert f"analytic ({len(confirmed.trials)} confirmations of study/screen" in conditions
    assert "study study/screen" in written


def test_the_page_lists_what_failed_in_the_search(confirmed, tmp_path: Path) -> None:
    failed = [t for t in confirmed.screening.trials if not t.measurement.valid]
    assert failed
    assert page(confirmed, tmp_path).count("<td>made to fail</td>") == len(failed)


@pytest.mark.parametrize("name", ["result", "confirmed"])
def test_the_page_shows_every_network_that_no_other_one_beats(request, name, tmp_path) -> None:
    found = request.getfixturevalue(name)
    archive, text = pareto(found.search), page(found, tmp_path)
    plots = traces(text)
    shown = [
        (cycles, energy)
        for config in dict.fromkeys(point.config for point in archive)
        for trace in (t for label in plots if label.startswith(f"{config}:") for t in plots[label])
        for cycles, energy in zip(trace["x"], trace["y"], strict=True)
    ]
    assert sorted(shown) == sorted((p.cycles, p.energy / archive[0].energy) for p in archive)
    for point in archive:
        assert f"<td class=n>{point.cycles:,}</td>" in text
    assert (plots["chosen"][0]["x"], plots["chosen"][0]["y"]) == ([found.best_network], [1.0])
    assert text.count("<td>chosen</td></tr>") == 1


def test_per_layer_pages_have_no_archive_and_one_curve(tmp_path: Path) -> None:
    found = result_of(tmp_path, mode=Mode.PER_LAYER, screen=AnalyticOracle(identity="fast-1"))
    text = page(found, tmp_path)
    plots = traces(text)
    assert plots["sum over layers"][0]["y"][-1] == found.best_network
    assert not {config.hw["name"] for config in found.configs} & set(plots)
    assert "no other one beats" not in text


# -- the command ----------------------------------------------------------------------------------


def command(folder: Path, *more: str):
    return CliRunner().invoke(app, ["report", "study", "--store", str(folder / "s.sqlite"), *more])


def test_the_command_writes_the_chosen_configuration_as_a_file_for_hw(tmp_path: Path) -> None:
    found = result_of(tmp_path, screen=AnalyticOracle(identity="fast-1"))
    answer = command(tmp_path, "--output", str(tmp_path / "out" / "r.html"))
    assert answer.exit_code == 0, answer.output
    saved = tmp_path / "out" / "r.yaml"
    assert f"configuration: {saved}" in answer.output.replace("\n", "")
    hw = load_hwconfig(saved)
    assert {"name": hw.name, **hw.parameters()} == dict(found.chosen.hw)
    assert f"{hw.config_hash:08x}" == found.chosen.config_hash


def test_the_command_writes_no_configuration_where_none_is_chosen(tmp_path: Path) -> None:
    result_of(tmp_path, mode=Mode.PER_LAYER)
    answer = command(tmp_path, "--output", str(tmp_path / "r.html"))
    assert answer.exit_code == 0, answer.output
    assert (tmp_path / "r.html").exists()
    assert not list(tmp_path.glob("*.yaml"))


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
