# SPDX-License-Identifier: Apache-2.0
"""From a compiled network to a run in a Python like a board's, which has numpy and no more."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from e2e.command import tilewright
from support.boards.bitstreams import write_manifest
from support.boards.bundles import TINY, small_network
from support.documents.json_members import wrong_in

from tilewright.host.compiler.pack.artefact import FORMAT, save
from tilewright.host.deploy.board_run import runner_of, top_classes
from tilewright.host.runtime.bitstreams import file_digest
from tilewright.sim.reference.device import ReferenceDevice

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent


def board_pythons():
    """This interpreter, and a Python 3.10 with numpy where the environment names one."""
    named = os.environ.get("TILEWRIGHT_BOARD_PYTHON")
    yield pytest.param(sys.executable, id="this")
    why = "TILEWRIGHT_BOARD_PYTHON names no Python 3.10 with numpy"
    yield pytest.param(named, id="board", marks=pytest.mark.skipif(not named, reason=why))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A network, its inputs, a bitstream with manifest, and the bundle."""
    path = tmp_path_factory.mktemp("deploy")
    network = small_network()
    save(network, path / "small.tw")
    shape = (4, *network.inputs[0].shape[1:])
    np.save(path / "x.npy", np.random.default_rng(1).normal(size=shape).astype(np.float32))
    (path / "tilewright.bit").write_bytes(b"bits")
    (path / "tilewright.hwh").write_bytes(b"metadata")
    files = {name: file_digest(path / name) for name in ("tilewright.bit", "tilewright.hwh")}
    write_manifest(path / "tilewright.yaml", TINY, files=files)
    done = tilewright(
        "deploy", "small.tw", "--bitstream", "tilewright.yaml", "--json", "deploy.json", cwd=path
    )
    assert done.returncode == 0, done.stderr
    assert re.match(r"small-pynq-z2\.zip: [\d,]+ bytes, SHA-256 [0-9a-f]{64}\n", done.stdout)
    assert wrong_in(json.loads((path / "deploy.json").read_text(encoding="utf-8"))) == []
    return path


def expected(folder) -> list[str]:
    network, inputs = small_network(), np.load(folder / "x.npy")
    with runner_of(network, ReferenceDevice(TINY)) as runner:
        return [
            f"input {i}: {top_classes(runner.run({'x': inputs[i : i + 1]}), ())}"
            for i in range(len(inputs))
        ]


@pytest.mark.slow
@pytest.mark.parametrize("python", [*board_pythons()])
def test_a_bundle_runs_where_numpy_is_all_there_is(folder, tmp_path, python):
    """The RTL computes, in another process; the bundle's own modules do all the rest."""
    bundle = tmp_path / "small"
    shutil.unpack_archive(folder / "small-pynq-z2.zip", bundle, "zip")
    stand_in = tmp_path / "stand-in"
    shutil.copytree(TESTS / "support/boards/board_python", stand_in)
    logic = subprocess.Popen(
        [sys.executable, "-m", "support.boards.board_logic", str(tmp_path)],
        stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": f"{TESTS}{os.pathsep}{ROOT / 'src'}"},
    )  # fmt: skip
    try:
        assert logic.stdout is not None
        assert logic.stdout.readline() == "ready\n"
        done = subprocess.run(
            [python, "run", "--images", folder / "x.npy", "--bitstream", folder / "tilewright.bit",
             "--json", tmp_path / "run.json"],
            cwd=bundle, capture_output=True, text=True, check=False,
            env={"PYTHONPATH": str(stand_in), "TILEWRIGHT_BOARD_LOGIC": str(tmp_path)},
        )  # fmt: skip
    finally:
        logic.kill()
        logic.communicate()
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:4] == expected(folder)
    assert re.match(r"small: 4 inputs; [\d,]+ cycles on the accelerator, ", lines[4])
    assert re.match(r"latency: median [\d.]+ ms, 10 % to 90 %: ", lines[5])
    assert re.match(r"throughput: [\d.]+ inputs per second one by one, ", lines[6])
    document = json.loads((tmp_path / "run.json").read_text())
    assert [row["input"] for row in document["rows"]] == [f"input {i}" for i in range(4)]
    assert document["conditions"]["device"] == "board"
    assert document["summary"]["cycles"] > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("board", "run", "absent.zip"), "BUNDLE"),
        (("board", "run", "small.tw"), "small.tw: manifest.json: must be a bundle"),
        (("deploy", "small-pynq-z2.zip"), f"must have format {FORMAT}"),
        (("deploy", "small.tw", "--bitstream", "x.yaml"), "x.yaml"),
        (("deploy", "small.tw", "--host", "-x"), "--host: must be plain letters"),
        (("deploy", "small.tw", "-o", "small.tw/x.zip"), "--output: cannot be written ("),
    ],
)
def test_wrong_arguments_are_one_line(folder, words, message):
    done = tilewright(*words, cwd=folder)
    assert done.returncode == 2, done.stdout
    error = done.stderr.strip().splitlines()[-1]
    assert error.startswith("error: ")
    assert message in error
