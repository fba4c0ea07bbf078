# SPDX-License-Identifier: Apache-2.0
"""The command tells users what they can act on, in one line, with the right exit code."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.command_line import call, refusal
from support.postgres import new_database
from support.search.analytic_oracle import AnalyticOracle

from tilewright.host.network import golden
from tilewright.sim.verilator.rtl_variant import STOCK
from tilewright.testing.analytic import BASE, BOARD, MEMORY, RULES, TASKS
from tilewright.tuner.allocate import ALLOCATORS
from tilewright.tuner.search import TUNERS
from tilewright.tuner.store.store import Store
from tilewright.tuner.study import conduct
from tilewright.tuner.study.settings import StudySettings

TINY_LAYERS = [
    "tune", "resnet18", "--layers", "C10,C11", "--budget", "12", "--configs", "2",
    "--screen", "none",
]  # fmt: skip


def make_settings(**changes: Any) -> StudySettings:
    values: dict[str, Any] = {"model": "m", "tasks": TASKS, "board": BOARD, "memory": MEMORY}
    return StudySettings(**{**values, "base": BASE, **changes})


@pytest.fixture
def analytic(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """`tune` on the analytic accelerator; the mapping holds the latest oracle."""
    made: dict[str, Any] = {}

    def make(fidelity: str, executor: object, tell: object) -> AnalyticOracle:
        assert fidelity == "rtl"
        assert callable(tell)
        made["executor"] = executor
        made["oracle"] = made.get("next") or AnalyticOracle()
        return made["oracle"]

    monkeypatch.setattr(conduct, "DeviceOracle", make)
    monkeypatch.setattr(conduct, "host_rules", lambda: RULES)
    return made


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys, json\nfrom typer.testing import CliRunner\nfrom tilewright.cli import app\n"
        "r = CliRunner().invoke(app, ['--help'])\nassert r.exit_code == 0, r.output\n"
        "print(json.dumps([m for m in ('torch', 'sqlalchemy', 'onnx', 'numpy',"
        " 'tilewright.host.machine.board') if m in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == []


def test_sim_on_the_reference_checks_the_output() -> None:
    result = call("sim", "C10", "--device", "reference")
    assert result.exit_code == 0, result.output
    assert "bit-exact, 25,088 int8 elements" in result.output


def test_a_users_rtl_that_computes_wrong_is_told_to_its_owner(monkeypatch) -> None:
    honest = golden.conv2d_int8
    monkeypatch.setattr(golden, "conv2d_int8", lambda *a: honest(*a) ^ 1)
    result = call("sim", "C10", "--hw", "tiny-4x4", "--rtl", str(STOCK))
    assert result.exit_code == 1
    assert f"mend the RTL of {STOCK}" in result.stderr
    assert "defect of Tilewright" not in result.stderr


def test_sim_on_the_rtl_prints_cycles_bound_and_units() -> None:
    result = call("sim", "FC", "--network", "resnet18", "--hw", "edge-8x8")
    assert result.exit_code == 0, result.output
    for part in ("cycles; bound", "% of the bound", "gemm", "bytes_read", "bit-exact"):
        assert part in result.output


def test_an_interrupted_tune_exits_130_and_resumes(analytic, tmp_path: Path) -> None:
    analytic["next"] = AnalyticOracle(stop_after=5)
    stopped = call(*TINY_LAYERS, "--runs", str(tmp_path))
    assert stopped.exit_code == 130
    assert "resumes" in stopped.output
    analytic["next"] = AnalyticOracle()
    resumed = call(*TINY_LAYERS, "--runs", str(tmp_path))
    assert resumed.exit_code == 0, resumed.output
    assert "5 trials already in the store" in resumed.output
    assert len(analytic["oracle"].measured) == 7


def test_other_settings_under_one_name_are_refused(analytic, tmp_path: Path) -> None:
    arguments = [*TINY_LAYERS, "--runs", str(tmp_path), "--name", "mine"]
    assert call(*arguments).exit_code == 0
    assert "seed (was 0, now 9)" in refusal(*arguments, "--seed", "9")


@pytest.mark.parametrize(
    "other",
    [["--layers", "C10,C9"], ["--space", "vta"], ["--seed", "1"], ["--configs", "3"],
     ["--base", "edge-8x8"], ["--memory", "ideal"], ["--objective", "edp"]],
    ids=lambda words: words[0],
)  # fmt: skip
def test_what_makes_another_study_makes_another_default_name(analytic, tmp_path, other) -> None:
    assert call(*TINY_LAYERS, "--runs", str(tmp_path)).exit_code == 0
    second = call(*TINY_LAYERS, "--runs", str(tmp_path), *other)
    assert second.exit_code == 0, second.output
    with Store(tmp_path / "studies.sqlite") as store:
        assert [study.status for study in store.studies()] == ["complete"] * 2


def test_default_names_differ_by_fidelity_screen_and_warm_start() -> None:
    settings = make_settings()
    names = {
        settings.default_name(fidelity="rtl", warm_start=""),
        settings.default_name(fidelity="dpi", warm_start=""),
        settings.default_name(fidelity="rtl", warm_start="a.sqlite"),
        make_settings(screen="twin").default_name(fidelity="rtl", warm_start=""),
        make_settings(batch=9).default_name(fidelity="rtl", warm_start=""),
    }
    assert len(names) == 5


def test_a_study_name_that_acts_on_a_terminal_is_refused_and_shown_harmless(
    analytic, tmp_path: Path
) -> None:
    assert "printable" in refusal(*TINY_LAYERS, "--runs", str(tmp_path), "--name", "a\x1b[2J")
    with Store(tmp_path / "studies.sqlite") as store:  # as another program may have made it
        mapping = {**make_settings().to_mapping(), "oracle": "o", "fidelity": "rtl"}
        store.open_study("a\x1b[2J", mapping, {})
    shown = call("report", "--runs", str(tmp_path))
    assert shown.exit_code == 0, shown.output
    assert "\x1b" not in shown.output
    assert [path.name for path in tmp_path.glob("*.html")] == ["a_[2J.html"]


def test_a_study_whose_trials_all_fail_is_no_success(analytic, tmp_path: Path) -> None:
    analytic["next"] = AnalyticOracle(fail=lambda r: r.workload.name == "C10")
    result = refusal(*TINY_LAYERS, "--runs", str(tmp_path))
    assert "no configuration has a valid measurement of every layer" in result


def test_wrong_results_make_tune_fail(analytic, tmp_path: Path) -> None:
    analytic["next"] = AnalyticOracle(wrong=lambda r: r.schedule.oc_threading == 2)
    result = call(*TINY_LAYERS, "--tuner", "random", "--runs", str(tmp_path))
    assert result.exit_code == 1
    assert "WRONG RESULT" in result.output


def test_a_screened_study_refuses_an_oracle_that_counts_otherwise(analytic, tmp_path) -> None:
    arguments = [word for word in TINY_LAYERS if word not in ("--screen", "none")]
    result = call(*arguments, "--runs", str(tmp_path))
    assert "search on twin, confirmed on rtl" in result.output
    assert result.exit_code == 2
    assert "analytic and twin must count alike" in result.stderr


def test_tuners_lists_every_algorithm_with_its_track() -> None:
    result = call("tuners")
    assert result.exit_code == 0
    lines = {line.split()[0]: line for line in result.output.splitlines()[1:] if line.strip()}
    assert set(TUNERS) <= set(lines)
    assert "grey-box" in lines["tilewright"]
    assert "black-box" in lines["random"]


def test_allocators_lists_what_a_study_can_use() -> None:
    result = call("allocators")
    assert result.exit_code == 0
    for name, spec in ALLOCATORS.items():
        assert spec.summary in result.output, name


@pytest.mark.usefixtures("told_members")
def test_tune_takes_allocator_objective_time_and_warm_start(analytic, tmp_path: Path) -> None:
    words = [*TINY_LAYERS, "--runs", str(tmp_path)]
    first = call(*words, "--name", "first", "--allocator", "ansor", "--objective", "edp")
    assert first.exit_code == 0, first.output
    assert "allocator ansor" in first.output
    assert "Pareto front of the networks" in first.output
    store = tmp_path / "studies.sqlite"
    again = [*words, "--name", "second", "--warm-start", f"{store}:first", "--seed", "1"]
    early = refusal(*again, "--seconds", "0")
    assert "no configuration has a valid measurement of every layer" in early
    second = call(*again)
    assert second.exit_code == 0, second.output
    assert "study complete" in " ".join(second.output.split())
    path = tmp_path / "result.json"
    shown = call("report", "first", "--runs", str(tmp_path), "--json", str(path))
    assert shown.exit_code == 0, shown.output
    result = json.loads(path.read_text())
    conditions = result["conditions"]
    assert (conditions["objective"], conditions["allocator"]) == ("edp", "ansor")
    assert result["summary"]["trials"] == 12
    assert len(result["rows"]) == 2
    assert result["pareto"]
    nothing = call(*words, "--warm-start", f"{store}:third")
    assert (nothing.exit_code, nothing.stderr.count("\n")) == (2, 1)
    assert "third" in nothing.stderr


def test_certify_says_what_it_could_not_decide_in_time() -> None:
    result = call("certify", "vta-resnet18", "--layers", "C10", "--seconds", "0")
    assert result.exit_code == 2, result.output
    assert "open pynq-16x32" in result.output
    assert "of space vta and configurations around pynq-16x16 on pynq-z2, memory " in result.stdout
    assert "no network below the limit found in time" in result.output
    assert result.stderr.startswith("error: --seconds: 0 s did not decide every class")


def test_certify_refuses_a_limit_that_no_network_can_have() -> None:
    result = refusal("certify", "vta-resnet18", "--layers", "C10", "--limit", "1")
    assert result.startswith("error: --limit: must be at least 18,976 cycles")


def test_tune_and_report_take_a_store_by_path_or_url(analytic, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "x.db"
    result = call(*TINY_LAYERS, "--runs", str(tmp_path / "runs"), "--store", str(path))
    assert result.exit_code == 0, result.output
    assert path.is_file()
    assert not (tmp_path / "runs" / "studies.sqlite").exists()
    again = call("report", "--runs", str(tmp_path / "runs"), "--store", f"sqlite:///{path}")
    assert again.exit_code == 0, again.output
    assert call("report", "--runs", str(tmp_path / "runs")).exit_code == 2


def test_tune_on_a_server(analytic, tmp_path: Path) -> None:
    url = new_database()
    arguments = [*TINY_LAYERS, "--runs", str(tmp_path), "--store", url]
    result = call(*arguments)
    assert result.exit_code == 0, result.output
    again = call(*arguments)
    assert again.exit_code == 0, again.output
    assert "12 trials already in the store" in again.output
    assert call("report", "--runs", str(tmp_path), "--store", url).exit_code == 0


def test_a_server_out_of_reach_is_one_line(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("tilewright.tuner.store.database.OPENING_SECONDS", 1.0)
    url = "postgresql://me:secret@127.0.0.1:9/trials"
    result = refusal(*TINY_LAYERS, "--runs", str(tmp_path), "--store", url)
    assert "127.0.0.1" in result
    assert "secret" not in result


def test_ray_that_is_not_installed_is_named_with_its_extra(
    analytic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    result = refusal(*TINY_LAYERS, "--runs", str(tmp_path), "--ray", "local")
    assert "pip install 'tilewright[ray]'" in result
