# SPDX-License-Identifier: Apache-2.0
"""Tables of the trial store, alike on SQLite and PostgreSQL."""

from __future__ import annotations

import hashlib
import json
from typing import Final

import sqlalchemy as sa

REVISION: Final = "0004"
"""Version of the tables below; a store of another one is refused."""

ORIGIN_LETTERS: Final = 20
"""Of who proposed a trial: PostgreSQL refuses more."""

METADATA: Final = sa.MetaData()

STUDIES: Final = sa.Table(
    "studies",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("settings", sa.Text, nullable=False),
    sa.Column("versions", sa.Text, nullable=False),
    sa.Column("status", sa.String(20), nullable=False),
    sa.Column("created", sa.String(40), nullable=False),
)

CONFIGS: Final = sa.Table(
    "configs",
    METADATA,
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

TRIALS: Final = sa.Table(
    "trials",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("study_id", sa.ForeignKey("studies.id"), nullable=False),
    sa.Column("sequence", sa.Integer, nullable=False),
    sa.Column("task", sa.Text, nullable=False),
    sa.Column("origin", sa.String(ORIGIN_LETTERS), nullable=False),
    sa.Column("config_hash", sa.String(8), nullable=False),
    sa.Column("hw", sa.Text, nullable=False),
    sa.Column("workload_key", sa.String(32), nullable=False),
    sa.Column("workload", sa.Text, nullable=False),
    sa.Column("schedule", sa.Text, nullable=False),
    sa.Column("memory", sa.Text, nullable=False),
    sa.Column("fidelity", sa.String(20), nullable=False),
    sa.Column("oracle", sa.Text, nullable=False),
    sa.Column("status", sa.String(20), nullable=False),
    sa.Column("cycles", sa.BigInteger),
    sa.Column("counters", sa.Text, nullable=False),
    sa.Column("failure", sa.Text, nullable=False),
    sa.Column("limit_cycles", sa.BigInteger, nullable=False),
    sa.Column("host_seconds", sa.Float, nullable=False),
    sa.Column("output_checked", sa.Boolean, nullable=False),
    sa.Column("cached", sa.Boolean, nullable=False),
    sa.Column("created", sa.String(40), nullable=False),
    # What was measured, by whatever study: see `trial_key`.
    sa.Column("key", sa.String(32), nullable=False, index=True),
    # `Measurement.valid`, and the energy of a valid run: what reports are made of.
    sa.Column("valid", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("energy_pj", sa.Float),
    # What a board's measurement rests on (`BoardRuns`); NULL: a fidelity that repeats exactly.
    sa.Column("runs", sa.Text),
    sa.UniqueConstraint("study_id", "task", "config_hash", "schedule"),
    sa.UniqueConstraint("study_id", "sequence"),
    # All that `store_summary` reads, in its order: a report does not touch the trials themselves.
    sa.Index(
        "ix_trials_summary",
        "study_id", "valid", "config_hash", "task", "sequence", "cycles", "energy_pj", "status",
        "cached", "origin",
    ),
)  # fmt: skip

CLAIMS: Final = sa.Table(
    "claims",
    METADATA,
    # Who is measuring a key right now; a row lives only while the measurement runs.
    sa.Column("key", sa.String(32), primary_key=True),
    sa.Column("owner", sa.String(100), nullable=False, index=True),
    sa.Column("expires", sa.BigInteger, nullable=False),
)

REVISIONS: Final = sa.Table(
    "alembic_version",
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
"""Holds `REVISION`, under the name that tools for migrations look for."""


def trial_key(
    *, oracle: str, config_hash: str, workload_key: str, schedule: str, memory: str
) -> str:
    """Identity of a measurement: 32 hexadecimal digits over everything that cycles depend on.

    The oracle's identity covers the sources of what measures and of the lowering; with them,
    configuration, workload and schedule determine the program.
    """
    text = json.dumps([oracle, config_hash, workload_key, schedule, memory])
    return hashlib.sha256(text.encode()).hexdigest()[:32]
