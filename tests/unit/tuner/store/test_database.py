# SPDX-License-Identifier: Apache-2.0
"""What is no store of ours, or of another version, is refused and left as it was."""

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from support.command_line import call
from support.postgres import new_database
from support.randomness import fresh_rng, generator
from support.search.analytic_oracle import run
from support.search.trials import DIALECTS, SETTINGS, add, measured, new_location, request

from tilewright.host.common.errors import StoreError
from tilewright.tuner.store.schema import REVISION
from tilewright.tuner.store.store import Store


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder: what a refusal must leave alone."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def refused(path: Path, *parts: str) -> None:
    """Opening is refused in one line that names file, remedy and the parts; nothing changes."""
    before = contents(path.parent)
    for must_exist in (False, True):
        with pytest.raises(StoreError) as caught:
            Store(path, must_exist=must_exist)
        text = str(caught.value)
        assert "\n" not in text
        for part in (str(path), "--store", *parts):
            assert part in text
        assert contents(path.parent) == before


def engine_of(location: Path | str) -> sa.Engine:
    text = location if isinstance(location, str) else f"sqlite:///{location}"
    return sa.create_engine(text)


# -- refusals ---------------------------------------------------------------------------------
def test_a_missing_store_is_refused_when_it_must_exist(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such trial store"):
        Store(tmp_path / "none.sqlite", must_exist=True)
    assert not (tmp_path / "none.sqlite").exists()


@pytest.mark.parametrize("version", ["0001", "0002", f"{int(REVISION) + 1:04}", "1a2b3c4d"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_store_of_another_version_is_refused_untouched(
    tmp_path: Path, dialect: str, version: str
) -> None:
    location = new_location(dialect, tmp_path)
    with Store(location) as store:
        add(store, store.open_study("a", SETTINGS, {}).id, 0, request(), measured())
    engine = engine_of(location)
    with engine.begin() as connection:
        connection.execute(sa.text(f"UPDATE alembic_version SET version_num = '{version}'"))
    engine.dispose()
    if isinstance(location, Path):
        refused(location, f"of version {REVISION}", version)
    else:
        with pytest.raises(StoreError, match=f"of version {REVISION}, not '{version}'"):
            Store(location)


@pytest.mark.parametrize("content", [b"this is text, no database" * 100, b"S", b"SQLite format 3"])
def test_a_file_that_is_no_database_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "s.sqlite"
    path.write_bytes(content)
    refused(path, "no SQLite database")


def test_a_file_that_only_begins_like_a_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    path.write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    refused(path, "damaged")


@pytest.mark.parametrize("journal", ["delete", "wal"])
@pytest.mark.parametrize("tables", [["music"], ["music", "alembic_version"]])
def test_a_database_of_another_program_is_refused(
    tmp_path: Path, journal: str, tables: list[str]
) -> None:
    path = tmp_path / "s.sqlite"
    with sqlite3.connect(path) as raw:
        raw.execute(f"PRAGMA journal_mode={journal}")
        for table in tables:
            raw.execute(f"CREATE TABLE {table} (version_num TEXT)")
            raw.execute(f"INSERT INTO {table} VALUES ('0001')")
    raw.close()
    refused(path, "not a trial store", "music")


def test_a_server_database_of_another_program_is_refused() -> None:
    url = new_database()
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE music (title TEXT)"))
    with pytest.raises(StoreError, match="not a trial store"):
        Store(url)
    with engine.connect() as connection:
        assert sa.inspect(connection).get_table_names() == ["music"]
    engine.dispose()


def filled(path: Path, trials: int = 60) -> Path:
    with Store(path) as store:
        study = store.open_study("a", SETTINGS, {})
        for n in range(trials):
            add(store, study.id, n, request(n + 1), measured())
    return path


def test_a_damaged_store_is_refused(tmp_path: Path) -> None:
    path = filled(tmp_path / "s.sqlite")
    data = bytearray(path.read_bytes())
    data[3 * 4096 :] = b"\xff" * (len(data) - 3 * 4096)
    path.write_bytes(bytes(data))
    refused(path)


def test_a_truncated_store_is_refused(tmp_path: Path) -> None:
    data = filled(tmp_path / "whole.sqlite").read_bytes()
    rng = generator("cut a store")
    lengths = [1, 15, 16, 99, 100, 4096, len(data) - 4096, len(data) - 1]
    for length in [*lengths, *map(int, rng.integers(100, len(data), 8))]:
        path = tmp_path / f"cut{length}" / "s.sqlite"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data[:length])
        refused(path)


def test_a_missing_table_is_damage(tmp_path: Path) -> None:
    path = filled(tmp_path / "s.sqlite", 1)
    with sqlite3.connect(path) as raw:
        raw.execute("DROP TABLE trials")
    raw.close()
    refused(path, "damaged", "trials")


@pytest.mark.parametrize(
    ("location", "parts"),
    [
        ("mysql://host/db", ["SQLite file or a PostgreSQL database", "mysql://host/db"]),
        ("sqlite://", ["SQLite file or a PostgreSQL database"]),
        ("postgresql://me:secret@127.0.0.1:9/none", ["127.0.0.1", "--store", "server"]),
        ("postgresql://host:port/db", ["URL"]),
    ],
)
def test_a_location_that_cannot_be_used_is_refused(location: str, parts: list[str]) -> None:
    with pytest.raises(StoreError) as caught:
        Store(location, patience_s=0.2)
    text = str(caught.value)
    assert "secret" not in text
    assert "\n" not in text
    for part in parts:
        assert part in text


def test_a_url_may_name_a_sqlite_file(tmp_path: Path) -> None:
    with Store(f"sqlite:///{tmp_path}/a/s.sqlite") as store:
        store.open_study("a", SETTINGS, {})
    with Store(tmp_path / "a" / "s.sqlite", must_exist=True) as store:
        assert store.study("a").settings == SETTINGS


def test_a_path_may_hold_any_character(tmp_path: Path) -> None:
    path = tmp_path / "a b?c#d%20" / "s&x=1.sqlite"
    for _ in range(2):
        with Store(path) as store:
            store.open_study("a", SETTINGS, {})
    assert path.is_file()


def test_an_empty_server_database_is_refused_when_it_must_exist() -> None:
    url = new_database()
    with pytest.raises(StoreError, match="holds no trial store"):
        Store(url, must_exist=True)
    Store(url).close()
    Store(url, must_exist=True).close()


# -- damaged --------------------------------------------------------------------------------------

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
    done = call(*words)
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
