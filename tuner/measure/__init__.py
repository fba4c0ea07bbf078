# SPDX-License-Identifier: Apache-2.0
"""Measuring: an oracle turns a point into cycles at a stated fidelity.

Imports no other room of the tuner.
"""
