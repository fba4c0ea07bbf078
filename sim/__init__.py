# SPDX-License-Identifier: Apache-2.0
"""Devices without a board: the RTL in Verilator, its exact twin, and the reference.

Rooms, lowest first: `tools`, `reference` (what a program computes) and `verilator` (the RTL),
`twin` (exact cycle counts without the RTL), `executor` (jobs in processes) and `synth`, `verify`
(checks of the RTL). Imports `host`, and nothing of `tuner`.
"""
