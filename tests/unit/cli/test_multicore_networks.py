# SPDX-License-Identifier: Apache-2.0
"""`tilewright multicore NETWORK... --system`: runs on the RTL, what it tells, what it refuses."""

import json
from pathlib import Path

import numpy as np
import pytest
from support.command_line import call, refusal
from support.networks.small_models import Model, imported

from tilewright.host.compiler.pack.artefact import load, save
from tilewright.host.compiler.pipeline import compile_network
from tilewright.host.compiler.run.side_by_side import Measured
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.multicore.device import VerilatorSystem
from tilewright.sim.twin.network_timing import time_network

pytestmark = pytest.mark.usefixtures("told_members")
BOARD = load_board("pynq-z2")


def small(channels, size, name):
    """Two convolutions with an operator of the CPU between them."""
    model = Model(np.random.default_rng(1))
    x = model.input(1, 4, size, size)
    for inputs in (4, channels):
        y = model.add("Conv", x, model.weights(channels, inputs, 3, 3), pads=[1, 1, 1, 1])
        x = model.add("Sin", y)
    return imported(model.proto(y), name=name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of compiled networks."""
    path = tmp_path_factory.mktemp("networks")
    tiny = load_hwconfig("tiny-4x4")
    conditions = {"board": BOARD.name, "clock_mhz": BOARD.clock_mhz}
    larger, smaller = small(8, 8, "larger"), small(4, 6, "smaller")
    for name, network, hw, options in (
        ("larger", larger, tiny, {"offload_all": True}),
        ("smaller", smaller, tiny, {"offload_all": True}),
        ("cpu", smaller, tiny, {}),
        ("wide", smaller, load_hwconfig("edge-8x8"), {"offload_all": True}),
    ):
        compiled = compile_network(network, hw, BOARD, conditions=conditions, **options).network
        save(compiled, path / f"{name}.tw")
    fast = {**conditions, "clock_mhz": 90.0}
    again = compile_network(smaller, tiny, BOARD, offload_all=True, conditions=fast).network
    save(again, path / "fast.tw")
    (path / "notes.txt").write_text("no network")
    return path


def document(folder, *words):
    result = call("multicore", *words, "--trust-model", "--json", "-")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout), result.stderr


def test_two_networks_run_on_the_rtl_bit_exact(folder, tmp_path):
    files = [str(folder / f"{name}.tw") for name in ("larger", "smaller")]
    page, trace = tmp_path / "page.html", tmp_path / "trace.json"
    found, said = document(
        folder, *files, "--system", "dual-tiny", "--frames", "2", "--html", str(page),
        "--trace", str(trace),
    )  # fmt: skip
    large, small = found["rows"]
    assert (large["network"], large["core"], large["frames"]) == ("larger", 0, 2)
    assert small["frames"] > 2
    assert large["programs"] == 2
    for row, file in zip(found["rows"], files, strict=True):
        timed = time_network(load(Path(file)), BOARD.memory).cycles
        assert 0 < row["alone_cycles"] - timed <= 20  # the queue's cycles between two programs
        assert row["slow_down"] >= 0.99
        lost = row["together_cycles"] - row["alone_cycles"]
        assert row["lost_cycles"] == pytest.approx(lost, abs=0.2)
        assert row["wrong_bytes"] == 0
        assert row["latency_median"] <= row["latency_worst"]
    summary = found["summary"]
    assert summary["wrong_bytes"] == 0
    assert 1 < summary["throughput"] <= 2.02
    assert "equal to the reference's, byte by byte" in said
    assert "take no time" in said
    assert "larger, smaller on dual-tiny" in page.read_text()
    assert "Frames over time" in page.read_text()
    slices = [e for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "X"]
    assert len(slices) == large["frames"] + small["frames"]
    assert max(e["ts"] + e["dur"] for e in slices) == summary["makespan"]
    assert {e["tid"] for e in slices if e["name"].startswith("larger")} == {0}


def test_networks_share_a_core_and_ports_have_budgets(folder):
    files = [str(folder / "smaller.tw")] * 2
    words = ("--system", "dual-tiny", "--device", "timing", "--frames", "3,2")
    found, _ = document(folder, *files, *words, "--cores", "1,1")
    assert [row["network"] for row in found["rows"]] == ["smaller (0)", "smaller (1)"]
    assert [row["frames"] for row in found["rows"]] == [3, 2]
    assert found["summary"]["wrong_bytes"] is None
    assert found["summary"]["throughput"] == pytest.approx(1 / (5 / 3) + 1 / 2, abs=0.05)
    slow, _ = document(
        folder, *files, *words, "--weights", "2,1", "--budgets", "0,64/32", "--window", "4096"
    )
    free, held = slow["rows"]
    assert held["read_throttled"] > 0 == free["read_throttled"]
    assert held["slow_down"] > 1.1
    assert slow["conditions"]["budgets"] == [[0, 0], [64, 32]]
    assert slow["conditions"]["weights"] == [2, 1]


def test_the_twin_counts_what_the_rtl_counts(folder):
    files = [str(folder / f"{name}.tw") for name in ("larger", "smaller")]
    words = ("--system", "dual-tiny", "--frames", "2", "--weights", "1,3", "--budgets", "90,0")
    told = [document(folder, *files, *words, "--device", device)[0] for device in ("rtl", "twin")]
    same = {"wrong_bytes", "cpu_ms"}
    rtl, twin = (
        [{k: v for k, v in row.items() if k not in same} for row in found["rows"]] for found in told
    )
    assert rtl == twin


def test_ctrl_c_tells_what_was_measured(folder, monkeypatch, tmp_path):
    run, done = VerilatorSystem.run, []

    def stopped(self, given, **options):
        done.append(given)
        if len(done) == 3:
            raise KeyboardInterrupt
        return run(self, given, **options)

    monkeypatch.setattr(VerilatorSystem, "run", stopped)
    path, page = tmp_path / "found.json", tmp_path / "page.html"
    result = call(
        "multicore", *[str(folder / "smaller.tw")] * 2, "--system", "dual-tiny", "--device",
        "timing", "--trust-model", "--json", str(path), "--html", str(page),
    )  # fmt: skip
    assert result.exit_code == 130
    found = json.loads(path.read_text())
    assert found["summary"]["stopped"] is True
    assert [row["together_cycles"] for row in found["rows"]] == [None, None]
    assert all(row["alone_cycles"] > 0 for row in found["rows"])
    assert "stopped before its end" in page.read_text()


def test_a_report_that_cannot_be_written_loses_no_figures(folder, tmp_path):
    path = tmp_path / "found.json"
    result = call(
        "multicore", str(folder / "smaller.tw"), "--system", "dual-tiny", "--device", "twin",
        "--frames", "1", "--trust-model", "--json", str(path), "--html", "/dev/full",
    )  # fmt: skip
    assert result.exit_code == 2
    assert "the report cannot be written" in result.stderr
    assert json.loads(path.read_text())["rows"][0]["alone_cycles"] > 0


def test_a_wrong_result_ends_with_a_code_of_its_own(folder, monkeypatch):
    monkeypatch.setattr(Measured, "wrong_bytes", 3)
    words = ("--system", "dual-tiny", "--frames", "1", "--trust-model")
    result = call("multicore", str(folder / "smaller.tw"), *words)
    assert result.exit_code == 1
    assert "WRONG RESULT: 3 bytes differ" in result.stderr


DUAL = "--system dual-tiny"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("smaller.tw", "--system: must be given for compiled networks"),
        ("smaller.tw --system dual-tinny", "did you mean dual-tiny"),
        (f"no.tw {DUAL}", "NETWORK: cannot be read"),
        (f"notes.txt {DUAL}", "must be a compiled network for --system"),
        (f"smaller.tw smaller.tw smaller.tw {DUAL}", "dual-tiny has only 2 cores"),
        (f"wide.tw {DUAL}", "tilewright compile MODEL --hw tiny-4x4"),
        ("smaller.tw --system big-little", "tilewright compile MODEL --hw big-little:0"),
        (f"cpu.tw {DUAL}", "all its operators run on the CPU"),
        (f"smaller.tw fast.tw {DUAL}", "--board: networks must be compiled"),
        (f"smaller.tw {DUAL} --cores 2", "--cores"),
        (f"smaller.tw {DUAL} --cores 0,1", "one per network"),
        (f"smaller.tw {DUAL} --frames 0", "--frames: must be 1 whole number of at least 1"),
        (f"smaller.tw {DUAL} --frames 2,3", "must be 1 whole number of at least 1"),
        (f"smaller.tw {DUAL} --weights 1", "one per core"),
        (f"smaller.tw {DUAL} --weights 1,99", "--weights (core 1)"),
        (f"smaller.tw {DUAL} --budgets 9,9999", "--budgets (core 1)"),
        (f"smaller.tw {DUAL} --window 2", "--window"),
        (f"smaller.tw {DUAL} --window 0", "--window"),
        (f"smaller.tw {DUAL} --platform S2", "--platform: maps a task"),
        ("vision --frames 2", "--frames: runs compiled networks"),
        ("vision mix", "takes one task or table"),
    ],
)
def test_what_cannot_be_is_one_line(folder, monkeypatch, words, told):
    monkeypatch.chdir(folder)
    assert told in refusal("multicore", *words.split())
