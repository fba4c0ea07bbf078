# SPDX-License-Identifier: Apache-2.0
"""Synthesis, place and route, and the record of their results.

Imports `tools` and `verilator`.
"""
