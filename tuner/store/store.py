# SPDX-License-Identifier: Apache-2.0
"""The trial store: studies, configurations and trials; a row is committed before it counts.

When `Store.add_trial` returns, the trial survives the end of this process by any signal. A power
cut never damages a store; of a SQLite file it may undo the last seconds, which the study measures
again, alike, when it resumes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from tilewright.host.common.errors import StoreError, reason_of
from tilewright.host.common.names import choices
from tilewright.host.common.plugins import short_name
from tilewright.tuner.measure.energy import EnergyModel
from tilewright.tuner.measure.measurement import BoardRuns, Measurement, Request, Status
from tilewright.tuner.store.database import Database
from tilewright.tuner.store.records import (
    StoredConfig,
    StoredStudy,
    StoredTrial,
    board_runs_of,
    config_of,
    dump,
    measurement_of,
    now,
    study_of,
    trial_of,
    trial_row,
)
from tilewright.tuner.store.schema import (
    CLAIMS,
    CONFIGS,
    ORIGIN_LETTERS,
    REVISION,
    STUDIES,
    TRIALS,
)
from tilewright.tuner.store.summary import (
    TrialSummary,
    failures,
    fastest,
    front,
    summarise,
    untuned,
)

__all__ = [
    "REVISION",
    "DuplicateTrialError",
    "Store",
    "StoredConfig",
    "StoredStudy",
    "StoredTrial",
]

R = TypeVar("R")

_INSERT_TRIAL: Final = TRIALS.insert()
_END_CLAIM: Final = CLAIMS.delete().where(
    CLAIMS.c.key == sa.bindparam("done"), CLAIMS.c.owner == sa.bindparam("by")
)


class DuplicateTrialError(StoreError):
    """The study already holds a trial of that number or of that content."""


_OF_VALUES: Final = (
    *(ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError),
)
"""What code raises for values of kinds that it does not expect."""


@contextmanager
def values_from(place: str) -> Iterator[None]:
    """What is read inside comes from rows that anybody may have written, of whatever values."""
    try:
        yield
    except _OF_VALUES as error:
        raise StoreError(
            f"holds a value that this version does not write ({type(error).__name__}: "
            f"{reason_of(error)})",
            field=place,
            remedy="restore a copy of the store, or run the study again in another folder",
        ) from error


class Store:
    """Trials of studies in one database, which several processes may write at once."""

    def __init__(self, location: Path | str, **options: Any) -> None:
        self._database: Final = Database(location, **options)

    @property
    def name(self) -> str:
        """Path or URL, without a password."""
        return self._database.name

    @property
    def path(self) -> Path | None:
        """The SQLite file; None for a server."""
        return self._database.path

    def close(self) -> None:
        """Close every connection."""
        self._database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- studies ----------------------------------------------------------------------------

    def open_study(
        self, name: str, settings: Mapping[str, Any], versions: Mapping[str, str]
    ) -> StoredStudy:
        """Start a study, or take one up again that has equal settings."""
        row = {
            "name": name,
            "settings": dump(settings),
            "versions": dump(versions),
            "status": "running",
            "created": now(),
        }
        insert = self._insert(STUDIES).values(row).on_conflict_do_nothing().returning(STUDIES.c.id)
        made = self._database.write(lambda connection: connection.execute(insert).scalar())
        study = self.study(name)
        if made is None:
            self.require_equal(name, settings)
            self.set_status(study.id, "running")
        return self.study(name)

    def require_equal(
        self, name: str, settings: Mapping[str, Any], *, ignoring: frozenset[str] = frozenset()
    ) -> None:
        """Refuse settings that are not those of the stored study of that name, if there is one."""
        stored = next((study for study in self.studies() if study.name == name), None)
        if stored is None:
            return
        old, new = dict(stored.settings), json.loads(dump(settings))
        both = (old.keys() | new.keys()) - ignoring
        differing = sorted(k for k in both if old.get(k) != new.get(k))
        if not differing:
            return
        changes = []
        for key, before, after in _innermost(differing, old, new):
            was, is_now = dump(before), dump(after)
            short = len(was) + len(is_now) <= 80
            changes.append(f"{key} (was {was}, now {is_now})" if short else key)
        raise StoreError(
            f"a study of that name exists with other settings: {', '.join(changes)}",
            field=name,
            remedy="resume it with its own settings, or start another with --name",
        )

    def studies(self) -> list[StoredStudy]:
        """Every study, oldest first."""
        return self._records(study_of, self._rows(sa.select(STUDIES).order_by(STUDIES.c.id)))

    def study(self, name: str) -> StoredStudy:
        """One study by name."""
        found = self._rows(sa.select(STUDIES).where(STUDIES.c.name == name))
        for study in self._records(study_of, found):
            return study
        raise StoreError(
            "no study of that name",
            field=name,
            remedy=self._instead_of(name),
        )

    def _instead_of(self, name: str) -> str:
        known = [study.name for study in self.studies()]
        if f"{name}/screen" in known:
            return f"it is still searched on the twin, as {name}/screen; resume it to confirm it"
        return choices(name, known)

    def set_status(self, study_id: int, status: str, *, patient: bool = True) -> None:
        """Record whether a study runs, was interrupted or is complete."""
        mine = STUDIES.update().where(STUDIES.c.id == study_id)
        self._execute(mine.values(status=status), patient=patient)

    # -- configurations ---------------------------------------------------------------------

    def put_config(self, study_id: int, config: StoredConfig) -> None:
        """Insert or replace what a study knows about a configuration."""
        values = {
            "hw": dump(config.hw),
            "area": dump(config.area),
            "bounds": config.bounds_text,
            "status": config.status,
            "reason": config.reason,
        }
        insert = self._insert(CONFIGS).values(
            study_id=study_id, config_hash=config.config_hash, **values
        )
        self._execute(
            insert.on_conflict_do_update(
                index_elements=[CONFIGS.c.study_id, CONFIGS.c.config_hash], set_=values
            )
        )

    def configs(self, study_id: int) -> list[StoredConfig]:
        """The configurations of a study, in the order in which it took them up."""
        query = sa.select(CONFIGS).where(CONFIGS.c.study_id == study_id).order_by(CONFIGS.c.id)
        return self._records(config_of, self._rows(query))

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
        owner: str = "",
        energy: EnergyModel | None = None,
    ) -> None:
        """Commit one trial, and with it end ``owner``'s claim on what it measured.

        Its energy is the one by ``energy``, the study's model; None: the default. Of an ``origin``
        that names a class or has options the short name is kept (`short_name`), as far as it fits.
        """
        row = trial_row(request, measurement, oracle, energy)
        who = short_name(origin)[:ORIGIN_LETTERS]
        row |= {"study_id": study_id, "sequence": sequence, "task": task, "origin": who}

        def add(connection: sa.Connection) -> None:
            try:
                connection.execute(_INSERT_TRIAL, row)
            except IntegrityError as error:
                raise DuplicateTrialError(
                    "the study already holds this trial", field=self.name, value=sequence
                ) from error
            if owner:
                connection.execute(_END_CLAIM, {"done": row["key"], "by": owner})

        self._database.write(add)

    def trials(self, study_id: int) -> list[StoredTrial]:
        """The trials of a study in proposal order."""
        mine = sa.select(TRIALS).where(TRIALS.c.study_id == study_id)
        query = mine.order_by(TRIALS.c.sequence)
        return self._records(trial_of, self._rows(query))

    def each_trial(self, study_id: int, *, at_a_time: int = 2000) -> Iterator[StoredTrial]:
        """`trials`, of which no more than so many are in memory."""
        last = -1
        mine = sa.select(TRIALS).where(TRIALS.c.study_id == study_id).order_by(TRIALS.c.sequence)
        while rows := self._rows(mine.where(TRIALS.c.sequence > last).limit(at_a_time)):
            yield from self._records(trial_of, rows)
            last = rows[-1].sequence

    def trial(self, study_id: int, sequence: int) -> StoredTrial | None:
        """One trial of a study, if it is stored."""
        query = sa.select(TRIALS).where(
            TRIALS.c.study_id == study_id, TRIALS.c.sequence == sequence
        )
        return next(iter(self._records(trial_of, self._rows(query))), None)

    def summary(self, study_id: int) -> TrialSummary:
        """The trials of a study in figures, worked out by the database."""
        with values_from(self.name):
            return self._database.read(lambda connection: summarise(connection, study_id))

    def front(self, study_id: int) -> list[StoredTrial]:
        """Valid trials that no other of their task and configuration beats in cycles and energy."""
        return self._records(trial_of, self._database.read(lambda c: front(c, study_id)))

    def untuned(self, study_id: int, config_hash: str) -> list[StoredTrial]:
        """Valid trials of untuned schedules on a configuration, in proposal order."""
        rows = self._database.read(lambda c: untuned(c, study_id, config_hash))
        return self._records(trial_of, rows)

    def failures(
        self, study_id: int, limit: int, *, status: Status | None = None
    ) -> list[StoredTrial]:
        """The first trials that were not measured, or those of one status."""
        rows = self._database.read(lambda c: failures(c, study_id, limit, status=status))
        return self._records(trial_of, rows)

    def fastest(self, config_hash: str) -> list[StoredTrial]:
        """The fastest valid trial of each workload and memory on a configuration, of any study.

        The earliest of equals; in the order of studies and their trials.
        """
        rows = self._database.read(lambda connection: fastest(connection, config_hash))
        return self._records(trial_of, rows)

    def numbers(self, study_id: int) -> dict[tuple[str, str, str], int]:
        """Sequence number of each trial of a study, by task, configuration and schedule's text."""
        columns = (TRIALS.c.task, TRIALS.c.config_hash, TRIALS.c.schedule, TRIALS.c.sequence)
        mine = sa.select(*columns).where(TRIALS.c.study_id == study_id)
        rows: Sequence[Any] = self._rows(mine)
        return {(task, key, text): number for task, key, text, number in rows}

    def sequence_of(
        self, study_id: int, *, task: str, config_hash: str, schedule: str
    ) -> int | None:
        """Where a study has a trial, by the text of its schedule; None: nowhere."""
        query = sa.select(TRIALS.c.sequence).where(
            TRIALS.c.study_id == study_id,
            TRIALS.c.task == task,
            TRIALS.c.config_hash == config_hash,
            TRIALS.c.schedule == schedule,
        )
        return next((int(row[0]) for row in self._rows(query)), None)

    def board_runs(self, study_id: int) -> list[BoardRuns]:
        """What the measurements of a study on boards rest on, in the order of the trials."""
        query = sa.select(TRIALS.c.runs).where(
            TRIALS.c.study_id == study_id, TRIALS.c.runs.is_not(None)
        )
        rows = self._rows(query.order_by(TRIALS.c.sequence))
        return self._records(lambda row: board_runs_of(row.runs), rows)

    def measured(self, keys: Iterable[str]) -> dict[str, list[Measurement]]:
        """What any study measured under some keys (`trial_key`), oldest first; no failures.

        What a study took from an earlier one is not told again: a store of a thousand studies has
        a thousand copies of what all of them begin with.
        """
        query = (
            sa.select(TRIALS)
            .where(
                TRIALS.c.key.in_(sorted(set(keys))),
                TRIALS.c.status.in_([Status.OK.value, Status.TIMEOUT.value]),
                TRIALS.c.cached == sa.false(),
            )
            .order_by(TRIALS.c.id)
        )
        found: dict[str, list[Measurement]] = {}
        rows = self._rows(query)
        for row, measurement in zip(rows, self._records(measurement_of, rows), strict=True):
            found.setdefault(row.key, []).append(measurement)
        return found

    # -- claims -----------------------------------------------------------------------------

    def claim(self, keys: Iterable[str], owner: str, *, seconds: int) -> set[str]:
        """Announce measurements; of several processes that want one, a single one gets it."""
        rows = [
            {"key": key, "owner": owner, "expires": self._clock() + seconds}
            for key in sorted(set(keys))  # in one order everywhere: no deadlock on a server
        ]
        if not rows:
            return set()
        insert = self._insert(CLAIMS).values(rows)
        free = (CLAIMS.c.expires < self._clock()) | (CLAIMS.c.owner == owner)
        take = insert.on_conflict_do_update(
            index_elements=[CLAIMS.c.key],
            set_={"owner": insert.excluded.owner, "expires": insert.excluded.expires},
            where=free,
        ).returning(CLAIMS.c.key)
        return self._database.write(lambda connection: set(connection.execute(take).scalars()))

    def claimants(self, keys: Iterable[str]) -> set[str]:
        """Owners of the claims on some keys."""
        query = sa.select(CLAIMS.c.owner).where(CLAIMS.c.key.in_(sorted(set(keys))))
        return {row[0] for row in self._rows(query)}

    def renew(self, owner: str, *, seconds: int) -> None:
        """Put off the end of every claim of an owner; fails at once, to be called again."""
        mine = CLAIMS.update().where(CLAIMS.c.owner == owner)
        self._execute(mine.values(expires=self._clock() + seconds), patient=False)

    def release(
        self, owner: str, keys: Iterable[str] | None = None, *, patient: bool = True
    ) -> None:
        """End claims of an owner: those on some keys, or all."""
        mine = CLAIMS.delete().where(CLAIMS.c.owner == owner)
        if keys is not None:
            mine = mine.where(CLAIMS.c.key.in_(sorted(set(keys))))
        self._execute(mine, patient=patient)

    def _rows(self, query: sa.Select[Any]) -> Sequence[sa.Row[Any]]:
        return self._database.read(lambda connection: connection.execute(query).all())

    def _records(self, kind: Callable[[Any], R], rows: Sequence[Any]) -> list[R]:
        """Rows as records: no value gets out of the store that no command writes."""
        with values_from(self.name):
            return [kind(row) for row in rows]

    def _execute(self, statement: sa.Executable, *, patient: bool = True) -> None:
        self._database.write(lambda connection: connection.execute(statement), patient=patient)

    def _clock(self) -> Any:
        """Seconds on the clock of the database: the writers' own clocks may differ."""
        if self._database.dialect == "postgresql":
            return sa.cast(sa.extract("epoch", sa.func.clock_timestamp()), sa.BigInteger)
        return sa.cast(sa.func.strftime("%s", "now"), sa.BigInteger)

    def _insert(self, table: sa.Table) -> Any:
        """An INSERT that can say what happens on a conflict; both dialects say it alike."""
        if self._database.dialect == "postgresql":
            from sqlalchemy.dialects import postgresql  # noqa: PLC0415  (only where it is used)

            return postgresql.insert(table)
        from sqlalchemy.dialects import sqlite  # noqa: PLC0415  (of this database alone)

        return sqlite.insert(table)


def _innermost(
    keys: Iterable[str], old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """Names and values of what differs inside settings that consist of others."""
    for key in keys:
        was, now = old.get(key), new.get(key)
        if isinstance(was, Mapping) and isinstance(now, Mapping):
            inner = sorted(k for k in was.keys() | now.keys() if was.get(k) != now.get(k))
            yield from _innermost(inner, was, now, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", was, now
