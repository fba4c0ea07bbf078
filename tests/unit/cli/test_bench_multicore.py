"""`tilewright bench multicore`: a small study, its document, how it goes on, what it refuses."""

import json
from pathlib import Path

import pytest
from support.command_line import call

from tilewright.bench.multicore.study import Multicore

RECORDED = Path(__file__).resolve().parents[1] / "tuner" / "multicore" / "magma"
TABLE = str(RECORDED / "s3-mix-jobs.csv")
SMALL = ("--tasks", TABLE, "--bandwidths", "1,16", "--budget", "200", "--seeds", "1")


def study(path, methods, *more):
    return call(
        "bench", "multicore", *SMALL, "--methods", methods, "--json", str(path), *more
    )  # fmt: skip


def test_a_small_study_writes_its_document_and_goes_on(tmp_path):
    path = tmp_path / "m.json"
    first = study(path, "magma,heft-greedy", "--recorded", str(RECORDED))
    assert first.exit_code == 0, first.stderr
    assert "| heft-greedy |" in first.stdout
    document = json.loads(path.read_text())
    summary = document["summary"]
    assert summary["makespan_max_rel_error"] < 1e-9
    assert summary["evaluations_per_s"] > 0
    assert summary["geomean_vs_magma"]["heft-greedy"]["value"] > 1
    assert (summary["instances"], summary["bound_violations"]) == (2, 0)
    again = study(path, "magma,heft-greedy,tilewright")
    assert "magma\n" not in again.stdout
    rows = json.loads(path.read_text())["rows"]
    assert [row for row in rows if row.get("method") != "tilewright"] == document["rows"]
    assert json.loads(path.read_text())["summary"]["ours_compared"] == 2


def test_processes_side_by_side_find_the_same(tmp_path):
    results = []
    for jobs in ("1", "2"):
        path = tmp_path / f"{jobs}.json"
        assert study(path, "magma,random", "--jobs", jobs).exit_code == 0
        rows = json.loads(path.read_text())["rows"]
        results.append([{k: v for k, v in row.items() if k != "core_seconds"} for row in rows])
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["--methods", "magam"],
            "--methods: no group mapper of that name: 'magam'; did you mean magma?",
        ),
        (["--platforms", "S9"], "no platform of that name"),
        (["--tasks", "visoin"], "did you mean vision?"),
        (["--tasks", TABLE], "bandwidths"),
    ],
)
def test_what_cannot_be_is_refused(words, told):
    result = call("bench", "multicore", "--quick", *words)
    assert result.exit_code == 2
    assert told in result.stderr


def test_a_document_of_other_conditions_is_refused(tmp_path):
    path = tmp_path / "m.json"
    assert study(path, "fcfs-greedy").exit_code == 0
    result = study(path, "fcfs-greedy", "--size", "50")
    assert result.exit_code == 2
    assert "other conditions" in result.stderr


def test_ctrl_c_tells_whether_anything_is_kept(tmp_path, monkeypatch):
    path = tmp_path / "m.json"
    measure = Multicore.measure

    def stopped(at):
        def run(self, cell):
            if cell["what"] == at:
                raise KeyboardInterrupt
            return measure(self, cell)

        return run

    monkeypatch.setattr(Multicore, "measure", stopped("bound"))
    assert "nothing is kept" in study(path, "fcfs-greedy").stderr
    assert not path.exists()
    monkeypatch.setattr(Multicore, "measure", stopped("run"))
    result = study(path, "fcfs-greedy")
    assert result.exit_code != 0
    assert f"{path.name} holds what is finished; the same command goes on" in " ".join(
        result.stderr.split()
    )
