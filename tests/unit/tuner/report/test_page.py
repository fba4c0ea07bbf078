# SPDX-License-Identifier: Apache-2.0
"""Pages of a study and of a network's division."""

import itertools
import json
import math
import re
from dataclasses import replace

import pytest
import yaml
from support.documents.browser import Browser, missing
from support.documents.html_structure import assert_well_made, structure_of
from support.documents.seen_in_browser import assert_shown_well
from support.networks.small_models import Model, imported
from support.randomness import fresh_rng
from support.search.analytic_oracle import AnalyticOracle, run

from tilewright.host.common.errors import StoreError
from tilewright.host.compiler.pipeline import compile_network
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.workload import dense
from tilewright.host.network.zoo import load_network
from tilewright.sim.twin.network_timing import time_network
from tilewright.testing.analytic import BOARD
from tilewright.tuner.report import pareto as pareto_archive
from tilewright.tuner.report import partition
from tilewright.tuner.report.drawing.page import write
from tilewright.tuner.report.page import page, schedules_yaml, write_html
from tilewright.tuner.report.pareto import SHOWN, pareto, pareto_lines
from tilewright.tuner.report.result_json import conditions_of, summary_of, task_rows
from tilewright.tuner.report.summary import share_lines
from tilewright.tuner.study.best_network import cost_of, stored_share
from tilewright.tuner.study.options import Mode
from tilewright.tuner.study.results import StudyResult
from tilewright.tuner.study.settings import DEFAULT_TUNER

TIP_SHOWN = "return getComputedStyle(document.querySelector('#tip')).visibility"
NAMES = """
return [...document.querySelector("table").tBodies[0].rows].map((row) => row.cells[0].textContent);
"""


def study_of(folder, mode: Mode = Mode.SHARED, screen: str = "twin", **oracle) -> StudyResult:
    """A study of all of ResNet-18 in which some trials fail, on an analytic oracle."""
    fast, slow = AnalyticOracle(identity="fast-1", **oracle), AnalyticOracle(identity="slow-1")
    first, screening = (slow, fast) if screen == "twin" else (fast, None)
    found, _ = run(
        folder, first, study="a <b>study</b> </script> & more", screening=screening, screen=screen,
        model="resnet18", tasks=load_network("resnet18").workloads, mode=mode, budget=120,
        tuner=DEFAULT_TUNER,
    )  # fmt: skip
    return found


@pytest.fixture(scope="module")
def result(tmp_path_factory) -> StudyResult:
    return study_of(
        tmp_path_factory.mktemp("p"),
        fail=lambda r: r.schedule.oc_threading == 2 and r.schedule.tile_h > 4,
    )


@pytest.fixture(scope="module")
def text(result) -> str:
    return page(result, pareto(result.search))


def test_the_page_is_small_closed_named_and_loads_nothing(result, text) -> None:
    found = assert_well_made(text, limit=500_000)
    date = result.study.created[:10]
    assert found.title == f"resnet18 on {BOARD.name}, {date}, study {result.study.name}"
    assert found.charts >= 2 * 4 + len(result.tasks) + 4  # screen and phone, layers, units
    assert "<b>study" not in text


def test_a_page_of_a_study_without_any_valid_trial_is_well_made_too(tmp_path) -> None:
    bad = study_of(tmp_path, screen="none", fail=lambda _: True)
    assert bad.best_network is None
    assert_well_made(page(bad, pareto(bad.search)))


def test_schedules_of_layers_of_their_own_hardware_name_it(tmp_path) -> None:
    result = study_of(tmp_path, mode=Mode.PER_LAYER)
    found = yaml.safe_load(schedules_yaml(result))
    for task in result.tasks:
        assert found[task.name]["hw"] == result.config_name(task.best.config_hash)
        assert found[task.name]["schedule"] == dict(task.best.schedule)


def test_short_words_are_explained_where_they_stand(text) -> None:
    explained = re.findall(r'data-tip="([^"]*)"[^>]*>([^<]+)</span>', text)
    tips = {word: tip for tip, word in explained}
    assert "convolution 3x3" in tips["C8r"]
    assert "residual block" in tips["C8r"]
    assert "cannot be improved" in tips["of bound"]
    threads = next(tip for word, tip in tips.items() if "threads 1x2" in word)
    assert "2 over output channels" in threads


@pytest.mark.skipif(bool(missing()), reason=missing())
def test_the_page_is_shown_well_and_its_tables_sort_by_keyboard(result, tmp_path) -> None:
    path = write_html(result, pareto(result.search), tmp_path / "r.html")
    with Browser() as browser:
        assert_shown_well(browser, path)
        before = browser.run(NAMES)
        browser.run("document.querySelectorAll('thead th button')[1].focus()")
        browser.press(" ")
        cycles = {task.name: task.best_cycles or 0 for task in result.tasks}
        fewer = [cycles[name] for name in browser.run(NAMES)]
        assert fewer == sorted(cycles.values(), reverse=True)
        browser.press("\ue007")  # Enter: the other way round
        assert [cycles[name] for name in browser.run(NAMES)] == sorted(cycles.values())
        sort = "return document.querySelectorAll('thead th')[1].getAttribute('aria-sort')"
        assert browser.run(sort) == "ascending"
        browser.run("document.querySelectorAll('thead th button')[0].focus()")
        browser.press(" ")
        assert browser.run(NAMES) == sorted(before, key=_natural)
        browser.run("document.querySelector('td .term').focus()")
        assert "threads" in browser.run("return document.querySelector('#tip').textContent")
        assert browser.run(TIP_SHOWN) == "visible"
        browser.press("\ue00c")  # Escape
        assert browser.run(TIP_SHOWN) == "hidden"
        browser.run("document.querySelector('[data-toggle]').focus()")
        browser.press(" ")
        assert browser.run("return document.querySelectorAll('[data-series].off').length") > 0
        assert browser.console() == []


