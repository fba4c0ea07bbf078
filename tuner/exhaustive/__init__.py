# SPDX-License-Identifier: Apache-2.0
"""Whole spaces: the cycles of every legal schedule, and certified optima.

Imports `schedule`, `measure` and `search`.
"""
