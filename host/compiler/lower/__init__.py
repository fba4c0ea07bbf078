# SPDX-License-Identifier: Apache-2.0
"""From a region's graph to one program: fusing, layers, integer arithmetic, memory, instructions.

What a compiled network needs to run on a device, so neither TVM nor PyTorch is imported here.
May import `host.lowering`, `host.runtime.device` and below, and `read`.
"""
