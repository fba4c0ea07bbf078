# SPDX-License-Identifier: Apache-2.0
"""Pictures of the documents are what their data gives, and are found where they are shown."""

import re
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "docs" / "pictures"
sys.path.insert(0, str(HERE))

import accelerator  # noqa: E402  (a file of the documents)
import blockdesign  # noqa: E402  (see above)
import draw  # noqa: E402  (see above)


def test_no_picture_is_stale():
    assert not [path.name for path in draw.stale()], "run `make pictures`"


def test_every_module_that_draws_is_in_the_list_and_nothing_else_is_kept():
    modules = {path.stem for path in HERE.glob("*.py") if "\ndef draw(" in path.read_text()}
    assert modules == set(draw.PICTURES)
    kept = {f"{name}-{theme}.svg" for name in draw.PICTURES for theme in ("light", "dark")}
    assert {path.name for path in HERE.glob("*.svg")} == kept


def test_the_block_design_is_held_against_its_script(monkeypatch):
    assert blockdesign.missing() == []
    monkeypatch.setattr(blockdesign, "BUSES", blockdesign.BUSES[1:])
    assert blockdesign.missing() == ["processor to to_registers"]
    monkeypatch.setattr(blockdesign, "SIGNALS", (*blockdesign.SIGNALS, ("reset", "processor")))
    assert "reset to processor" in blockdesign.missing()


def test_the_block_diagram_is_held_against_the_rtl(monkeypatch):
    assert accelerator.missing() == []
    wrong = (*accelerator.FLOWS, ("u_out", "u_gemm"), ("u_store", "u_acc"))
    monkeypatch.setattr(accelerator, "FLOWS", wrong)
    assert accelerator.missing() == ["u_out to u_gemm", "u_store to u_acc"]
    monkeypatch.setattr(accelerator, "BLOCKS", {**accelerator.BLOCKS, "u_dma": ()})
    assert "u_dma" in accelerator.missing()


@pytest.mark.parametrize("path", sorted(HERE.glob("*.svg")), ids=lambda path: path.name)
def test_a_picture_is_whole_and_no_text_leaves_it(path):
    root = ET.parse(path).getroot()
    width = float(root.attrib["width"])
    assert root.find("{http://www.w3.org/2000/svg}title").text
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        long = 0.6 * float(text.attrib["font-size"]) * len(text.text)
        start = {"start": 0, "middle": 0.5, "end": 1}[text.attrib["text-anchor"]]
        left = float(text.attrib["x"]) - start * long
        assert left >= -4, text.text
        assert left + long <= width + 4, text.text


def test_every_picture_is_shown_in_both_themes():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    shown = {
        name
        for page in pages
        for name in re.findall(r"pictures/([a-z]+-(?:light|dark)\.svg)", page.read_text())
    }
    assert shown == {path.name for path in HERE.glob("*.svg")}
