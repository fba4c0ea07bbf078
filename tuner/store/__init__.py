# SPDX-License-Identifier: Apache-2.0
"""Trials on disk: SQLite or PostgreSQL, one schema, every trial with all that repeats it.

Imports `measure`.
"""
