# SPDX-License-Identifier: Apache-2.0
"""Lowering in C++: the same programs as `host.lowering`, for the inner loop of a search.

`sim.twin` compiles and binds it. It may use what `host.lowering` may.
"""
