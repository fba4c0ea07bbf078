"""`tilewright multicore`: a table is mapped, the timeline is told."""

import json
from pathlib import Path

import pytest
from support.command_line import call

TABLE = str(
    Path(__file__).resolve().parents[1] / "tuner" / "multicore" / "magma" / "s3-mix-jobs.csv"
)
SMALL = "row,lat_core0,lat_core1,reqbw_core0,reqbw_core1\na,10,10,1,1\nb,10,10,1,1\nc,10,10,1,1\n"


def test_a_table_is_mapped_and_told():
    words = ("--bandwidth", "1", "--budget", "300", "--method", "magma", "--json", "-")
    found = json.loads(call("multicore", TABLE, *words).stdout)
    summary, rows = found["summary"], found["rows"]
    assert len(rows) == 100
    assert max(row["end"] for row in rows) == pytest.approx(summary["makespan"])
    assert summary["bound"] <= summary["makespan"] == summary["curve"][-1][1]
    assert summary["samples"] == 300
    assert [row["start"] for row in rows] == sorted(row["start"] for row in rows)


def test_a_small_table_is_solved_exactly(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(SMALL)
    words = ("multicore", str(path), "--bandwidth", "4", "--optimizer", "exact")
    result = call(*words)
    assert result.exit_code == 0, result.stderr
    assert "20 cycles by exact" in result.stdout
    assert "no mapping takes less than 15" in result.stdout


def test_the_document_is_the_same_again(tmp_path):
    words = ("multicore", TABLE, "--bandwidth", "4", "--budget", "200", "--json")
    paths = [tmp_path / name for name in ("a.json", "b.json")]
    for path in paths:
        assert call(*words, str(path)).exit_code == 0
    first, second = (json.loads(path.read_text()) for path in paths)
    assert first["rows"] == second["rows"]
    assert first["summary"] == second["summary"]


def test_a_report_and_a_trace_are_written(tmp_path):
    report, trace = tmp_path / "group.html", tmp_path / "group.json"
    words = ("--bandwidth", "4", "--method", "heft-greedy", "--html", str(report))
    result = call("multicore", TABLE, *words, "--trace", str(trace))
    assert result.exit_code == 0, result.stderr
    assert "What every core does" in report.read_text()
    assert len(json.loads(trace.read_text())["traceEvents"]) > 100
