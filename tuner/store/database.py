# SPDX-License-Identifier: Apache-2.0
"""Where trials are kept: opening, checking and creating a SQLite or PostgreSQL database.

Nothing is written to a database before it has proved to be a trial store that this Tilewright can
use: a SQLite file is first read through a read-only connection.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError, SQLAlchemyError

from tilewright.host.common.errors import StoreError
from tilewright.host.common.extras import install_line
from tilewright.host.common.names import counted
from tilewright.tuner.store.schema import METADATA, REVISION, REVISIONS

BUSY_SECONDS: Final = 5
"""How long SQLite itself waits for other writers, before `Database` says so and tries again."""

PATIENCE_SECONDS: Final = 900.0
OPENING_SECONDS: Final = 120.0
"""How long a server may be away when a store is opened: its name may be wrong, too."""

_NO_ANSWER: Final = re.compile(
    r"(?i)refused|timed? ?out|timeout|no such file|unreachable|closed the connection"
)
"""How long a store that worked may be locked or out of reach until a study gives up."""

_PAUSES: Final = (0.1, 10.0)
"""Seconds between two attempts: the first, and the most after doubling."""

_BUSY_PAUSE: Final = 0.02
"""Between two attempts where SQLite itself does not wait."""

_LOG_PAGES: Final = 8000
"""Pages (4 KiB) of the write-ahead log until the file takes them in, which waits for the disk."""

_CHECKED_BYTES: Final = 64 << 20
"""Files up to this size are checked whole when they are opened: larger ones would take seconds."""

_SERVER_BUSY: Final = {"57P03": "is starting", "53300": "has no free connection"}
_SERVER_GONE: Final = ("57P01", "57P02", "08000", "08001", "08003", "08004", "08006")
_SERVER_RETRY: Final = {"40001": "was in conflict with others", "40P01": "was in a deadlock"}
"""PostgreSQL's error codes for what passes by itself, by what the user is told."""

T = TypeVar("T")

_SQLITE_MAGIC: Final = b"SQLite format 3\0"
_SQLITE_HEADER: Final = 100
_LOCK: Final = 0x5457_4C54
"""PostgreSQL advisory lock of whoever creates the tables."""

_OTHER_FOLDER: Final = "name another store with --store or another folder with --runs"
_READ: Final = "tilewright_read"


