"""What rows of a study of group mappers say, worked out by hand."""

import json
from pathlib import Path

import pytest

from tilewright.bench.commands import MulticoreSettings
from tilewright.bench.framework.tables import renewed
from tilewright.bench.multicore.page import (
    page,
    published,
    published_tables,
    summarise,
    tables,
)
from tilewright.bench.multicore.study import Multicore


def bound(seed, value):
    return {
        "what": "bound", "task": "t", "platform": "S2", "bandwidth": 4.0, "seed": seed,
        "bound": value, "core_seconds": 0.1, "job_cycles": 30.0 + seed,
        "job_bytes_per_cycle": 2.0,
    }  # fmt: skip


def run(method, seed, makespan, early):
    return {
        "what": "run", "task": "t", "platform": "S2", "bandwidth": 4.0, "seed": seed,
        "method": method, "makespan": makespan, "core_seconds": 0.5, "samples": 1000,
        "curve": [[1, 2 * early], [100, early], [1000, makespan]],
    }  # fmt: skip


ROWS = [
    bound(0, 100.0),
    bound(1, 100.0),
    run("magma", 0, 200.0, 400.0),
    run("magma", 1, 110.0, 400.0),
    run("tilewright", 0, 100.0, 100.0),
    run("tilewright", 1, 121.0, 121.0),
]


def test_ratios_gaps_and_defeats_are_those_of_the_rows():
    found = summarise(ROWS)
    assert found["instances"] == 2
    assert found["bound_violations"] == 0
    assert found["geomean_vs_magma"]["magma"]["value"] == 1
    ours = found["geomean_vs_magma"]["tilewright"]["value"]
    assert ours == pytest.approx((2 * 110 / 121) ** 0.5, abs=1e-4)
    assert found["gap_to_bound_pct"]["tilewright"]["value"] == pytest.approx(10)
    assert found["gap_to_bound_pct_at_100"]["magma"]["value"] == pytest.approx(300)
    assert (found["ours_compared"], found["ours_best_or_tied"]) == (2, 1)
    assert found["ours_worst_defeat_pct"] == pytest.approx(10)
    assert found["tight_instances"] == 1
    assert found["ours_worst_gap_where_tight_pct"] == 0
    (case,) = [row for row in found["by_case"] if row["method"] == "tilewright"]
    assert case["vs_magma"] == ours
    assert case["gap_pct"] == pytest.approx(10)


def test_a_makespan_below_its_bound_is_a_violation():
    assert summarise([bound(0, 100.0), run("magma", 0, 99.0, 99.0)])["bound_violations"] == 1


def test_the_text_has_a_line_for_each_method_and_tells_where_ours_stands():
    text = Multicore(MulticoreSettings()).text(
        {"summary": {**summarise(ROWS), "evaluations_per_s": 1}}
    )
    assert "| tilewright | 1.348 " in text
    assert "| S2 4 | 10.00 |" in text
    assert "best or ties in 1 of 2 instances" in text
    assert "at most 10 % worse" in text


def test_a_page_says_what_its_file_says_and_the_file_what_the_rows_say():
    part = {"rows": ROWS, "conditions": {}, "command": "bench multicore --json build/few.json"}
    document, found = published([part])
    whole = [table.markdown() for table in tables(summarise(ROWS))]
    assert list(found) == ["few methods", "few gaps", "few jobs"]
    again = published_tables(json.loads(json.dumps(document)))
    for these in (found, again):
        assert [table.markdown() for table in these.values()] == whole


def test_the_page_of_the_study_equals_its_file():
    path = Path(__file__).resolve().parents[4] / "docs" / "results" / "multicore.md"
    document = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    text = path.read_text(encoding="utf-8")
    assert renewed(text, published_tables(document)) == text


def test_the_page_draws_both_kinds_of_platforms():
    rows = [*ROWS, *({**row, "platform": "S3"} for row in ROWS)]
    summary = {**summarise(rows), "evaluations_per_s": 1}
    text = page({"rows": rows, "summary": summary, "conditions": {"budget": 1000}})
    assert "Cores of one kind" in text
    assert "Cores of several kinds" in text
    assert "budget: 1000" in text
