# SPDX-License-Identifier: Apache-2.0
"""Calibration: the memory model of a board, fitted to what its boards count.

Imports `measure` and `schedule`.
"""