class Database:
    """An open trial store's database.

    A database that is locked, restarts or drops a connection is tried again with growing pauses.
    What is tried again must therefore do no harm when its first attempt was committed after all.
    """

    def __init__(
        self,
        location: Path | str,
        *,
        must_exist: bool = False,
        read_only: bool = False,
        waiting: Callable[[str], None] = lambda _: None,
        patience_s: float = PATIENCE_SECONDS,
    ) -> None:
        self.path, url = _parse(location)
        self.name: Final = str(self.path) if self.path else hidden(location)
        self._secrets: Final = _secrets(url)
        self._waiting: Final = waiting
        self._patience_s: Final = patience_s
        self._opened = False
        if self.path is not None:
            self._prepare_file(self.path, must_exist=must_exist, read_only=read_only)
        try:
            self._engine = _engine(url, self.path if read_only else None)
        except ImportError as error:
            raise StoreError(
                f"PostgreSQL needs a package that is not installed ({error.name})",
                field=self.name,
                remedy=install_line("postgres"),
            ) from error
        try:
            self._again(
                lambda: self._open(must_exist=must_exist, read_only=read_only), self._patience_s
            )
        except BaseException:
            self.close()
            raise
        self._opened = True

    @property
    def dialect(self) -> str:
        """``sqlite`` or ``postgresql``."""
        return self._engine.dialect.name

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn what the database says into one `StoreError`."""
        try:
            yield
        except (SQLAlchemyError, ValueError) as error:
            raise self.error(error) from error

    def error(self, error: Exception, waited_s: float = 0.0) -> StoreError:
        """What the database said, as a `StoreError`."""
        cause = error.orig if isinstance(error, DBAPIError) else error
        text = " ".join(str(cause).split())
        for secret in self._secrets:
            text = text.replace(secret, "***")
        if isinstance(cause, sqlite3.OperationalError) and _is_locked(cause):
            return StoreError(
                f"the trial store is locked by another process, for {waited_s:.0f} s now",
                field=self.name,
                remedy="find it (`fuser` or `lsof` on the file tell) and end it; every finished "
                "trial is stored, and the same command goes on",
            )
        if self.path is None:
            remedy = "check the server and its address"
            remedy += "; the same command goes on from here" if self._opened else ""
        elif "disk is full" in text or "disk I/O error" in text:
            remedy = "free disk space; every finished trial is stored, the same command goes on"
        elif "readonly" in text or "unable to open" in text:
            remedy = "make the file and its folder writable, or copy it with what lies beside it"
        else:
            remedy = "restore a copy"
        return StoreError(
            f"the trial store cannot be used ({text})",
            field=self.name,
            remedy=f"{remedy}, or {_OTHER_FOLDER}",
        )

    def read(self, body: Callable[[sa.Connection], T]) -> T:
        """What ``body`` reads from a connection that only reads."""

        def attempt() -> T:
            with self._engine.connect() as connection:
                return body(connection.execution_options(**{_READ: True}))

        return self._again(attempt, self._patience_s)

    def write(self, body: Callable[[sa.Connection], T], *, patient: bool = True) -> T:
        """Commit what ``body`` writes; when this returns, it survives the end of the process."""

        def attempt() -> T:
            with self._engine.begin() as connection:
                return body(connection)

        return self._again(attempt, self._patience_s if patient else 0.0)

    def _again(self, attempt: Callable[[], T], patience_s: float) -> T:
        """Try until it works, fails for good, or patience ends."""
        failed_at: float | None = None
        pause, told = _PAUSES[0], False
        while True:
            try:
                return attempt()
            except (SQLAlchemyError, ValueError) as error:
                now = time.monotonic()
                failed_at = now if failed_at is None else failed_at
                waited = now - failed_at
                what = self._passing(error)
                if not self._opened and self.path is None:
                    patience_s = min(patience_s, OPENING_SECONDS)
                if not what or waited >= patience_s:
                    raise self.error(error, waited) from error
                if not told and patience_s:
                    told = True
                    self._waiting(
                        f"waiting for the trial store {self.name}: it {what}; trying again for up "
                        f"to {counted(max(1, round(patience_s / 60)), 'minute')}"
                    )
            time.sleep(pause)
            pause = min(2 * pause, _PAUSES[1])

    def _passing(self, error: Exception) -> str:
        """What is the matter with the database, if it may pass by itself; empty: it will not."""
        if not isinstance(error, DBAPIError):
            return ""
        cause = error.orig
        if isinstance(cause, sqlite3.OperationalError):
            return "is locked by another process" if _is_locked(cause) else ""
        code = getattr(cause, "sqlstate", None)
        known = {**_SERVER_BUSY, **_SERVER_RETRY}
        if code in known:
            return known[code]
        lost = code in _SERVER_GONE or (code is None and isinstance(error, OperationalError))
        if not self._opened:  # a wrong name, user or password does not pass
            return "does not answer" if lost and _NO_ANSWER.search(str(cause)) else ""
        return "is out of reach" if lost or error.connection_invalidated else ""

    # -- opening ----------------------------------------------------------------------------

    def _prepare_file(self, path: Path, *, must_exist: bool, read_only: bool) -> None:
        if path.is_dir():
            raise StoreError(
                "a trial store is a file, no folder",
                field=str(path),
                remedy="name the folder with --runs, or a file in it",
            )
        if must_exist and not path.is_file():
            raise StoreError(
                "no such trial store",
                field=str(path),
                remedy="run `tilewright tune` first, or name the folder with --runs",
            )
        try:
            if not read_only:
                path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists() and path.stat().st_size:
                self._check_file(path)
        except OSError as error:
            raise StoreError(
                f"the folder of the trial store must be {'read' if read_only else 'writ'}able",
                field=str(path.parent),
                remedy=f"choose another with --runs ({error.strerror})",
            ) from error

    def _check_file(self, path: Path) -> None:
        """Judge an existing file by reading alone."""
        with path.open("rb") as file:
            header = file.read(_SQLITE_HEADER)
        if not header.startswith(_SQLITE_MAGIC):
            raise StoreError(
                "the file cannot be used: it is no SQLite database",
                field=self.name,
                remedy=_OTHER_FOLDER,
            )
        before = _state(path)
        wanted = _bytes_in_header(header)
        if not before[-1] and before[1] < wanted:  # SQLite itself reads a cut page as zeros
            raise self._damaged(f"it ends after {before[1]} of {wanted} bytes")
        try:
            self._check_tables(path, alone=not before[-1])
        except StoreError:
            if before[-1] or _state(path) == before:
                raise
            # Another process began to write while the file was read as if there were none.
            self._check_tables(path, alone=False)

    def _check_tables(self, path: Path, *, alone: bool) -> None:
        engine = sa.create_engine("sqlite://", creator=lambda: _connect_read_only(path, alone))
        try:
            with self.errors(), engine.connect() as connection:
                self._is_empty(connection, check=path.stat().st_size <= _CHECKED_BYTES)
        finally:
            engine.dispose()

    def _open(self, *, must_exist: bool, read_only: bool) -> None:
        with self._engine.connect() as connection:
            if not self._is_empty(connection.execution_options(**{_READ: True})):
                return
        if must_exist or read_only:
            raise StoreError(
                "the database holds no trial store",
                field=self.name,
                remedy="run `tilewright tune` with this --store first",
            )
        # One transaction: a kill leaves all or nothing, and of processes that start together one
        # does the work while the others wait.
        with self._engine.begin() as connection:
            if self.dialect == "postgresql":
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
            if self._is_empty(connection):
                METADATA.create_all(connection)
                REVISIONS.create(connection)
                connection.execute(REVISIONS.insert().values(version_num=REVISION))

    def _is_empty(self, connection: sa.Connection, *, check: bool = False) -> bool:
        """Whether the tables must be created; otherwise they are those of a usable store."""
        present = set(sa.inspect(connection).get_table_names())
        if not present:
            return True
        if not present & METADATA.tables.keys():
            raise StoreError(
                "this is a database, but not a trial store",
                field=self.name,
                value=f"tables {', '.join(sorted(present)[:3])}",
                remedy=_OTHER_FOLDER,
            )
        found = None
        if REVISIONS.name in present:
            found = connection.execute(sa.select(REVISIONS.c.version_num)).scalar()
        if found != REVISION:
            raise StoreError(
                f"this Tilewright uses trial stores of version {REVISION}",
                field=self.name,
                value=found,
                remedy=f"use the Tilewright that wrote it, or {_OTHER_FOLDER}",
            )
        if missing := METADATA.tables.keys() - present:
            raise self._damaged(f"no table {', '.join(sorted(missing))}")
        if check:
            verdict = connection.execute(sa.text("PRAGMA quick_check(1)")).scalar()
            if verdict != "ok":
                raise self._damaged(str(verdict))
        return False

    def _damaged(self, how: str) -> StoreError:
        return StoreError(
            f"the trial store is damaged ({' '.join(how.split())})",
            field=self.name,
            remedy=f"restore a copy, or {_OTHER_FOLDER}",
        )


def is_url(location: Path | str) -> bool:
    """Whether a location is a database URL rather than a path."""
    return isinstance(location, str) and "://" in location


def hidden(location: Path | str) -> str:
    """A location as messages may show it: without passwords, wherever a URL can have them."""
    # Greedy: a password that was not quoted may hold any character, and too little is shown then.
    text = re.sub(r"(://[^:@]*):.*@", r"\1:***@", str(location))
    return re.sub(r"([?&][^=&]*(?:pass|secret|key)[^=&]*=)[^&#]*", r"\1***", text, flags=re.I)


def _secrets(url: sa.URL) -> tuple[str, ...]:
    """Passwords of a URL, in every form in which a driver may repeat them."""
    values = [url.password, *(v for k, v in url.query.items() if re.search("pass|secret|key", k))]
    plain = [str(value) for value in values if value]
    return tuple({form for value in plain for form in (value, urllib.parse.quote(value))})


def _parse(location: Path | str) -> tuple[Path | None, sa.URL]:
    """The SQLite file, if it is one, and the URL of a location."""
    if not is_url(location):
        path = Path(location)
        return path, sa.URL.create("sqlite", database=str(path))
    text = str(location)
    try:
        url = sa.make_url(text)
    except (ArgumentError, ValueError) as error:
        raise StoreError(
            "a store's URL must read postgresql://user@host/database or sqlite:///path",
            field="store",
            value=hidden(text),
            remedy="check the scheme, and the port: a number",
        ) from error
    kind = url.get_backend_name()
    if kind == "sqlite" and url.database:
        return Path(url.database), url
    if kind in ("postgresql", "postgres"):
        return None, url.set(drivername="postgresql+psycopg")
    raise StoreError(
        "a store is a SQLite file or a PostgreSQL database",
        field="store",
        value=hidden(text),
        remedy="use a path or postgresql://user@host/database",
    )


def _engine(url: sa.URL, read_only: Path | None) -> sa.Engine:
    """The engine of a URL; ``read_only``: that SQLite file, without writing anything."""
    if url.get_backend_name() != "sqlite":
        return sa.create_engine(url, pool_pre_ping=True)
    if read_only is not None:
        # Nobody writes where nobody can, so the files that WAL needs are not missed there.
        log = read_only.with_name(f"{read_only.name}-wal")
        logged = log.exists() and log.stat().st_size > 0
        alone = not os.access(read_only.parent, os.W_OK) and not logged
        return sa.create_engine(
            "sqlite://",
            creator=lambda: _connect_read_only(read_only, alone),
            poolclass=sa.pool.NullPool,
        )
    engine = sa.create_engine(url, connect_args={"timeout": BUSY_SECONDS})
    sa.event.listen(engine, "connect", _set_pragmas)
    sa.event.listen(engine, "begin", _begin)
    return engine


def _connect_read_only(path: Path, alone: bool) -> sqlite3.Connection:
    """Read a file; where nobody else has it open, without the files that WAL needs beside it."""
    quoted = urllib.parse.quote(str(path.absolute()))
    mode = "immutable=1" if alone else "mode=ro"
    return sqlite3.connect(f"file:{quoted}?{mode}", uri=True, timeout=BUSY_SECONDS)


def _bytes_in_header(header: bytes) -> int:
    """Length of a database without write-ahead log, by its header (sqlite.org/fileformat)."""
    size = int.from_bytes(header[16:18], "big")
    pages = int.from_bytes(header[28:32], "big")
    current = len(header) == _SQLITE_HEADER and header[24:28] == header[92:96]
    return (65536 if size == 1 else size) * pages if current else _SQLITE_HEADER


def _state(path: Path) -> tuple[int, int, bool]:
    """Time and size of a SQLite file, and whether part of it is in a write-ahead log."""
    found = path.stat()
    return found.st_mtime_ns, found.st_size, path.with_name(f"{path.name}-wal").exists()


def _set_pragmas(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # transactions begin where `_begin` says
    cursor = connection.cursor()
    _use_write_ahead_log(cursor)
    # A commit is in the system's hands: no kill of a process undoes it, and a power cut loses the
    # last seconds but never the file (sqlite.org/pragma.html#pragma_synchronous). What is lost is
    # measured again, alike, when the study resumes; waiting for the disk costs most of a commit.
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.execute(f"PRAGMA wal_autocheckpoint={_LOG_PAGES}")
    cursor.close()


def _is_locked(error: sqlite3.OperationalError) -> bool:
    """Whether another process holds a SQLite file."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _use_write_ahead_log(cursor: Any) -> None:
    """Switch a database to WAL, as only one process can at a time.

    SQLite does not wait for another one that writes then, whatever the timeout: it is busy at once.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    while cursor.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if not _is_locked(error) or time.monotonic() > deadline:
                raise
            time.sleep(_BUSY_PAUSE)


def _begin(connection: sa.Connection) -> None:
    """Writers queue at the start, where SQLite waits; an upgrade later would fail at once."""
    reads = connection.get_execution_options().get(_READ)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")
