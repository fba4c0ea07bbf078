# SPDX-License-Identifier: Apache-2.0
"""A small detector like YOLOv8 on RTL and `dpi`: one region, the same bits."""

from __future__ import annotations

from contextlib import closing

import numpy as np
from support.detector_models import detector

from tilewright.host.compiler.pipeline import compile_model
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.run.runtime import run_network
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.devices import open_simulated
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.twin.network_timing import time_network


def test_every_fidelity_computes_a_detector_alike() -> None:
    hw = load_hwconfig("tiny-4x4").with_(row_unit=1, activation_table=1)
    board = load_board("pynq-z2")
    options = {"calibration": Calibration(random_samples=2), "offload_all": True}
    network = compile_model(detector(np.random.default_rng(3)), hw, board, **options).network
    assert len(network.regions) == 1
    data = {"x": np.random.default_rng(4).normal(size=(1, 3, 8, 8)).astype(np.float32)}
    (expected,) = run_network(network, ReferenceDevice(hw), data, trusted=True).outputs.values()
    cycles = {time_network(network, board.memory).cycles}
    for fidelity in ("rtl", "dpi"):
        with closing(open_simulated(fidelity, hw, board.memory)) as device:
            run = run_network(network, device, data, trusted=True)
        (found,) = run.outputs.values()
        assert np.array_equal(found, expected)
        cycles.add(run.cycles)
    assert len(cycles) == 1
