# SPDX-License-Identifier: Apache-2.0
"""Softmax and layer normalisation on RTL, `dpi` and twin: equal bits, equal cycles."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
from support.rows import masked_softmax, some_function

from tilewright.host.lowering.row_layers import compute_rows, lower_rows
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.devices import open_simulated


@pytest.mark.parametrize("kind", ["softmax", "layer norm", "masked"])
def test_every_fidelity_computes_rows_alike(kind: str) -> None:
    hw = load_hwconfig("tiny-4x4").with_(row_unit=1)
    rng = np.random.default_rng(3)
    shape = (1, 23, 3, 30)
    masked = kind == "masked"
    function = masked_softmax(shape, rng) if masked else some_function(kind, shape[1], rng)
    data = rng.integers(-128, 128, shape).astype(np.int8)
    lowered = lower_rows(hw, shape, function)
    memory = lowered.image(data)
    cycles = set()
    for fidelity in ("rtl", "dpi", "twin"):
        with closing(open_simulated(fidelity, hw, load_memory("pynq-z2"))) as device:
            result = device.run(lowered.program, memory)
        cycles.add(result.counters.cycles)
        if fidelity != "twin":
            assert (lowered.output(result.memory) == compute_rows(data, function)).all()
    assert len(cycles) == 1
