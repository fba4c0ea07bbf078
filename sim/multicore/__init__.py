# SPDX-License-Identifier: Apache-2.0
"""Systems of several cores: their generated top, their simulation, programs on them.

May import host and what sim has for one core (verilator, reference, tools).
"""
