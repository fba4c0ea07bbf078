# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of many networks on many cores: every group mapper at equal budgets."""
