# SPDX-License-Identifier: Apache-2.0
"""A compiled network on a device: its programs there, the CPU's operators in a child process.

The child has limits of memory and time, because a `.tw` file may come from anybody.
May import `pack` and the rooms below it.
"""
