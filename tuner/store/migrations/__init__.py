# SPDX-License-Identifier: Apache-2.0
"""Alembic migrations of the trial store; `store_database` runs them when it opens an old store."""
