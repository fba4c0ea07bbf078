# SPDX-License-Identifier: Apache-2.0
"""`tilewright bench`: every benchmark gets its options, and ends like every command."""

import importlib
import json
import tomllib
from pathlib import Path

import pytest
from support.command_line import call, refusal, rows

from tilewright.bench.arena.front_study import FrontStudy
from tilewright.bench.commands import ObjectivesSettings
from tilewright.bench.framework.study import Study
from tilewright.bench.multicore.study import Multicore
from tilewright.host.common import clone_parts
from tilewright.host.common.result_document import result_document

COMMANDS = {
    "simspeed": "speed.simspeed:SimulationSpeed",
    "lowering": "speed.lowering:LoweringSpeed",
    "builds": "speed.waits:BuildTimes",
    "execution": "speed.execution:Execution",
    "store": "speed.store:StoreSpeed",
    "agent": "speed.agent:AgentSpeed",
    "decode": "hardware.roofline:Decode",
    "first-count": "speed.waits:FirstCount",
    "certificates": "arena.certificates:Certificates",
    "objectives": "arena.front_study:FrontStudy",
    "default-tuner": "arena.default_tuner:Layers",
    "tuners": "arena.study:Tuners",
    "allocate": "allocate.study:Allocation",
    "roofline": "hardware.roofline:Roofline",
    "ablation": "hardware.ablation:Ablation",
}
"""Benchmark to its study; those of a clone alone load PyTorch and are left out."""


def stand_in(monkeypatch, place, *, rows=({"a": 1},), passed=True):
    """Let a study of no work take the place of one; it remembers its settings."""
    seen = []

    class StandIn(Study):
        resumes = True

        def cells(self):
            seen.append(self.settings)
            return [{"cell": 0}]

        def measure(self, cell):
            return rows

        def conditions(self):
            return {"hw": "x"}

        def summarise(self, rows):
            return {"b": len(rows)}

        def line(self, row):
            return "for people"

        def text(self, document):
            return ""

        def passed(self, result):
            return passed

    module, _, name = place.partition(":")
    monkeypatch.setattr(importlib.import_module(f"tilewright.bench.{module}"), name, StandIn)
    return seen


@pytest.mark.parametrize(("name", "place"), COMMANDS.items())
def test_a_benchmark_runs_with_its_defaults_and_writes_rows(name, place, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    seen = stand_in(monkeypatch, place)
    assert rows("bench", name) == [{"cell": 0, "a": 1}]
    assert seen == [type(seen[0])()]
    path = tmp_path / "result.json"
    assert call("bench", name, "--json", str(path)).stdout == "for people\n"
    assert json.loads(path.read_text())["summary"] == {"b": 1}
    assert call("bench", name, "--json", str(path)).stdout == ""  # the row is known


@pytest.mark.parametrize("failures", [[], ["ppo: ValueError: no"]])
def test_a_run_that_failed_is_no_success(monkeypatch, failures, tmp_path):
    from tilewright.bench.arena import study  # noqa: PLC0415  (replaced in part)

    record = {"what": "run", "task": "t", "tuner": "x", "seed": 0, "arm": "masked", "noise": 0.0}
    outcome = study.runner.Outcome(runs=[record], failures=failures, missing=len(failures))
    monkeypatch.setattr(study, "enumerate_tasks", lambda _: ({}, []))
    monkeypatch.setattr(study.runner, "run_plan", lambda *_, **__: outcome)
    monkeypatch.setattr(study, "records_of", lambda *_: [record])
    monkeypatch.setattr(study.Tuners, "summarise", lambda *_: {})
    monkeypatch.setattr(study.Tuners, "tables", lambda *_: iter(()))
    done = call("bench", "tuners", "--quick", "--tuners", "random", "--folder", str(tmp_path))
    assert done.exit_code == len(failures)


def test_a_tuner_takes_part_once(monkeypatch):
    from tilewright.bench.arena.study import Tuners  # noqa: PLC0415  (loads much)
    from tilewright.bench.commands import TunersSettings  # noqa: PLC0415  (loads much)

    given = ("random", "dcoc:batch=4,selection=top", "dcoc:selection=top,batch=4", "random")
    labels = [each.label for each in Tuners(TunersSettings(tuners=given)).contestants]
    assert labels == list(given[:2])


def test_a_search_measures_its_first_points():
    from tilewright.bench.arena.fronts import FIRST_POINTS  # noqa: PLC0415  (loads much)

    said = refusal("bench", "objectives", "--budget", str(FIRST_POINTS - 1))
    assert "--budget" in said
    assert str(FIRST_POINTS) in said


def test_rows_of_another_twin_are_not_continued(monkeypatch, tmp_path):
    path, study = tmp_path / "o.json", "tilewright.bench.arena.front_study"
    conditions = FrontStudy(ObjectivesSettings()).conditions()
    path.write_text(json.dumps(result_document("x", [], conditions), indent=1))
    monkeypatch.setattr(f"{study}.identity_of", lambda _: "another twin")
    assert "twin was" in refusal("bench", "objectives", "--json", str(path))


def test_a_benchmark_of_a_clone_says_so_outside_of_one(monkeypatch, tmp_path):
    monkeypatch.setattr(clone_parts, "ROOT", tmp_path)
    with pytest.raises(Exception, match=r"needs examples/no-such, which an installed package"):
        clone_parts.clone_part("examples/no-such", "no_such")


def test_a_run_of_lowering_is_a_document(tmp_path):
    found = rows("bench", "lowering", "--sample", "3", "--seconds", "0", "--repeat", "1")
    assert [row["layer"] for row in found] == [f"C{n}" for n in range(2, 12)]


def test_benchmarks_are_typed_like_the_rest():
    root = Path(__file__).resolve().parents[3]
    mypy = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]
    assert "exclude" not in mypy


# -- `tilewright bench mapping`: a small study, its document and page
SMALL = ("--networks", "transformer_encoder", "--objectives", "edp", "--per-network", "1")
SHORT = ("--budget", "50", "--seeds", "1", "--methods", "random,structured")


def test_a_small_study_writes_its_document_and_its_page_and_goes_on(tmp_path):
    path, page = tmp_path / "m.json", tmp_path / "m.html"
    arguments = ("bench", "mapping", *SMALL, *SHORT, "--json", str(path), "--html", str(page))
    first = call(*arguments)
    assert first.exit_code == 0, first.stderr
    assert "Regret to the certified optimum" in first.stdout
    assert "structured" in page.read_text()
    document = json.loads(path.read_text())
    assert document["summary"]["bound_violations"] == 0
    assert document["summary"]["certified_layers"] == 1
    assert "seed 0" not in call(*arguments).stdout
    assert json.loads(path.read_text())["rows"] == document["rows"]


# -- `tilewright bench multicore`: a small study, its document, how it goes on
RECORDED = Path(__file__).resolve().parents[1] / "tuner" / "multicore" / "magma"
TABLE = str(RECORDED / "s3-mix-jobs.csv")
SMALL_GROUPS = ("--tasks", TABLE, "--bandwidths", "1,16", "--budget", "200", "--seeds", "1")


def study(path, methods, *more):
    return call(
        "bench", "multicore", *SMALL_GROUPS, "--methods", methods, "--json", str(path), *more
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
    assert "magma\n" not in study(path, "magma,heft-greedy,tilewright").stdout
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
