# SPDX-License-Identifier: Apache-2.0
"""Lowering: a workload and a schedule become a program of direct convolution by micro-ops."""

from tilewright.host.lowering.default import default_schedule
from tilewright.host.lowering.layer import LoweredLayer, legal, lower
from tilewright.host.lowering.plan import Legality

__all__ = ["Legality", "LoweredLayer", "default_schedule", "legal", "lower"]
