# SPDX-License-Identifier: Apache-2.0
"""Running a compiled network: programs on a device, the CPU part in a child process.

Imports `pack` and what is before it.
"""
