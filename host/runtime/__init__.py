# SPDX-License-Identifier: Apache-2.0
"""How a program reaches a device: the device contract, the driver, Pynq boards, the agent.

Imports `machine` and `common`.
"""
