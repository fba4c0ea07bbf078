# SPDX-License-Identifier: Apache-2.0
"""MkDocs hook: tutorials as Jupyter notebooks, made from the same Markdown.

A ``python`` block becomes a cell; one with a title writes that file and runs nothing; a ``console``
block becomes a cell of shell commands. Text and the outputs that the page shows stay text.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

TUTORIALS: Final = Path(__file__).resolve().parents[1] / "tutorials"
NOTEBOOKS: Final = ("first-layer", "own-tuner")
"""Tutorials that are notebooks too."""

_FENCE: Final = re.compile(
    r"^```(python|console)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
_PICTURE: Final = re.compile(r"^!\[\]\([^)]*\)\n?", re.MULTILINE)


def notebook(page: str) -> dict[str, Any]:
    """The Markdown of a tutorial as a notebook, in nbformat 4.5."""
    cells: list[dict[str, Any]] = []
    place = 0
    for match in _FENCE.finditer(page):
        _add(cells, "markdown", _PICTURE.sub("", page[place : match.start()]))
        language, title, text = match.groups()
        if language == "console":
            lines = text.replace("\\\n", " ").splitlines()
            text = "\n".join(f"!{line[2:]}" for line in lines if line.startswith("$ "))
        elif title:
            text = f"%%writefile {title}\n{text}"
        _add(cells, "code", text)
        place = match.end()
    _add(cells, "markdown", _PICTURE.sub("", page[place:]))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": cells,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def links_markdown() -> str:
    """The sentence of the tutorials' index that offers the notebooks."""
    links = " and ".join(f"[{name}.ipynb]({name}.ipynb)" for name in NOTEBOOKS)
    return f"\nTwo tutorials are Jupyter notebooks too: {links}.\n"


def _add(cells: list[dict[str, Any]], kind: str, text: str) -> None:
    if text.strip():
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{len(cells)}", "metadata": {}}
        if kind == "code":
            cell |= {"execution_count": None, "outputs": []}
        cells.append(cell | {"source": text.strip()})


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the notebooks to the site."""
    from mkdocs.structure.files import File  # noqa: PLC0415  (also imported without MkDocs)

    for name in NOTEBOOKS:
        page = (TUTORIALS / f"{name}.md").read_text(encoding="utf-8")
        text = json.dumps(notebook(page), indent=1) + "\n"
        files.append(File.generated(config, f"tutorials/{name}.ipynb", content=text))
    return files
