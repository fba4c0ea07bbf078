# SPDX-License-Identifier: Apache-2.0
"""What the database itself works out of a study's trials, so that a million of them are no load.

Every query of a study but `failures` reads index ``ix_trials_summary`` alone; rows come back for
what is shown: improvements, networks of the front, the first failures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from tilewright.host.common.plain_values import plain
from tilewright.tuner.measure.measurement import Status
from tilewright.tuner.store.schema import TRIALS

_WHOLE: Final = plain(int)

Arm = tuple[str, str]
"""Configuration and task."""


@dataclass(frozen=True, kw_only=True)
class Improvement:
    """A valid trial that is faster than all earlier ones of its task on its configuration."""

    sequence: int
    config_hash: str
    task: str
    cycles: int


@dataclass(frozen=True, kw_only=True)
class TrialSummary:
    """The trials of a study in figures.

    Attributes:
        trials, valid: how many, by configuration and task.
    """

    trials: Mapping[Arm, int]
    valid: Mapping[Arm, int]
    statuses: Mapping[str, int]  # how many, by status
    cached: int  # answers that came from earlier studies
    last: Mapping[str, int]  # greatest sequence number of each configuration
    improvements: Sequence[Improvement]  # in proposal order

    @property
    def count(self) -> int:
        """All trials."""
        return sum(self.trials.values())

    def best(self) -> dict[Arm, Improvement]:
        """The fastest valid trial of each task on each configuration, the earliest of equals."""
        return {(each.config_hash, each.task): each for each in self.improvements}


def summarise(connection: sa.Connection, study_id: int) -> TrialSummary:
    """Count a study's trials and find its improvements."""
    trials: dict[Arm, int] = {}
    valid: dict[Arm, int] = {}
    statuses: dict[str, int] = {}
    last: dict[str, int] = {}
    cached = 0
    for row in connection.execute(_COUNTS, {"study": study_id}):
        arm = (row.config_hash, row.task)
        trials[arm] = trials.get(arm, 0) + row.trials
        if row.valid:
            valid[arm] = valid.get(arm, 0) + row.trials
        statuses[row.status] = statuses.get(row.status, 0) + row.trials
        last[row.config_hash] = max(last.get(row.config_hash, 0), row.last)
        cached += int(row.cached)
    rows = connection.execute(_IMPROVEMENTS, {"study": study_id})
    return TrialSummary(
        trials=trials,
        valid=valid,
        statuses=statuses,
        cached=cached,
        last=last,
        improvements=[
            Improvement(sequence=_WHOLE(s), config_hash=h, task=t, cycles=_WHOLE(c))
            for s, h, t, c in rows
        ],
    )


def front(connection: sa.Connection, study_id: int) -> Sequence[sa.Row[Any]]:
    """Valid trials that no other one of their task and configuration beats in cycles and energy."""
    return connection.execute(_FRONT, {"study": study_id}).all()


def failures(
    connection: sa.Connection, study_id: int, limit: int, *, status: Status | None = None
) -> Sequence[sa.Row[Any]]:
    """The first trials that were not measured, or those of one status."""
    wanted = TRIALS.c.status != Status.OK.value
    if status is not None:
        wanted = TRIALS.c.status == status.value
    numbers = (
        sa.select(TRIALS.c.id)
        .where(TRIALS.c.study_id == study_id, TRIALS.c.valid == sa.false(), wanted)
        .order_by(TRIALS.c.sequence)
        .limit(limit)
    )
    query = sa.select(TRIALS).where(TRIALS.c.id.in_(numbers)).order_by(TRIALS.c.sequence)
    return connection.execute(query).all()


def untuned(connection: sa.Connection, study_id: int, config_hash: str) -> Sequence[sa.Row[Any]]:
    """Valid trials of untuned schedules on a configuration, in proposal order."""
    query = (
        sa.select(TRIALS)
        .where(
            TRIALS.c.study_id == study_id,
            TRIALS.c.valid == sa.true(),
            TRIALS.c.config_hash == config_hash,
            TRIALS.c.origin == "default",
        )
        .order_by(TRIALS.c.sequence)
    )
    return connection.execute(query).all()


def fastest(connection: sa.Connection, config_hash: str) -> Sequence[sa.Row[Any]]:
    """Of every study the fastest valid trial of each workload and memory on a configuration."""
    return connection.execute(_FASTEST, {"config": config_hash}).all()


_MINE: Final = TRIALS.c.study_id == sa.bindparam("study")
_VALID: Final = TRIALS.c.valid == sa.true()
_ARM: Final = (TRIALS.c.config_hash, TRIALS.c.task)

_COUNTS: Final = (
    sa.select(
        *_ARM,
        TRIALS.c.valid,
        TRIALS.c.status,
        sa.func.count().label("trials"),
        sa.func.sum(sa.cast(TRIALS.c.cached, sa.Integer)).label("cached"),
        sa.func.max(TRIALS.c.sequence).label("last"),
    )
    .where(_MINE)
    .group_by(TRIALS.c.valid, *_ARM, TRIALS.c.status)
)

_SO_FAR: Final = sa.select(
    TRIALS.c.sequence,
    *_ARM,
    TRIALS.c.cycles,
    sa.func.min(TRIALS.c.cycles)
    .over(partition_by=_ARM, order_by=TRIALS.c.sequence, rows=(None, -1))
    .label("best"),
).where(_MINE, _VALID).subquery()  # fmt: skip

_IMPROVEMENTS: Final = (
    sa.select(_SO_FAR.c.sequence, _SO_FAR.c.config_hash, _SO_FAR.c.task, _SO_FAR.c.cycles)
    .where(sa.or_(_SO_FAR.c.best.is_(None), _SO_FAR.c.cycles < _SO_FAR.c.best))
    .order_by(_SO_FAR.c.sequence)
)

_BY_CYCLES: Final = sa.select(
    TRIALS.c.id,
    TRIALS.c.energy_pj,
    sa.func.min(TRIALS.c.energy_pj)
    .over(
        partition_by=_ARM,
        order_by=(TRIALS.c.cycles, TRIALS.c.energy_pj, TRIALS.c.sequence),
        rows=(None, -1),
    )
    .label("least"),
).where(_MINE, _VALID, TRIALS.c.energy_pj.is_not(None)).subquery()  # fmt: skip

_FRONT: Final = (
    sa.select(TRIALS)
    .join(_BY_CYCLES, _BY_CYCLES.c.id == TRIALS.c.id)
    .where(sa.or_(_BY_CYCLES.c.least.is_(None), _BY_CYCLES.c.energy_pj < _BY_CYCLES.c.least))
    .order_by(TRIALS.c.sequence)
)

_PLACES: Final = sa.select(
    TRIALS.c.id,
    sa.func.row_number()
    .over(
        partition_by=(TRIALS.c.workload_key, TRIALS.c.memory),
        order_by=(TRIALS.c.cycles, TRIALS.c.study_id, TRIALS.c.sequence),
    )
    .label("place"),
).where(TRIALS.c.config_hash == sa.bindparam("config"), _VALID).subquery()  # fmt: skip

_FASTEST: Final = (
    sa.select(TRIALS)
    .join(_PLACES, _PLACES.c.id == TRIALS.c.id)
    .where(_PLACES.c.place == 1)
    .order_by(TRIALS.c.study_id, TRIALS.c.sequence)
)
