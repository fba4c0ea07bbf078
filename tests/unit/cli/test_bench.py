# SPDX-License-Identifier: Apache-2.0
"""`tilewright bench`: every benchmark gets its options, and ends like every command."""

import importlib
import json
import tomllib
from pathlib import Path

import pytest
from support.command_line import call, rows

from tilewright.bench.framework.study import Study
from tilewright.host.common import clone_parts
from tilewright.host.common.whole_file import MARK

COMMANDS = {
    "simspeed": "speed.simspeed:SimulationSpeed",
    "lowering": "speed.lowering:LoweringSpeed",
    "builds": "speed.builds:BuildTimes",
    "execution": "speed.execution:Execution",
    "store": "speed.store:StoreSpeed",
    "agent": "speed.agent:AgentSpeed",
    "decode": "hardware.decode:Decode",
    "first-count": "speed.first_count:FirstCount",
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


@pytest.mark.parametrize("noise", ["-1", "nan", "inf"])
def test_noise_that_there_is_not_is_refused(noise, tmp_path):
    done = call("bench", "tuners", "--noise", noise, "--folder", str(tmp_path), "--minutes", "0")
    assert done.exit_code == 2
    assert "--noise" in done.stderr
    assert "at least 0" in done.stderr


@pytest.mark.parametrize("failures", [[], ["ppo: ValueError: no"]])
def test_a_run_that_failed_is_no_success(monkeypatch, failures, tmp_path):
    from tilewright.bench.arena import study  # noqa: PLC0415  (replaced in part)

    record = {"what": "run", "task": "t", "tuner": "x", "seed": 0, "arm": "masked", "noise": 0.0}
    outcome = study.Outcome(runs=[record], failures=failures, missing=len(failures))
    monkeypatch.setattr(study, "enumerate_tasks", lambda _: ({}, []))
    monkeypatch.setattr(study, "run_plan", lambda *_, **__: outcome)
    monkeypatch.setattr(study, "records_of", lambda *_: [record])
    monkeypatch.setattr(study.Tuners, "summarise", lambda *_: {})
    monkeypatch.setattr(study.Tuners, "tables", lambda *_: iter(()))
    done = call("bench", "tuners", "--quick", "--tuners", "random", "--folder", str(tmp_path))
    assert done.exit_code == len(failures)


def test_a_benchmark_whose_checks_fail_exits_with_1(monkeypatch):
    stand_in(monkeypatch, COMMANDS["builds"], passed=False)
    assert call("bench", "builds").exit_code == 1


def test_given_options_stand_with_quick(monkeypatch):
    seen = stand_in(monkeypatch, COMMANDS["roofline"])
    assert call("bench", "roofline", "--quick", "--hw", "tiny-4x4").exit_code == 0
    assert (seen[0].hw, seen[0].axi) == (("tiny-4x4",), (64,))


@pytest.mark.parametrize(
    ("words", "nearest"),
    [
        (["simsped"], "simspeed"),
        (["tuners", "--track", "perlayer"], "per-layer"),
        (["tuners", "--layers", "C70", "--networks", "resnet18"], "C7"),
        (["tuners", "--networks", "resnet81"], "resnet18"),
        (["tuners", "--tuners", "tilewrigth"], "tilewright"),
        (["allocate", "--regime", "papr"], "paper"),
        (["allocate", "--prices", "bord"], "board"),
        (["roofline", "--hw", "pynq-16x61"], "pynq-16x16"),
        (["roofline", "--memory", "ideel"], "ideal"),
        (["ablation", "--memori", "ideal"], "--memory"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(words, nearest):
    result = call("bench", *words)
    assert result.exit_code == 2
    assert f"did you mean {nearest}?" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_benchmark_of_a_clone_says_so_outside_of_one(monkeypatch, tmp_path):
    monkeypatch.setattr(clone_parts, "ROOT", tmp_path)
    with pytest.raises(Exception, match=r"needs examples/no-such, which an installed package"):
        clone_parts.clone_part("examples/no-such", "no_such")


def test_the_rows_of_a_stopped_run_are_taken_over(monkeypatch, tmp_path):
    path = tmp_path / "r.json"
    kept = {"schema": 1, "command": "x", "records": [{"cell": 0, "a": 0}]}
    path.write_text(json.dumps({**kept, "conditions": {"hw": "x"}}, indent=1))
    stand_in(monkeypatch, COMMANDS["roofline"])
    assert call("bench", "roofline", "--quick", "--json", str(path)).exit_code == 0
    assert json.loads(path.read_text())["rows"] == [{"cell": 0, "a": 0}]
    path.write_text(f"# {MARK} (no JSON)")
    assert "must be a JSON file" in call("bench", "roofline", "--json", str(path)).stderr


def test_a_run_of_lowering_is_a_document(tmp_path):
    found = rows("bench", "lowering", "--sample", "3", "--seconds", "0", "--repeat", "1")
    assert [row["layer"] for row in found] == [f"C{n}" for n in range(2, 12)]


def test_benchmarks_are_typed_like_the_rest():
    root = Path(__file__).resolve().parents[3]
    mypy = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]
    assert "exclude" not in mypy
