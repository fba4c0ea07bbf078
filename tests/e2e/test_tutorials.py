# SPDX-License-Identifier: Apache-2.0
"""Every tutorial works as it is written."""

import sys

import pytest
from support.documents.tutorials import TUTORIALS, blocks, run_tutorial

SLOW = {"change-rtl", "own-model", "own-operator", "own-tuner"}
"""Tutorials that take longer than a test of `make test` may."""

NAMES = sorted(path.stem for path in TUTORIALS.glob("*.md") if path.stem != "index")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in NAMES],
)
def test_the_tutorial_works_as_written(name, tmp_path, monkeypatch):
    for module in ("mine", "test_mine"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    run_tutorial(name, tmp_path)


def test_every_tutorial_is_in_the_index():
    index = (TUTORIALS / "index.md").read_text(encoding="utf-8")
    assert all(f"({name}.md)" in index for name in NAMES)


def test_a_block_knows_its_language_file_and_line():
    first, second = blocks('a\n```python title="m.py"\nx = 1\n```\n\n```console\n$ ls\n```\n')
    assert (first.language, first.title, first.text, first.line) == ("python", "m.py", "x = 1\n", 3)
    assert (second.language, second.title, second.line) == ("console", "", 7)


@pytest.mark.parametrize(
    "page",
    ["```python\nraise ValueError\n```\n", "```console\n$ false\n```\n",
     "```python\nprint(1)\n```\n\n```text\n2\n```\n"],
)  # fmt: skip
def test_a_tutorial_that_does_not_work_is_found(page, tmp_path, monkeypatch):
    (tmp_path / "wrong.md").write_text(page)
    monkeypatch.setattr("support.documents.tutorials.TUTORIALS", tmp_path)
    (tmp_path / "run").mkdir()
    with pytest.raises((AssertionError, ValueError)):
        run_tutorial("wrong", tmp_path / "run")
