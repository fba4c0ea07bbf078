# SPDX-License-Identifier: Apache-2.0
"""`tilewright bench`: every benchmark gets its options, and ends like every command."""

from __future__ import annotations

import importlib
import json
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.command_line import call, rows

from tilewright.bench.result import BenchResult
from tilewright.host.common import clone_parts
from tilewright.host.common.whole_file import MARK

RESULT = BenchResult(rows=[{"a": 1}], conditions={"hw": "x"}, summary={"b": 2})

COMMANDS = {
    "simspeed": "run",
    "lowering": "run",
    "builds": "run",
    "execution": "run",
    "store": "run",
    "agent": "run",
    "default-tuner": "run",
    "tuners": "study",
    "allocate": "compare_allocators",
    "roofline": "run",
    "ablation": "run",
}
"""Benchmark to the function that runs it; those of a clone alone load PyTorch and are left out."""


@pytest.mark.parametrize(("name", "function"), COMMANDS.items())
def test_a_benchmark_runs_with_its_defaults_and_writes_rows(name, function, monkeypatch, tmp_path):
    module = importlib.import_module(f"tilewright.bench.{name.replace('-', '_')}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def run(*_, **__):
        sys.stdout.write("for people\n")
        if name == "tuners":
            return RESULT, {}
        return SimpleNamespace(result=lambda: RESULT) if name == "allocate" else RESULT

    monkeypatch.setattr(module, function, run)
    assert rows("bench", name) == [{"a": 1}]
    path = tmp_path / "result.json"
    assert call("bench", name, "--json", str(path)).stdout == "for people\n"
    assert json.loads(path.read_text())["summary"] == {"b": 2}


@pytest.mark.parametrize("noise", ["-1", "nan", "inf"])
def test_noise_that_there_is_not_is_refused(noise, tmp_path):
    done = call("bench", "tuners", "--noise", noise, "--folder", str(tmp_path), "--minutes", "0")
    assert done.exit_code == 2
    assert "--noise" in done.stderr
    assert "at least 0" in done.stderr


@pytest.mark.parametrize("failures", [[], ["ppo: ValueError: no"]])
def test_a_run_that_failed_is_no_success(monkeypatch, failures, tmp_path):
    from tilewright.bench import tuners  # noqa: PLC0415  (replaced in part)

    record = {"what": "run", "task": "t", "tuner": "x", "seed": 0, "arm": "masked", "noise": 0.0}
    monkeypatch.setattr(tuners, "enumerate_tasks", lambda _: ({}, []))
    outcome = {"failures": failures, "runs_missing": len(failures)}
    monkeypatch.setattr(tuners, "run", lambda *_: ([record], outcome))
    monkeypatch.setattr(tuners, "merge", lambda _: {"summary": {}, "records": []})
    monkeypatch.setattr(tuners, "exact_runs", lambda _: [])
    monkeypatch.setattr(tuners, "headline", lambda _: ([], []))
    monkeypatch.setattr(tuners, "measurements", lambda *_: SimpleNamespace(markdown=str))
    done = call("bench", "tuners", "--quick", "--tuners", "random", "--folder", str(tmp_path))
    assert done.exit_code == len(failures)


def test_a_benchmark_whose_checks_fail_exits_with_1(monkeypatch):
    module = importlib.import_module("tilewright.bench.builds")
    failed = BenchResult(rows=[], conditions={}, passed=False)
    monkeypatch.setattr(module, "run", lambda **_: failed)
    assert call("bench", "builds").exit_code == 1


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


def test_the_rows_of_a_stopped_run_are_handed_on(monkeypatch, tmp_path):
    module = importlib.import_module("tilewright.bench.roofline")
    path = tmp_path / "r.json"
    kept = {"schema": 1, "command": "x", "records": [{"a": 0}], "conditions": {}}
    path.write_text(json.dumps(kept, indent=1))
    seen = {}

    def run(work, *, known, keep, **options):
        seen.update(known=known, work=work)
        keep(RESULT)
        assert json.loads(path.read_text())["rows"] == [{"a": 1}]
        return RESULT

    monkeypatch.setattr(module, "run", run)
    assert call("bench", "roofline", "--quick", "--json", str(path)).exit_code == 0
    assert seen["known"]["records"] == [{"a": 0}]
    path.write_text(f"# {MARK} (no JSON)")
    assert "must be a JSON file" in call("bench", "roofline", "--json", str(path)).stderr


def test_a_run_of_lowering_is_a_document(tmp_path):
    found = rows("bench", "lowering", "--sample", "3", "--seconds", "0", "--repeat", "1")
    assert [row["layer"] for row in found] == [f"C{n}" for n in range(2, 12)]


def test_benchmarks_are_typed_like_the_rest():
    root = Path(__file__).resolve().parents[3]
    mypy = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]
    assert "exclude" not in mypy
