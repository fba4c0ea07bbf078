# SPDX-License-Identifier: Apache-2.0
"""Where trials are kept: opening, checking, creating and migrating a SQLite or PostgreSQL database.

Nothing is written to a database before it has proved to be a trial store that this Tilewright can
use: a SQLite file is first read through a read-only connection.
"""

from __future__ import annotations

import sqlite3
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from tilewright.host.errors import StoreError
from tilewright.host.extras import install_line
from tilewright.tuner.store_schema import METADATA, OLD_VERSION, REVISION, REVISIONS

BUSY_SECONDS: Final = 60
"""How long a SQLite writer waits for others."""

_BUSY_PAUSE: Final = 0.02
"""Between two attempts where SQLite itself does not wait."""

_SQLITE_MAGIC: Final = b"SQLite format 3\0"
_SQLITE_HEADER: Final = 100
_LOCK: Final = 0x5457_4C54
"""PostgreSQL advisory lock of whoever creates or migrates the tables."""

_OTHER_FOLDER: Final = "name another store with --store or another folder with --runs"
_MIGRATIONS: Final = Path(__file__).resolve().parent / "store_migrations"
_READ: Final = "tilewright_read"


class Database:
    """An open trial store's database.

    Args:
        location: path of a SQLite file, or a URL (``sqlite:///...``, ``postgresql://...``).
        must_exist: refuse a store that is not there instead of creating it.

    Raises:
        StoreError: it cannot be reached, is none of ours, damaged, or of a newer version; in
            every case it is left as it was.
    """

    def __init__(self, location: Path | str, *, must_exist: bool = False) -> None:
        self.path, url = _parse(location)
        self.name: Final = str(self.path) if self.path else url.render_as_string(hide_password=True)
        if self.path is not None:
            self._prepare_file(self.path, must_exist=must_exist)
        try:
            self._engine = _engine(url)
        except ImportError as error:
            raise StoreError(
                f"PostgreSQL needs a package that is not installed ({error.name})",
                field=self.name,
                remedy=install_line("postgres"),
            ) from error
        try:
            with self.errors():
                self._open(must_exist=must_exist)
        except BaseException:
            self.close()
            raise

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

    def error(self, error: Exception) -> StoreError:
        """What the database said, as a `StoreError`."""
        cause = error.orig if isinstance(error, DBAPIError) else error
        remedy = (
            f"check the server and its address, or {_OTHER_FOLDER}"
            if self.path is None
            else f"restore a copy, or {_OTHER_FOLDER}"
        )
        text = " ".join(str(cause).split())
        return StoreError(
            f"the trial store cannot be used ({text})", field=self.name, remedy=remedy
        )

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A connection that only reads."""
        with self.errors(), self._engine.connect() as connection:
            yield connection.execution_options(**{_READ: True})

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """A transaction that writes; committed, and on its way through a kill, when it ends."""
        with self.errors(), self._engine.begin() as connection:
            yield connection

    # -- opening ----------------------------------------------------------------------------

    def _prepare_file(self, path: Path, *, must_exist: bool) -> None:
        if must_exist and not path.is_file():
            raise StoreError(
                "no such trial store",
                field=str(path),
                remedy="run `tilewright tune` first, or name the folder with --runs",
            )
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists() and path.stat().st_size:
                self._check_file(path)
        except OSError as error:
            raise StoreError(
                "the folder of the trial store must be writable",
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
                self._needs(connection, check=True)
        finally:
            engine.dispose()

    def _open(self, *, must_exist: bool) -> None:
        with self.read() as connection:
            needs = self._needs(connection)
        if not needs:
            return
        if must_exist and needs == "tables" and self.path is None:
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
            needs = self._needs(connection)
            if needs == "tables":
                METADATA.create_all(connection)
                REVISIONS.create(connection)
                connection.execute(REVISIONS.insert().values(version_num=REVISION))
            elif needs:
                _migrate(connection, stamp=needs == "stamp")

    def _needs(self, connection: sa.Connection, *, check: bool = False) -> str:
        """What must be done: nothing, ``tables``, ``stamp`` (first stores) or ``migration``.

        Raises:
            StoreError: nothing may be done, because this is no store, newer, or damaged.
        """
        present = set(sa.inspect(connection).get_table_names())
        if not present:
            return "tables"
        if REVISIONS.name in present and present & METADATA.tables.keys():
            found = connection.execute(sa.select(REVISIONS.c.version_num)).scalar()
        elif OLD_VERSION.name in present:
            version = connection.execute(sa.select(OLD_VERSION.c.version)).scalar()
            found = f"{version:04}" if isinstance(version, int) else str(version)
        else:
            raise StoreError(
                "this is a database, but not a trial store",
                field=self.name,
                value=f"tables {', '.join(sorted(present)[:3])}",
                remedy=_OTHER_FOLDER,
            )
        if found is None or not found.isdecimal() or found > REVISION:
            raise StoreError(
                f"this Tilewright uses trial stores up to version {REVISION}",
                field=self.name,
                value=found,
                remedy=f"use the Tilewright that wrote it, or {_OTHER_FOLDER}",
            )
        missing = METADATA.tables.keys() - present
        if found == REVISION and missing:
            raise self._damaged(f"no table {', '.join(sorted(missing))}")
        if check:
            verdict = connection.execute(sa.text("PRAGMA quick_check(1)")).scalar()
            if verdict != "ok":
                raise self._damaged(str(verdict))
        if found == REVISION:
            return ""
        return "migration" if REVISIONS.name in present else "stamp"

    def _damaged(self, how: str) -> StoreError:
        return StoreError(
            f"the trial store is damaged ({' '.join(how.split())})",
            field=self.name,
            remedy=f"restore a copy, or {_OTHER_FOLDER}",
        )


def is_url(location: Path | str) -> bool:
    """Whether a location is a database URL rather than a path."""
    return isinstance(location, str) and "://" in location


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
            value=text,
        ) from error
    kind = url.get_backend_name()
    if kind == "sqlite" and url.database:
        return Path(url.database), url
    if kind in ("postgresql", "postgres"):
        return None, url.set(drivername="postgresql+psycopg")
    raise StoreError(
        "a store is a SQLite file or a PostgreSQL database",
        field="store",
        value=url.render_as_string(hide_password=True),
        remedy="use a path or postgresql://user@host/database",
    )


def _engine(url: sa.URL) -> sa.Engine:
    if url.get_backend_name() != "sqlite":
        return sa.create_engine(url, pool_pre_ping=True)
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
    cursor.execute("PRAGMA synchronous=FULL")  # a commit is on the disk, not only in its cache
    cursor.close()


def _use_write_ahead_log(cursor: Any) -> None:
    """Switch a database to WAL, as only one process can at a time.

    SQLite does not wait for another one that writes then, whatever the timeout: it is busy at once.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    while cursor.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_BUSY_PAUSE)


def _begin(connection: sa.Connection) -> None:
    """Writers queue at the start, where SQLite waits; an upgrade later would fail at once."""
    reads = connection.get_execution_options().get(_READ)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def _migrate(connection: sa.Connection, *, stamp: bool) -> None:
    # Imported here: only an old store pays for it.
    from alembic import command  # noqa: PLC0415  (takes time: loaded to migrate only)
    from alembic.config import Config  # noqa: PLC0415  (takes time: loaded to migrate only)

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    if stamp:
        command.stamp(config, "0001")
    command.upgrade(config, REVISION)
