# SPDX-License-Identifier: Apache-2.0
"""What Alembic executes: migrate over the connection, and in the transaction, of the caller."""

from __future__ import annotations

from alembic import context

from tilewright.tuner.store.schema import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    # SQLite can roll DDL back; `store_database` opens the transaction that pysqlite would not.
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
