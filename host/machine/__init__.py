# SPDX-License-Identifier: Apache-2.0
"""The accelerator as the host sees it: parameters, instructions, registers, boards, area.

The one source of truth: SystemVerilog and C++ are generated from here. Imports `common`.
"""
