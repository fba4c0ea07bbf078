# SPDX-License-Identifier: Apache-2.0
"""Tuners without a fitted model: random, coordinate descent, genetic, guided by a prior."""
