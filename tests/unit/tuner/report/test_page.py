# SPDX-License-Identifier: Apache-2.0
"""The page of a study: its structure everywhere, its looks where there is a Chromium."""

import re

import pytest
import yaml
from support.documents.browser import Browser, missing
from support.documents.html_structure import assert_well_made
from support.documents.seen_in_browser import assert_shown_well
from support.search.analytic_oracle import AnalyticOracle, Silent

from tilewright.host.network.schedule import Schedule
from tilewright.host.network.zoo import load_network
from tilewright.testing.analytic import BASE, BOARD, MEMORY, RULES
from tilewright.tuner.report.page import page, schedules_yaml, write_html
from tilewright.tuner.report.pareto import pareto
from tilewright.tuner.store.store import Store
from tilewright.tuner.study.options import Mode
from tilewright.tuner.study.results import StudyResult, load_result
from tilewright.tuner.study.settings import StudySettings
from tilewright.tuner.study.study import run_study

TIP_SHOWN = "return getComputedStyle(document.querySelector('#tip')).visibility"
NAMES = """
return [...document.querySelector("table").tBodies[0].rows].map((row) => row.cells[0].textContent);
"""


def study_of(folder, mode: Mode = Mode.SHARED, screen: str = "twin", **oracle) -> StudyResult:
    """A study of all of ResNet-18 in which some trials fail, on an analytic oracle."""
    settings = StudySettings(
        model="resnet18", tasks=load_network("resnet18").workloads, board=BOARD, memory=MEMORY,
        base=BASE, budget=120, configs=3, screen=screen, mode=mode,
    )  # fmt: skip
    fast = AnalyticOracle(identity="fast-1", **oracle)
    screened = screen == "twin"
    with Store(folder / "s.sqlite") as store:
        run_study(
            "a <b>study</b> </script> & more", settings, store=store, rules=RULES,
            oracle=AnalyticOracle(identity="slow-1") if screened else fast, listener=Silent(),
            screen=fast if screened else None,
        )  # fmt: skip
        return load_result(store, "a <b>study</b> </script> & more")


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


def test_schedules_to_copy_are_those_of_the_best_trials(result, text) -> None:
    found = yaml.safe_load(schedules_yaml(result))
    assert list(found) == [task.name for task in result.tasks]
    for task in result.tasks:
        assert Schedule.from_mapping(found[task.name]).to_mapping() == dict(task.best.schedule)
    assert all(line in text for line in schedules_yaml(result).splitlines() if "'" not in line)


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
