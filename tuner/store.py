# SPDX-License-Identifier: Apache-2.0
"""The trial store: SQLite through SQLAlchemy, one committed row a trial, several studies a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from tilewright.host.errors import StoreError
from tilewright.tuner.measurement import Measurement, Request, Status, hw_key

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA_VERSION: Final = 1
"""Version of the tables below; a store of a newer version is refused."""

_METADATA: Final = sa.MetaData()

_VERSION: Final = sa.Table(
    "schema_version", _METADATA, sa.Column("version", sa.Integer, nullable=False)
)

_STUDIES: Final = sa.Table(
    "studies",
    _METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(200), nullable=False, unique=True),
    sa.Column("settings", sa.Text, nullable=False),
    sa.Column("versions", sa.Text, nullable=False),
    sa.Column("status", sa.String(20), nullable=False),
    sa.Column("created", sa.String(40), nullable=False),
)

_CONFIGS: Final = sa.Table(
    "configs",
    _METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("study_id", sa.ForeignKey("studies.id"), nullable=False, index=True),
    sa.Column("config_hash", sa.String(8), nullable=False),
    sa.Column("hw", sa.Text, nullable=False),
    sa.Column("area", sa.Text, nullable=False),
    sa.Column("bounds", sa.Text, nullable=False),
    sa.Column("status", sa.String(20), nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.UniqueConstraint("study_id", "config_hash"),
)

_TRIALS: Final = sa.Table(
    "trials",
    _METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("study_id", sa.ForeignKey("studies.id"), nullable=False, index=True),
    sa.Column("sequence", sa.Integer, nullable=False),
    sa.Column("task", sa.String(200), nullable=False),
    sa.Column("origin", sa.String(20), nullable=False),
    sa.Column("config_hash", sa.String(8), nullable=False),
    sa.Column("hw", sa.Text, nullable=False),
    sa.Column("workload_key", sa.String(32), nullable=False),
    sa.Column("workload", sa.Text, nullable=False),
    sa.Column("schedule", sa.Text, nullable=False),
    sa.Column("memory", sa.Text, nullable=False),
    sa.Column("fidelity", sa.String(20), nullable=False),
    sa.Column("oracle", sa.String(200), nullable=False),
    sa.Column("status", sa.String(20), nullable=False),
    sa.Column("cycles", sa.BigInteger),
    sa.Column("counters", sa.Text, nullable=False),
    sa.Column("failure", sa.Text, nullable=False),
    sa.Column("limit_cycles", sa.BigInteger, nullable=False),
    sa.Column("host_seconds", sa.Float, nullable=False),
    sa.Column("output_checked", sa.Boolean, nullable=False),
    sa.Column("cached", sa.Boolean, nullable=False),
    sa.Column("created", sa.String(40), nullable=False),
    sa.UniqueConstraint("study_id", "task", "config_hash", "schedule"),
    sa.UniqueConstraint("study_id", "sequence"),
    sa.Index("trial_identity", "config_hash", "workload_key", "schedule"),
)


@dataclass(frozen=True, kw_only=True)
class StoredTrial:
    """One row of the store.

    Attributes:
        sequence: position in proposal order, from 0.
        task: name of the task that it was measured for.
        origin: ``default``, ``transfer`` or ``tuner``: who proposed it.
        config_hash: identity of the configuration.
        hw, workload, schedule, memory: everything needed to run it again, as plain values.
        measurement: the answer.
        created: UTC time of the commit, ISO 8601.
    """

    sequence: int
    task: str
    origin: str
    config_hash: str
    hw: Mapping[str, Any]
    workload: Mapping[str, Any]
    schedule: Mapping[str, Any]
    memory: Mapping[str, Any]
    measurement: Measurement
    created: str


@dataclass(frozen=True, kw_only=True)
class StoredConfig:
    """A configuration that a study considered.

    Attributes:
        hw: its parameters and label.
        area: resource names to amounts, and ``text``: use against the board.
        bounds: task names to lower bounds in cycles.
        status: ``measured``, ``pruned`` or ``failed``.
        reason: why, when not measured.
    """

    config_hash: str
    hw: Mapping[str, Any]
    area: Mapping[str, Any]
    bounds: Mapping[str, int]
    status: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class StoredStudy:
    """A study's settings and state.

    Attributes:
        name: unique in its store.
        settings: everything that decides which trials it makes; equal settings may resume.
        versions: software versions at its start.
        status: ``running``, ``interrupted`` or ``complete``.
        created: UTC time of its start, ISO 8601.
    """

    id: int
    name: str
    settings: Mapping[str, Any]
    versions: Mapping[str, str]
    status: str
    created: str


def _dump(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Store:
    """Trials of studies in one SQLite file (write-ahead log, every trial its own commit).

    Args:
        path: the file; created with its folder when absent, unless ``must_exist``.
        must_exist: refuse a missing file instead of creating it.

    Raises:
        StoreError: the file is missing, no SQLite database, damaged, or of a newer version.
    """

    def __init__(self, path: Path, *, must_exist: bool = False) -> None:
        self.path: Final = path
        if must_exist and not path.is_file():
            raise StoreError(
                "no such trial store",
                field=str(path),
                remedy="run `tilewright tune` first, or name the folder with --runs",
            )
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                "the folder of the trial store must be writable",
                field=str(path.parent),
                remedy=f"choose another with --runs ({error.strerror})",
            ) from error
        self._engine = sa.create_engine(f"sqlite:///{path}", connect_args={"timeout": 30})
        sa.event.listen(self._engine, "connect", _set_pragmas)
        try:
            with self._errors():
                self._open()
        except StoreError:
            self.close()
            raise

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> None:
        with self._engine.begin() as connection:
            present = set(sa.inspect(connection).get_table_names())
            if not present:
                # One transaction (pysqlite opens none for CREATE): a kill leaves all or nothing,
                # and of processes that start together only one creates.
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                present = set(sa.inspect(connection).get_table_names())
            if not present:
                _METADATA.create_all(connection)
                connection.execute(_VERSION.insert().values(version=SCHEMA_VERSION))
                return
            if _VERSION.name not in present:
                raise StoreError(
                    "the file is a database, but not a trial store",
                    field=str(self.path),
                    remedy="name another folder with --runs",
                )
            version = connection.execute(sa.select(_VERSION.c.version)).scalar()
            if version != SCHEMA_VERSION:
                raise StoreError(
                    f"this Tilewright reads trial stores of version {SCHEMA_VERSION}",
                    field=str(self.path),
                    value=version,
                    remedy="use the Tilewright that wrote it, or name another folder with --runs",
                )
            missing = set(_METADATA.tables) - present
            if missing:
                raise StoreError(
                    f"the trial store is damaged (no table {', '.join(sorted(missing))})",
                    field=str(self.path),
                    remedy="restore a copy, or name another folder with --runs",
                )
            verdict = connection.execute(sa.text("PRAGMA quick_check(1)")).scalar()
            if verdict != "ok":
                raise StoreError(
                    f"the trial store is damaged ({verdict})",
                    field=str(self.path),
                    remedy="restore a copy, or name another folder with --runs",
                )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, ValueError) as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            raise StoreError(
                f"the trial store cannot be used ({cause})",
                field=str(self.path),
                remedy="restore a copy, or name another folder with --runs",
            ) from error

    # -- studies ----------------------------------------------------------------------------

    def open_study(
        self, name: str, settings: Mapping[str, Any], versions: Mapping[str, str]
    ) -> StoredStudy:
        """Start a study, or take one up again that has equal settings.

        Raises:
            StoreError: a study of that name has other settings.
        """
        with self._errors(), self._engine.begin() as connection:
            row = connection.execute(sa.select(_STUDIES).where(_STUDIES.c.name == name)).first()
            if row is None:
                connection.execute(
                    _STUDIES.insert().values(
                        name=name,
                        settings=_dump(settings),
                        versions=_dump(versions),
                        status="running",
                        created=_now(),
                    )
                )
        if row is not None:
            self._require_equal(name, json.loads(row.settings), json.loads(_dump(settings)))
            self.set_status(row.id, "running")
        return self.study(name)

    def _require_equal(self, name: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        differing = sorted(k for k in old.keys() | new.keys() if old.get(k) != new.get(k))
        if not differing:
            return
        changes = []
        for key in differing:
            was, now = _dump(old.get(key)), _dump(new.get(key))
            short = len(was) + len(now) <= 80
            changes.append(f"{key} (was {was}, now {now})" if short else key)
        raise StoreError(
            f"a study of that name exists with other settings: {', '.join(changes)}",
            field=name,
            remedy="resume it with its own settings, or start another with --name",
        )

    def studies(self) -> list[StoredStudy]:
        """Every study, oldest first."""
        with self._errors(), self._engine.connect() as connection:
            rows = connection.execute(sa.select(_STUDIES).order_by(_STUDIES.c.id)).all()
            return [_study(row) for row in rows]

    def study(self, name: str) -> StoredStudy:
        """One study by name.

        Raises:
            StoreError: there is none.
        """
        studies = {study.name: study for study in self.studies()}
        if name not in studies:
            raise StoreError(
                "no study of that name",
                field=name,
                remedy=f"studies in {self.path}: {', '.join(studies) or 'none'}",
            )
        return studies[name]

    def set_status(self, study_id: int, status: str) -> None:
        """Record whether a study runs, was interrupted or is complete."""
        with self._errors(), self._engine.begin() as connection:
            connection.execute(
                _STUDIES.update().where(_STUDIES.c.id == study_id).values(status=status)
            )

    # -- configurations ---------------------------------------------------------------------

    def put_config(self, study_id: int, config: StoredConfig) -> None:
        """Insert or replace what a study knows about a configuration."""
        values = {
            "hw": _dump(config.hw),
            "area": _dump(config.area),
            "bounds": _dump(config.bounds),
            "status": config.status,
            "reason": config.reason,
        }
        same = (_CONFIGS.c.study_id == study_id) & (_CONFIGS.c.config_hash == config.config_hash)
        with self._errors(), self._engine.begin() as connection:
            if connection.execute(_CONFIGS.update().where(same).values(values)).rowcount == 0:
                connection.execute(
                    _CONFIGS.insert().values(
                        study_id=study_id, config_hash=config.config_hash, **values
                    )
                )

    def configs(self, study_id: int) -> list[StoredConfig]:
        """The configurations of a study, in the order in which it took them up."""
        query = sa.select(_CONFIGS).where(_CONFIGS.c.study_id == study_id).order_by(_CONFIGS.c.id)
        with self._errors(), self._engine.connect() as connection:
            return [
                StoredConfig(
                    config_hash=row.config_hash,
                    hw=json.loads(row.hw),
                    area=json.loads(row.area),
                    bounds=json.loads(row.bounds),
                    status=row.status,
                    reason=row.reason,
                )
                for row in connection.execute(query)
            ]

    # -- trials -----------------------------------------------------------------------------

    def add_trial(
        self,
        study_id: int,
        *,
        sequence: int,
        task: str,
        origin: str,
        request: Request,
        measurement: Measurement,
        oracle: str,
    ) -> None:
        """Commit one trial; when this returns, a kill no longer loses it.

        Raises:
            StoreError: the study already holds this trial (another process writes to it).
        """
        config_hash, workload_key, schedule = request.key
        row = _TRIALS.insert().values(
            study_id=study_id,
            sequence=sequence,
            task=task,
            origin=origin,
            config_hash=config_hash,
            hw=_dump({"name": request.hw.name, **request.hw.parameters()}),
            workload_key=workload_key,
            workload=_dump(request.workload.to_mapping()),
            schedule=schedule,
            memory=memory_text(request),
            fidelity=measurement.fidelity,
            oracle=oracle,
            status=str(measurement.status),
            cycles=measurement.cycles,
            counters=_dump(dict(measurement.counters)),
            failure=measurement.failure,
            limit_cycles=measurement.limit_cycles,
            host_seconds=measurement.host_seconds,
            output_checked=measurement.output_checked,
            cached=measurement.cached,
            created=_now(),
        )
        try:
            with self._engine.begin() as connection:
                connection.execute(row)
        except IntegrityError as error:
            raise StoreError(
                "the study already holds this trial: another process is writing to it",
                field=str(self.path),
                value=sequence,
                remedy="end the other process, then run the same command again",
            ) from error
        except SQLAlchemyError as error:
            raise StoreError(
                f"the trial could not be written ({error})", field=str(self.path)
            ) from error

    def trials(self, study_id: int) -> list[StoredTrial]:
        """The trials of a study in proposal order."""
        query = (
            sa.select(_TRIALS).where(_TRIALS.c.study_id == study_id).order_by(_TRIALS.c.sequence)
        )
        with self._errors(), self._engine.connect() as connection:
            return [_trial(row) for row in connection.execute(query)]

    def earlier(self, study_id: int, request: Request, oracle: str) -> Measurement | None:
        """The same thing measured by another study with an equal oracle and memory, if any.

        A timeout counts only when its limit was at least the one that applies now.
        """
        config_hash, workload_key, schedule = request.key
        query = sa.select(_TRIALS).where(
            _TRIALS.c.config_hash == config_hash,
            _TRIALS.c.workload_key == workload_key,
            _TRIALS.c.schedule == schedule,
            _TRIALS.c.oracle == oracle,
            _TRIALS.c.memory == memory_text(request),
            _TRIALS.c.study_id != study_id,
            _TRIALS.c.status.in_([Status.OK.value, Status.TIMEOUT.value]),
        )
        with self._errors(), self._engine.connect() as connection:
            for row in connection.execute(query.order_by(_TRIALS.c.id)):
                cycles = row.cycles
                over = cycles is not None and cycles > request.max_cycles
                if row.status == Status.TIMEOUT and row.limit_cycles < request.max_cycles:
                    continue
                return Measurement(
                    status=Status.TIMEOUT if over else Status(row.status),
                    fidelity=row.fidelity,
                    cycles=None if over else cycles,
                    counters={} if over else json.loads(row.counters),
                    failure=f"more than {request.max_cycles} cycles" if over else row.failure,
                    limit_cycles=request.max_cycles,
                    host_seconds=row.host_seconds,
                    output_checked=row.output_checked and not over,
                    cached=True,
                )
        return None


def memory_text(request: Request) -> str:
    """The memory model as the store writes it: its figures, without the label."""
    fields = dict(vars(request.memory))
    del fields["name"]
    return _dump(fields)


def _study(row: Any) -> StoredStudy:
    return StoredStudy(
        id=row.id,
        name=row.name,
        settings=json.loads(row.settings),
        versions=json.loads(row.versions),
        status=row.status,
        created=row.created,
    )


def _trial(row: Any) -> StoredTrial:
    return StoredTrial(
        sequence=row.sequence,
        task=row.task,
        origin=row.origin,
        config_hash=row.config_hash,
        hw=json.loads(row.hw),
        workload=json.loads(row.workload),
        schedule=json.loads(row.schedule),
        memory=json.loads(row.memory),
        measurement=Measurement(
            status=Status(row.status),
            fidelity=row.fidelity,
            cycles=row.cycles,
            counters=json.loads(row.counters),
            failure=row.failure,
            limit_cycles=row.limit_cycles,
            host_seconds=row.host_seconds,
            output_checked=row.output_checked,
            cached=row.cached,
        ),
        created=row.created,
    )


def _set_pragmas(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


__all__ = [
    "SCHEMA_VERSION",
    "Store",
    "StoredConfig",
    "StoredStudy",
    "StoredTrial",
    "hw_key",
    "memory_text",
]
