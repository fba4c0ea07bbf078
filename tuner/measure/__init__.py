# SPDX-License-Identifier: Apache-2.0
"""Measurements: a point, a fidelity and what came out.

Imports no other room of the tuner.
"""
