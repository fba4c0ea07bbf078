# SPDX-License-Identifier: Apache-2.0
"""Lowering: a workload and a schedule become a program.

`layer` has `lower` and `legal`, which the rest of Tilewright calls. `plan` decides what is legal,
`walk` orders the work, `emit` writes instructions. Imports `network`, `machine` and `common`.
"""

from tilewright.host.lowering.default import default_schedule
from tilewright.host.lowering.layer import LoweredLayer, legal, lower
from tilewright.host.lowering.legality import Legality
from tilewright.host.lowering.operands import random_operands

__all__ = ["Legality", "LoweredLayer", "default_schedule", "legal", "lower", "random_operands"]
