# SPDX-License-Identifier: Apache-2.0
"""From a region of the graph to one program: fusing, layers, memory, instructions.

Needs neither TVM nor PyTorch. Imports no other room of the compiler.
"""
