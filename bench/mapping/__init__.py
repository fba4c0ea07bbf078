# SPDX-License-Identifier: Apache-2.0
"""The cost model of mappings against other programs: SCALE-Sim, ZigZag, MAESTRO, and our own RTL.

Scripts named ``*_runs`` run another program in an environment of its own and import nothing of
ours; what they print is kept as data of the tests.
"""