def _natural(name: str) -> list[tuple[int, str]]:
    return [
        (int(part or 0), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)
    ]


# -- The page of a network's division
HW, PYNQ = load_hwconfig("tiny-4x4"), load_board("pynq-z2")


def test_a_page_shows_every_block_and_every_operator(tmp_path) -> None:
    model = Model(fresh_rng())
    x = model.add("Conv", model.input(1, 4, 6, 6), model.weights(4, 4, 1, 1))
    y = model.add("Tanh", model.add("Sigmoid", x))
    y = model.add("Add", model.add("Conv", y, model.weights(4, 4, 1, 1)), x)
    network = imported(model.proto(y), name="<forked>")
    compiled = compile_network(network, HW, PYNQ, offload_all=True).network
    timing = time_network(compiled, PYNQ.memory)
    found = partition.blocks(compiled, PYNQ, timing)
    assert [block.where for block in found] == ["accelerator", "cpu", "accelerator"]
    assert found[1].title == "CPU: Sigmoid, Tanh"
    page = partition.partition_page(compiled, network.qdq, PYNQ, timing)
    for name in [n for block in found for n in block.operators]:
        assert name in page
    assert "<forked>" not in page
    assert 'class="line ink"' in page  # the shortcut over the CPU
    structure = structure_of(page)
    assert structure.unclosed == structure.loads == []
    assert structure.charts_without_name == structure.uneven_tables == 0
    write(page, tmp_path / "net.html", "--html")
    with pytest.raises(StoreError, match="cannot be written"):
        write(page, tmp_path, "--html")


# -- the Pareto archive ---------------------------------------------------------------------------


def test_the_archive_of_a_configuration_is_the_whole_front(tmp_path) -> None:
    """Against brute force: every combination of measured trials, and whoever beats whom."""
    result, _ = run(tmp_path, configs=1, budget=24, seed=int(fresh_rng().integers(100)))
    area = stored_share(result.configs[0], result.settings["board"])
    choices = [
        {cost_of(t, area) for t in result.trials if t.task == task.name and t.measurement.valid}
        for task in result.tasks
    ]
    networks = sorted(
        tuple(
            sum(
                getattr(cost, name) * task.count
                for cost, task in zip(each, result.tasks, strict=True)
            )
            for name in ("cycles", "energy")
        )
        for each in itertools.product(*choices)
    )
    least, expected = math.inf, []
    for cycles, energy in networks:
        if energy < least * (1 - 1e-12):
            least = energy
            expected.append((cycles, pytest.approx(energy)))
    archive = pareto(result)
    assert [(p.cycles, p.energy) for p in archive] == expected
    for point in archive:
        trials = {t.task: t for t in result.trials if point.schedules[t.task] == t.schedule}
        told = sum(trials[t.name].measurement.cycles * t.count for t in result.tasks)
        assert told == point.cycles


def test_of_a_large_archive_evenly_spread_networks_are_kept_and_some_told(tmp_path, monkeypatch):
    result, _ = run(tmp_path, configs=4, budget=150)
    whole = pareto(result)
    monkeypatch.setattr(pareto_archive, "MOST", 1)
    assert len(whole) > 1
    assert pareto(result) == whole[:1]
    many = [replace(whole[0], cycles=1000 + n, energy=2000.0 - n) for n in range(100)]
    lines = pareto_lines(many)
    assert len(lines) == 1 + SHOWN + 1
    assert ["1,000 cycles" in lines[1], "1,099 cycles" in lines[-2]] == [True, True]
    assert lines[-1] == "  and 88 between them, which the report lists"


def test_the_rows_and_the_summary_say_what_was_found(tmp_path) -> None:
    result, _ = run(tmp_path)
    assert summary_of(result)["best_cycles"] == result.best_network
    rows = task_rows(result)
    assert sum(row["best_cycles"] * row["count"] for row in rows) == result.best_network
    assert conditions_of(result)["study"] == result.study.name
    json.dumps([rows, summary_of(result), conditions_of(result)], allow_nan=False)


# -- what a study leaves out is said, and loudly if it is much ------------------------------------

FC = dense("fc", 1, 30, 5)


def lines(macs: int, *operators: str) -> tuple[str, str]:
    return share_lines(
        {"tasks": [FC.to_mapping()], "cpu_operators": list(operators), "cpu_macs": macs}
    )
