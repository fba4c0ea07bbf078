# SPDX-License-Identifier: Apache-2.0
"""A store that somebody changed, or that is damaged, gives a report or one line, no traceback."""

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.analytic_study import run
from support.randomness import fresh_rng
from typer.testing import CliRunner

from tilewright.cli.commands import app
from tilewright.host.common.errors import StoreError

VALUES: tuple[Any, ...] = (
    *(None, "", "x", -1, 0, 1, 2**62, 1.5, float("inf"), b"\xff\xfe", "\x1b[2J", "é" * 300),
    *("{}", "[]", "null", "1e999", '"x"', "[" * 2000, "{", "NaN", '{"a": {"b": [1]}}', "<b>x</b>"),
)
TABLES = ("studies", "configs", "trials")


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    run(folder)
    with sqlite3.connect(folder / "s.sqlite") as base:
        base.execute("pragma journal_mode=delete")
    return folder / "s.sqlite"


def reported(store: Path) -> None:
    words = ["report", "--store", str(store), "--runs", str(store.parent),
             "--json", str(store.with_suffix(".json"))]  # fmt: skip
    done = CliRunner().invoke(app, words)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise AssertionError(f"a traceback: {done.exception!r}") from done.exception
    assert done.exit_code in (0, 1, 2), done.output
    if done.exit_code == 2:
        assert done.stderr.splitlines()[-1].startswith("error: ")
    assert "\x1b" not in done.output


def changed(text: Any, rng: np.random.Generator) -> Any:
    """A column's value with one value inside exchanged, where it holds JSON."""
    try:
        value = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return pick(rng)
    holder, place = None, None
    inner = value
    while isinstance(inner, dict | list) and inner and (holder is None or rng.random() < 0.7):
        keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
        holder, place = inner, keys[int(rng.integers(len(keys)))]
        inner = holder[place]
    if holder is None or rng.random() < 0.2:
        return pick(rng)
    new = pick(rng)
    if isinstance(holder, dict) and rng.random() < 0.3:
        del holder[place]
    else:
        holder[place] = None if isinstance(new, bytes) else new
    return json.dumps(value)


def pick(rng: np.random.Generator) -> Any:
    return VALUES[int(rng.integers(len(VALUES)))]


def test_changed_values_give_a_report_or_one_line(whole, tmp_path):
    rng = fresh_rng()
    for number in range(60):
        store = tmp_path / f"{number}.sqlite"
        shutil.copyfile(whole, store)
        with sqlite3.connect(store) as base:
            base.execute("pragma ignore_check_constraints=on")
            base.execute("pragma foreign_keys=off")
            table = TABLES[int(rng.integers(len(TABLES)))]
            columns = [row[1] for row in base.execute(f"pragma table_info({table})")]
            for _ in range(int(rng.integers(1, 4))):
                column = columns[int(rng.integers(len(columns)))]
                rows = base.execute(f"select rowid, {column} from {table}").fetchall()
                row, old = rows[int(rng.integers(len(rows)))]
                try:
                    base.execute(
                        f"update {table} set {column} = ? where rowid = ?", (changed(old, rng), row)
                    )
                except sqlite3.Error:  # a rule of the schema
                    continue
        reported(store)


def test_damaged_bytes_give_a_report_or_one_line(whole, tmp_path):
    rng = fresh_rng()
    data = whole.read_bytes()
    for number in range(60):
        broken = bytearray(data)
        for _ in range(int(rng.integers(1, 30))):
            place = int(rng.integers(len(broken)))
            broken[place : place + int(rng.integers(1, 40))] = rng.bytes(int(rng.integers(1, 40)))
        store = tmp_path / f"{number}.sqlite"
        store.write_bytes(bytes(broken[: len(broken) - int(rng.integers(0, 2)) * 4096]))
        reported(store)


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("studies", "settings", "null"),
        ("studies", "settings", "{'a"),
        ("trials", "cycles", "x"),
        ("trials", "counters", "[1]"),
        ("trials", "counters", '{"cycles": "x"}'),
        ("trials", "counters", '{"cycles": 5}'),
        ("trials", "runs", "1.5"),
        ("trials", "status", "fine"),
        ("trials", "host_seconds", "x"),
    ],
)
def test_a_study_that_resumes_on_values_of_others_is_refused_in_a_line(
    whole, tmp_path, table, column, value
):
    shutil.copyfile(whole, tmp_path / "s.sqlite")
    with sqlite3.connect(tmp_path / "s.sqlite") as base:
        base.execute(f"update {table} set {column} = ?", (value,))
    with pytest.raises(StoreError, match="holds a value that this version does not write"):
        run(tmp_path)
