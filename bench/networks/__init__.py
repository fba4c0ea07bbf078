# SPDX-License-Identifier: Apache-2.0
"""Whole networks: those of examples/networks, and the zoo of other architectures."""
