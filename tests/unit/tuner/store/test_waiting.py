# SPDX-License-Identifier: Apache-2.0
"""A store that is locked, restarts or cannot be written makes its user wait, and ends no study."""

import os
import sqlite3
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa
from support.postgres import new_database
from support.search.trials import SETTINGS, add, measured, request

from tilewright.host.common.errors import StoreError
from tilewright.tuner.store import database as store_database
from tilewright.tuner.store.database import hidden
from tilewright.tuner.store.store import Store


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_database, "BUSY_SECONDS", 0.05)
    monkeypatch.setattr(store_database, "_PAUSES", (0.05, 0.1))


def locked(path: Path) -> sqlite3.Connection:
    """Another process that writes and does not end."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    return other


def test_a_locked_store_is_waited_for_and_the_user_is_told(tmp_path: Path) -> None:
    told = threading.Event()
    notes: list[str] = []
    path = tmp_path / "s.sqlite"
    with Store(path, waiting=lambda text: (notes.append(text), told.set())) as store:
        study = store.open_study("a", SETTINGS, {})
        other = locked(path)
        writer = threading.Thread(target=add, args=(store, study.id, 0, request(), measured()))
        writer.start()
        assert told.wait(60)
        other.rollback()
        other.close()
        writer.join(60)
        assert len(store.trials(study.id)) == 1
    (note,) = notes
    assert note == (
        f"waiting for the trial store {path}: it is locked by another process; trying again for "
        "up to 15 minutes"
    )


def test_a_server_that_is_away_at_the_start_is_waited_for(monkeypatch, tmp_path) -> None:
    """A SQLite file stands for the database, once the server answers."""
    answers = iter([False, False, True])
    connect = store_database._engine

    class Server:
        def __init__(self) -> None:
            url = sa.URL.create("sqlite", database=str(tmp_path / "s.sqlite"))
            self.engine = connect(url, None)

        def connect(self) -> sa.Connection:
            if not next(answers, True):
                raise sa.exc.OperationalError("", {}, OSError("Connection refused"))
            return self.engine.connect()

        def __getattr__(self, name: str) -> object:
            return getattr(self.engine, name)

        def begin(self) -> object:
            if not next(answers, True):
                raise sa.exc.OperationalError("", {}, OSError("Connection refused"))
            return self.engine.begin()

    monkeypatch.setattr(store_database, "_engine", lambda *_: Server())
    notes: list[str] = []
    with Store("postgresql://me:secret@host/db", waiting=notes.append) as store:
        assert store.studies() == []
    assert len(notes) == 1
    assert notes[0].endswith("it does not answer; trying again for up to 2 minutes")
    assert "secret" not in notes[0]


def test_a_wrong_password_is_told_at_once(monkeypatch) -> None:
    class Server:
        def begin(self) -> object:
            raise sa.exc.OperationalError("", {}, OSError("password authentication failed"))

        connect = begin

        def dispose(self) -> None:
            pass

    monkeypatch.setattr(store_database, "_engine", lambda *_: Server())
    monkeypatch.setattr(store_database.time, "sleep", lambda _: pytest.fail("it waited"))
    with pytest.raises(StoreError, match="password authentication failed"):
        Store("postgresql://me@host/db")


def test_patience_ends_with_a_remedy_for_a_lock(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with Store(path, patience_s=0.3) as store:
        study = store.open_study("a", SETTINGS, {})
        other = locked(path)
        with pytest.raises(StoreError, match=r"locked by another process.*fuser.*goes on"):
            add(store, study.id, 0, request(), measured())
        other.close()
        add(store, study.id, 0, request(), measured())


def test_a_server_that_restarts_ends_no_study() -> None:
    """Every connection is cut, as by a restart; what was written before is there after."""
    url = new_database()
    with Store(url) as store:
        study = store.open_study("a", SETTINGS, {})
        add(store, study.id, 0, request(1), measured())
        engine = sa.create_engine(url)
        with engine.connect() as connection:
            cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid != "
            connection.execute(sa.text(f"{cut} pg_backend_pid() AND datname = current_database()"))
        engine.dispose()
        add(store, study.id, 1, request(2), measured())
        assert [t.sequence for t in store.trials(study.id)] == [0, 1]


def test_a_connection_that_breaks_in_a_transaction_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = new_database()
    notes: list[str] = []
    with Store(url, waiting=notes.append) as store:
        study = store.open_study("a", SETTINGS, {})
        database, calls = store._database, []

        def body(connection: sa.Connection) -> int:
            calls.append(1)
            if len(calls) < 3:
                connection.execute(sa.text("SELECT pg_terminate_backend(pg_backend_pid())"))
            return study.id

        assert database.write(body) == study.id
    assert len(calls) == 3
    assert len(notes) == 1
    assert "out of reach" in notes[0]


def test_a_store_is_read_where_nothing_can_be_written(tmp_path: Path) -> None:
    source = tmp_path / "s.sqlite"
    with Store(source) as store:
        study = store.open_study("a", SETTINGS, {})
        add(store, study.id, 0, request(), measured())
    if os.geteuid():
        source.chmod(0o400)
        tmp_path.chmod(0o500)
    before = {path: path.stat().st_mtime_ns for path in [tmp_path, *tmp_path.iterdir()]}
    try:
        with Store(source, must_exist=True, read_only=True) as store:
            assert [t.measurement.cycles for t in store.trials(study.id)] == [500]
            with pytest.raises(StoreError, match=r"readonly.*writable"):
                store.set_status(study.id, "running")
        if os.geteuid():  # who may write leaves the files of WAL there
            after = {path: path.stat().st_mtime_ns for path in [tmp_path, *tmp_path.iterdir()]}
            assert after == before
    finally:
        tmp_path.chmod(0o700)


def test_reading_takes_no_file_beside_the_store(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """What a read-only mount shows: the folder's permissions deny writing to this process."""
    source = tmp_path / "deep" / "s.sqlite"
    with Store(source) as store:
        study = store.open_study("a", SETTINGS, {})
        add(store, study.id, 0, request(), measured())
    monkeypatch.setattr(os, "access", lambda *_: False)
    with Store(source, must_exist=True, read_only=True) as store:
        assert len(store.trials(study.id)) == 1
    assert [path.name for path in source.parent.iterdir()] == ["s.sqlite"]


@pytest.mark.parametrize(
    "location",
    [
        "postgresql://me:hunter2@host/db",
        "postgresql://me:hun/ter2@ho@host/db",
        "postgresql://me:hunter2@host:port/db",
        "postgresql://host/db?user=me&password=hunter2",
        "postgresql://host/db?sslpassword=hunter2&x=1",
        "mysql://me:hunter2@host/db",
        "nonsense://me:hunter2@host:::/db",
    ],
)
def test_no_message_holds_a_password(location: str) -> None:
    assert "ter2" not in hidden(location)
    with pytest.raises(StoreError) as caught:
        Store(location)
    assert "ter2" not in str(caught.value)
    assert "ter2" not in caught.value.field
