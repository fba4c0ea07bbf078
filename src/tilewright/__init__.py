# SPDX-License-Identifier: Apache-2.0
"""Tilewright: hardware-in-the-loop co-simulation and co-design of an int8 GEMM accelerator."""

__version__ = "0.1.0"
