# SPDX-License-Identifier: Apache-2.0
"""Which operators run on the accelerator: TVM's graph, its regions and what they cost.

Imports `read` and the graph of `lower`.
"""
