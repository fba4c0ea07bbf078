# SPDX-License-Identifier: Apache-2.0
"""The twin: exact cycle counts without the RTL, in C++ at the granularity of bursts.

Imports `multicore`, `reference`, `verilator` and `tools`.
"""
