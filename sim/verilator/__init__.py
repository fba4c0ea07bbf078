# SPDX-License-Identifier: Apache-2.0
"""Devices that simulate the RTL: builds at every fidelity, their libraries and their drivers.

Imports `tools`.
"""
