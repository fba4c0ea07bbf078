# SPDX-License-Identifier: Apache-2.0
"""What README.md shows works as it is typed, and its figures are those of the results."""

import re
from pathlib import Path

import numpy as np
import pytest
from e2e.command import tilewright
from support.documents.tutorials import blocks, commands

from tilewright.host.compiler.pack.artefact import load
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.run.runtime import open_network
from tilewright.sim.reference.device import ReferenceDevice

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
IMAGES = ROOT / "examples" / "digits" / "images"


def test_the_python_of_the_readme_prints_what_it_says(capsys) -> None:
    (code,) = [block.text for block in blocks(README) if block.language == "python"]
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out.strip()
    assert f"It prints `{printed}`" in README


def test_the_figures_of_the_readme_are_those_of_the_results() -> None:
    results = (ROOT / "docs/results/resnet18.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"\b\d{1,3}(?:,\d{3})+\b", README))
    assert "4,078,728" in shown
    assert shown <= set(re.findall(r"\b\d{1,3}(?:,\d{3})+\b", results))


@pytest.fixture(scope="module")
def digits(tmp_path_factory) -> Path:
    """The network of the tutorial, compiled with the tutorial's first command."""
    folder = tmp_path_factory.mktemp("clone")
    (folder / "examples").symlink_to(ROOT / "examples")
    page = (ROOT / "docs/tutorials/own-model.md").read_text(encoding="utf-8")
    first = next(block for block in blocks(page) if block.language == "console")
    words = commands(first.text)[0].split()
    assert words[:2] == ["tilewright", "compile"]
    done = tilewright(*words[1:], cwd=folder)
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.tw")
    return path


def test_all_images_are_recognised(digits) -> None:
    network = load(digits)
    files = sorted(IMAGES.glob("*.png"))
    assert len(files) == 10
    with open_network(network, ReferenceDevice(network.hw), trusted=True) as runner:
        for file in files:
            inputs = next(Calibration(path=file).batches(network.inputs))
            (logits,) = runner.run(inputs).outputs.values()
            assert int(np.argmax(logits)) == int(file.stem)
