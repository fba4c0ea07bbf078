# SPDX-License-Identifier: Apache-2.0
"""Runs lowered layers on the reference and checks what every one of them must keep."""

from typing import Any

import numpy as np
from support.programs.hazards import check_hazards
from support.randomness import where

from tilewright.host.lowering.layer import LoweredLayer
from tilewright.host.runtime.device import RunResult
from tilewright.sim.reference.device import ReferenceDevice


def checked(low: Any, image: np.ndarray, expected: np.ndarray) -> RunResult:
    """The run of a layer: no races, its work is what lowering says, its result what is expected."""
    check_hazards(low.hw, low.program, image)
    result = ReferenceDevice(low.hw).run(low.program, image)
    layer = {name: getattr(low, name, None) for name in ("workload", "schedule", "shape")}
    facts = where(hw=low.hw.parameters(), **layer)
    assert np.array_equal(low.output(result.memory), expected), facts
    if isinstance(low, LoweredLayer):
        for name in ("macs_tiles", "bytes_read", "bytes_written"):
            assert result.counters[name] == getattr(low, name), facts
    return result
