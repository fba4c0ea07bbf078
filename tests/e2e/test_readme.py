# SPDX-License-Identifier: Apache-2.0
"""README's whole-network example works as it is typed, from a fresh clone."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from e2e.command import tilewright

from tilewright.host.compiler.pack.artefact import load
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.run.runtime import NetworkRunner
from tilewright.sim.reference.device import ReferenceDevice

ROOT = Path(__file__).resolve().parents[2]
IMAGES = Path("examples/digits/images")


def commands() -> list[list[str]]:
    """Those of the section, as words behind `tilewright`."""
    section = (ROOT / "README.md").read_text().split("## A whole network\n")[1].split("\n## ")[0]
    lines = re.findall(r"^\$ tilewright (.*)$", section, re.MULTILINE)
    return [shlex.split(line, comments=True) for line in lines]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A working folder with the repository's examples, where the first command has run."""
    path = tmp_path_factory.mktemp("clone")
    (path / "examples").symlink_to(ROOT / "examples")
    done = tilewright(*commands()[0], cwd=path)
    assert done.returncode == 0, done.stderr
    assert "9 of 9 operators on the accelerator" in done.stdout
    return path


def test_the_section_compiles_and_runs() -> None:
    assert [words[0] for words in commands()] == ["compile", "run"]


def test_the_image_is_recognised_on_the_rtl(folder) -> None:
    words = commands()[1]
    done = tilewright(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    digit = Path(words[words.index("--input") + 1]).stem
    assert f"largest [{digit}]" in done.stdout
    assert "outputs: bit-exact to the reference" in done.stdout


def test_all_images_are_recognised(folder) -> None:
    (path,) = folder.glob("*.tw")
    network = load(path)
    files = sorted((ROOT / IMAGES).glob("*.png"))
    assert len(files) == 10
    with NetworkRunner(network, ReferenceDevice(network.hw), trusted=True) as runner:
        for file in files:
            inputs = next(Calibration(path=file).batches(network.inputs))
            (logits,) = runner.run(inputs).outputs.values()
            assert int(np.argmax(logits)) == int(file.stem)
