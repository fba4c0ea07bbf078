# SPDX-License-Identifier: Apache-2.0
"""Tutorials that are notebooks too: made from their Markdown, and executed."""

import os
import sys
from pathlib import Path

import nbclient
import nbformat
import pytest
from support.documents.tutorials import ROOT, TUTORIALS, blocks

sys.path.insert(0, str(ROOT / "docs" / "site"))

import notebooks

TIMEOUT_S = 900


def made(name: str) -> nbformat.NotebookNode:
    page = (TUTORIALS / f"{name}.md").read_text(encoding="utf-8")
    return nbformat.from_dict(notebooks.notebook(page))


@pytest.mark.parametrize("name", notebooks.NOTEBOOKS)
def test_a_notebook_holds_every_block_of_its_tutorial(name):
    book = made(name)
    nbformat.validate(book)
    page = (TUTORIALS / f"{name}.md").read_text(encoding="utf-8")
    cells = [cell for cell in book.cells if cell.cell_type == "code"]
    run = [block for block in blocks(page) if block.language in {"python", "console"}]
    assert len(cells) == len(run)
    for cell, block in zip(cells, run, strict=True):
        if block.language == "console":
            assert cell.source.startswith("!")
        elif block.title:
            assert cell.source.startswith(f"%%writefile {block.title}\n")
        else:
            assert cell.source == block.text.strip()


@pytest.mark.slow
@pytest.mark.parametrize("name", notebooks.NOTEBOOKS)
def test_a_notebook_runs_and_prints_what_the_tutorial_shows(name, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    book = made(name)
    client = nbclient.NotebookClient(
        book, timeout=TIMEOUT_S, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute()
    cells = [cell for cell in book.cells if cell.cell_type == "code"]
    printed = " ".join(
        " ".join(output.get("text", "").split()) for cell in cells for output in cell.outputs
    )
    page = (TUTORIALS / f"{name}.md").read_text(encoding="utf-8")
    for block in blocks(page):
        if block.language == "text":
            assert all(" ".join(line.split()) in printed for line in block.text.splitlines())
