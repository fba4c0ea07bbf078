# SPDX-License-Identifier: Apache-2.0
"""Which operators run on the accelerator: the model in TVM Relax, its regions and what they cost.

A region becomes a graph of `lower.qgraph`; the rest stays a Relax module for the CPU.
May import `quantise`, `read` and `lower`, which prices a layer.
"""
