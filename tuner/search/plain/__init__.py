# SPDX-License-Identifier: Apache-2.0
"""Searches without a model: random, coordinate descent, genetic, guided by a prior."""
