# SPDX-License-Identifier: Apache-2.0
"""Every study as a command: importing its settings registers it."""

from __future__ import annotations

from tilewright.bench.accuracy import settings as accuracy
from tilewright.bench.allocate import settings as allocate
from tilewright.bench.arena import front_settings as fronts
from tilewright.bench.arena import settings as arena
from tilewright.bench.framework.commands import studies
from tilewright.bench.hardware import settings as hardware
from tilewright.bench.mapping import settings as mapping
from tilewright.bench.multicore import settings as multicore
from tilewright.bench.networks import settings as networks
from tilewright.bench.speed import settings as speed

__all__ = [
    "accuracy",
    "allocate",
    "arena",
    "fronts",
    "hardware",
    "mapping",
    "multicore",
    "networks",
    "speed",
    "studies",
]  # fmt: skip
