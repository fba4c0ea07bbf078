# SPDX-License-Identifier: Apache-2.0
"""Programs that are not ours: finding Verilator and Yosys, and the cache of what they build.

Imports nothing else of `sim`.
"""
