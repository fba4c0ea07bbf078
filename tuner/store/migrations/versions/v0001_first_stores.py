# SPDX-License-Identifier: Apache-2.0
"""Tables of the first stores, which were SQLite files with a table ``schema_version``."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables as they were."""
    op.create_table("schema_version", sa.Column("version", sa.Integer, nullable=False))
    op.create_table(
        "studies",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(200), nullable=False, unique=True),
        sa.Column("settings", sa.Text, nullable=False),
        sa.Column("versions", sa.Text, nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("created", sa.String(40), nullable=False),
    )
    op.create_table(
        "configs",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("study_id", sa.Integer, sa.ForeignKey("studies.id"), nullable=False, index=True),
        sa.Column("config_hash", sa.String(8), nullable=False),
        sa.Column("hw", sa.Text, nullable=False),
        sa.Column("area", sa.Text, nullable=False),
        sa.Column("bounds", sa.Text, nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.UniqueConstraint("study_id", "config_hash"),
    )
    op.create_table(
        "trials",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("study_id", sa.Integer, sa.ForeignKey("studies.id"), nullable=False, index=True),
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
    )
    op.create_index("trial_identity", "trials", ["config_hash", "workload_key", "schedule"])
