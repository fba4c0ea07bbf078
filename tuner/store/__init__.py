# SPDX-License-Identifier: Apache-2.0
"""Trials on disk, in SQLite or PostgreSQL; each trial holds all that is needed to repeat it.

Imports `measure`.
"""
