# SPDX-License-Identifier: Apache-2.0
"""The page and the plots of hand-made records."""

import json
import re

import pytest
from support.arena_records import (
    NETWORK,
    PARTS,
    a_part,
    a_record,
    a_study,
    some_records,
)
from support.browser import Browser, missing
from support.command_line import call
from support.html_structure import assert_well_made
from support.seen_in_browser import assert_shown_well

from tilewright.bench.arena.document import document
from tilewright.bench.arena.page_tables import signed
from tilewright.bench.arena.plots import curves, page, reached


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
    text = page(a_study([*rows, late]))
    assert "Best so far (the runs of 64 measurements alone)" in text


def test_the_page_holds_the_figures_and_separates_the_tracks(study):
    page = document(study)
    same = "4 (4 to 4) | 2.50 (2.50 to 2.50) | 1.00 (1.00 to 1.00) |"
    black = page.index(f"| dcoc | black-box | 40 | 8 | 32 | 12 (12 to 12) | {same}")
    assert black < page.index(
        "| tilewright | grey-box | 40 | 8 | 32 | 9 (9 to 9) | 4 (4 to 4) | 3.33 ("
    )
    rows = [line for line in page.splitlines() if line.startswith("| autotvm | 1.67")]
    assert len(rows) == 1  # dcoc needs fewer in all pairs
    assert "| 1.67 (1.67 to 1.67) | 1.00 (1.00 to 1.00), tie | 40, 0; " in rows[0]
    assert rows[0].split(" | ")[3].endswith("better")
    assert rows[0].split(" | ")[4].startswith(f"{len(PARTS)}, 0; ")
    assert f"| {NETWORK} | {len(PARTS)} | {len(PARTS)} | {len(PARTS)} | 100 % | 100 % |" in page
    assert "$ tilewright bench tuners --seeds 8\n" in page
    assert "- Runs of the plan that were not made: 0" in page
    assert "On the RTL" not in page


def test_the_page_is_clean_markdown(study):
    page = document(study)
    for block in re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE):
        assert len({line.count("|") for line in block.splitlines()}) == 1
    headings = re.findall(r"^#+ .*", page, re.MULTILINE)
    assert len(headings) == len(set(headings))
    assert not re.search(r"[^\s#]#+ ", page.replace("`", ""))
    assert "\n\n\n" not in page


def test_a_difference_that_rounds_to_nothing_has_no_minus_sign():
    assert [signed(v) for v in (-0.04, 0.04, -0.06, None)] == ["+0.0", "+0.0", "-0.1", "-"]


def test_winners_that_were_not_run_are_counted_though_optima_were():
    rows = [a_record("dcoc", PARTS[0].task, seed, 9, flat=seed) for seed in range(3)]
    run = {"what": "confirmation", "task": PARTS[0].task, "layer": "C1", "hw": "a", "equal": True}
    found = a_study(rows)
    found["records"] += [{**run, "flat": flat, "failure": ""} for flat in (0, 7)]
    assert "| all | 2 | 2 | 2 | - |" in document(found)


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
