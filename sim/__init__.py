# SPDX-License-Identifier: Apache-2.0
"""Simulated devices: functional reference, Verilator, memory models."""
