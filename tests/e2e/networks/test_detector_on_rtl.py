# SPDX-License-Identifier: Apache-2.0
"""Small detectors like YOLOv8 and YOLOv5 on RTL and `dpi`: one region, the same bits."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.networks.detector_models import detector, heads
from support.networks.fidelities import every_fidelity_agrees

from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.lower.qgraph import from_normal_form, to_normal_form
from tilewright.host.compiler.pack.artefact import load
from tilewright.host.compiler.pipeline import compile_model
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions, QuantiseOptions
from tilewright.host.compiler.run.network_runner import NetworkRunner
from tilewright.host.compiler.run.numpy_host import NumpyHost
from tilewright.host.compiler.run.runtime import run_network, save_outputs
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.devices import open_simulated
from tilewright.sim.twin.network_timing import time_network

SMALL = load_hwconfig("tiny-4x4")
BOARD = load_board("pynq-z2")
SLOW = replace(BOARD, cpu=replace(BOARD.cpu, bytes_per_second=1e5))
"""Its CPU takes longer to unpack a result than STORE loses."""


@pytest.mark.slow
def test_every_fidelity_computes_a_detector_alike() -> None:
    hw = load_hwconfig("tiny-4x4").with_(row_unit=1, activation_table=1)
    every_fidelity_agrees(detector(np.random.default_rng(3)), hw, (1, 3, 8, 8))


@pytest.mark.parametrize("int8_ends", [True, False], ids=["int8", "float"])
@pytest.mark.parametrize("joined", [True, False], ids=["joined", "apart"])
def test_heads_leave_as_views_of_the_memory(joined: bool, int8_ends: bool, tmp_path: Path) -> None:
    """14 of 16 channels, from a saved file, on the RTL's control, with both kinds of CPU part."""
    compilation = compile_model(
        heads(np.random.default_rng(5), channels=14, joined=joined),
        SMALL,
        SLOW,
        calibration=Calibration(random_samples=4),
        options=ImportOptions(quantise=QuantiseOptions(int8_ends=int8_ends)),
        offload_all=True,
        output=tmp_path / "heads.tw",
    )
    (graph,) = compilation.layers
    network = load(tmp_path / "heads.tw")
    (region,) = network.regions
    pixels = {name: np.prod(graph.tensors[name].shape[2:]) for name in region.outputs}
    assert region.views == {name for name, count in pixels.items() if count > 1}
    rng = np.random.default_rng(0)
    image, (port,) = rng.integers(-128, 128, (1, 3, 8, 8)).astype(np.int8), network.inputs
    source = graph.tensors[graph.inputs[0]]
    given = image if int8_ends else (image.astype(np.float32) * np.float32(source.scale))
    expected = evaluate(graph, {source.name: to_normal_form(image, source.shape)})
    with closing(open_simulated("dpi", SMALL, BOARD.memory)) as device:
        with NetworkRunner(network, device, NumpyHost) as runner:
            run = runner.run({port.name: given})
        again = run_network(network, device, {port.name: given}, trusted=True)
    assert run.cycles == again.cycles == time_network(network, BOARD.memory).cycles
    save_outputs(run.outputs, tmp_path / "outputs.npz")
    saved = np.load(tmp_path / "outputs.npz")
    for name, output in zip(region.outputs, network.outputs, strict=True):
        tensor, found = graph.tensors[name], run.outputs[output.name]
        values = from_normal_form(expected[name], output.shape)
        if not int8_ends:
            scale = np.float32(tensor.scale)
            values = (values.astype(np.int32) - tensor.zero_point).astype(np.float32) * scale
        for array in (found, again.outputs[output.name], saved[output.name]):
            assert np.array_equal(array, values)
        if name in region.views:  # the channels of a pixel follow each other
            assert found.strides[1] == found.itemsize
            step = 16 if int8_ends else 14 * found.itemsize
            assert found.strides[-1] == step
            (ran,) = run.results
            assert np.shares_memory(found, ran.memory) == int8_ends
