# SPDX-License-Identifier: Apache-2.0
"""A small model that runs whole on the accelerator, at every fidelity alike."""

from contextlib import closing

import numpy as np
import onnx

from tilewright.host.compiler.pack.artefact import CompiledNetwork
from tilewright.host.compiler.pipeline import compile_model
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.run.runtime import run_network
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.sim.devices import open_simulated
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.twin.network_timing import time_network


def every_fidelity_agrees(
    model: onnx.ModelProto, hw: HwConfig, shape: tuple[int, ...]
) -> CompiledNetwork:
    """Compile a model of one input ``x``, as one region, and run it.

    RTL, `dpi` and the reference compute the same bits; RTL, `dpi` and the twin count the same
    cycles.
    """
    board = load_board("pynq-z2")
    calibration = Calibration(random_samples=2)
    network = compile_model(model, hw, board, calibration=calibration, offload_all=True).network
    assert len(network.regions) == 1
    data = {"x": np.random.default_rng(4).normal(size=shape).astype(np.float32)}
    (expected,) = run_network(network, ReferenceDevice(hw), data, trusted=True).outputs.values()
    cycles = {time_network(network, board.memory).cycles}
    for fidelity in ("rtl", "dpi"):
        with closing(open_simulated(fidelity, hw, board.memory)) as device:
            run = run_network(network, device, data, trusted=True)
        (found,) = run.outputs.values()
        assert np.array_equal(found, expected)
        cycles.add(run.cycles)
    assert len(cycles) == 1
    return network
