# SPDX-License-Identifier: Apache-2.0
"""Trials are found by one key, measurements are claimed while they run, names have no length."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

from tilewright.tuner.store.schema import trial_key

revision = "0002"
down_revision = "0001"

BATCH: Final = 1000
"""Rows that get their key in one statement."""


def upgrade() -> None:
    """Add keys and claims, and leave the version to Alembic."""
    op.add_column("trials", sa.Column("key", sa.String(32)))
    _fill_keys()
    op.drop_index("trial_identity", "trials")
    with op.batch_alter_table("trials") as trials:
        trials.alter_column("key", existing_type=sa.String(32), nullable=False)
        trials.alter_column("task", existing_type=sa.String(200), type_=sa.Text)
        trials.alter_column("oracle", existing_type=sa.String(200), type_=sa.Text)
    op.create_index("ix_trials_key", "trials", ["key"])
    with op.batch_alter_table("studies") as studies:
        studies.alter_column("name", existing_type=sa.String(200), type_=sa.Text)
    op.create_table(
        "claims",
        sa.Column("key", sa.String(32), primary_key=True),
        sa.Column("owner", sa.String(100), nullable=False, index=True),
        sa.Column("expires", sa.BigInteger, nullable=False),
    )
    op.drop_table("schema_version")


def _fill_keys() -> None:
    names = ("oracle", "config_hash", "workload_key", "schedule", "memory")
    trials = sa.table("trials", sa.column("id"), sa.column("key"), *map(sa.column, names))
    parts = [trials.c[name] for name in names]
    connection = op.get_bind()
    last = -1
    while True:
        query = sa.select(trials.c.id, *parts).where(trials.c.id > last)
        rows = connection.execute(query.order_by(trials.c.id).limit(BATCH)).all()
        if not rows:
            return
        connection.execute(
            trials.update()
            .where(trials.c.id == sa.bindparam("row"))
            .values(key=sa.bindparam("new")),
            [{"row": row[0], "new": trial_key(**dict(zip(names, row[1:], strict=True)))}
             for row in rows],
        )  # fmt: skip
        last = rows[-1][0]
