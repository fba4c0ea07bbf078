# SPDX-License-Identifier: Apache-2.0
"""Whole spaces: exhaustive tables and certified optima.

Imports `schedule`, `measure` and `search`.
"""
