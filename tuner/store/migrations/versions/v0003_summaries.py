# SPDX-License-Identifier: Apache-2.0
"""Whether a trial is valid, and its energy, beside it; an index from which reports are made."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

from tilewright.tuner.store.records import energy_of

revision = "0003"
down_revision = "0002"

BATCH: Final = 1000
"""Rows that get their energy in one statement."""


def upgrade() -> None:
    """Add the columns, fill them, and index what a report counts."""
    op.add_column(
        "trials", sa.Column("valid", sa.Boolean, nullable=False, server_default=sa.false())
    )
    op.add_column("trials", sa.Column("energy_pj", sa.Float))
    _fill()
    op.drop_index("ix_trials_study_id", "trials")
    op.create_index(
        "ix_trials_summary",
        "trials",
        ["study_id", "valid", "config_hash", "task", "sequence", "cycles", "energy_pj", "status",
         "cached", "origin"],
    )  # fmt: skip


def _fill() -> None:
    names = ("hw", "counters", "fidelity", "cycles", "status", "output_checked")
    trials = sa.table(
        "trials",
        sa.column("id"),
        sa.column("valid", sa.Boolean),
        sa.column("energy_pj"),
        sa.column("output_checked", sa.Boolean),
        *(sa.column(name) for name in names if name != "output_checked"),
    )
    parts = [trials.c[name] for name in names]
    valid = (
        (trials.c.status == "ok")
        & trials.c.cycles.is_not(None)
        & (trials.c.output_checked | trials.c.fidelity.in_(["timing", "twin"]))
    )
    connection = op.get_bind()
    last = -1
    while True:
        query = sa.select(trials.c.id, *parts).where(trials.c.id > last, valid)
        rows = connection.execute(query.order_by(trials.c.id).limit(BATCH)).all()
        if not rows:
            return
        connection.execute(
            trials.update()
            .where(trials.c.id == sa.bindparam("row"))
            .values(valid=sa.true(), energy_pj=sa.bindparam("energy")),
            [{"row": row[0], "energy": energy_of(row[1], row[2])} for row in rows],
        )
        last = rows[-1][0]
