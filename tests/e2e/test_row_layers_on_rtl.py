# SPDX-License-Identifier: Apache-2.0
"""Softmax and layer normalisation on RTL, `dpi` and twin: equal bits, equal cycles."""

from contextlib import closing

import numpy as np
import pytest
from support.networks.rows import masked_softmax, some_function

from tilewright.host.lowering.row_layers import compute_rows, lower_rows
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.row_functions import RowFunction, Softmax, mask_scale
from tilewright.sim.devices import open_simulated


@pytest.mark.parametrize("kind", ["softmax", "layer norm", "masked", "masked at run time"])
def test_every_fidelity_computes_rows_alike(kind: str) -> None:
    hw = load_hwconfig("tiny-4x4").with_(row_unit=1)
    rng = np.random.default_rng(3)
    shape = (1, 23, 3, 30)
    mask = None
    if kind == "masked at run time":
        function: RowFunction = Softmax.of(0.1, mask_scale=mask_scale(0.1))
        mask = np.where(rng.random((1, shape[1], 1, 1)) < 0.4, -128, 0).astype(np.int8)
    else:
        masked = kind == "masked"
        function = masked_softmax(shape, rng) if masked else some_function(kind, shape[1], rng)
    data = rng.integers(-128, 128, shape).astype(np.int8)
    lowered = lower_rows(hw, shape, function)
    memory = lowered.image(data, mask)
    cycles = set()
    for fidelity in ("rtl", "dpi", "twin"):
        with closing(open_simulated(fidelity, hw, load_memory("pynq-z2"))) as device:
            result = device.run(lowered.program, memory)
        cycles.add(result.counters.cycles)
        if fidelity != "twin":
            expected = compute_rows(data, function, mask)
            assert (lowered.output(result.memory) == expected).all()
    assert len(cycles) == 1
