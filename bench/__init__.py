# SPDX-License-Identifier: Apache-2.0
"""Benchmarks: every figure of the documents comes from a program here.

Nothing of the product imports it. `arena` compares tuners.
"""
