# SPDX-License-Identifier: Apache-2.0
"""Changes of shape between layers: whatever they are, a network compiles and has its results."""

from collections.abc import Callable

import numpy as np
import onnx
from onnx import numpy_helper
from support.networks.qdq_runs import run_all
from support.networks.small_models import Model

from tilewright.host.compiler.pipeline import Compilation, compile_model
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.run.runtime import run_network
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.reference.device import ReferenceDevice

HW = load_hwconfig("tiny-4x4").with_(row_unit=1)


def image(model: Model, outputs: int, side: int) -> str:
    return model.add("Conv", model.input(1, 3, side, side), model.weights(outputs, 3, 1, 1))


def compiled(make: Callable[[Model], str]) -> Compilation:
    """A network, after comparing its result with ONNX Runtime's, which rounds more often."""
    model = Model(np.random.default_rng(3))
    compilation = compile_model(
        model.proto(make(model)), HW, load_board("pynq-z2"),
        calibration=Calibration(random_samples=4), offload_all=True,
    )  # fmt: skip
    (source,), (result,) = compilation.network.inputs, compilation.network.outputs
    data = np.random.default_rng(0).normal(size=source.shape).astype(np.float32)
    expected = run_all(compilation.imported.qdq, {source.name: data})[result.name]
    run = run_network(compilation.network, ReferenceDevice(HW), {source.name: data}, trusted=True)
    step = step_of(compilation.imported.qdq, result.name)
    error = np.abs(run.outputs[result.name] - expected).max()
    assert error <= max(0.05 * np.abs(expected).max(), 2.01 * step)
    return compilation


def step_of(qdq: onnx.ModelProto, output: str) -> float:
    """The scale of a result; 0 if it is not dequantised."""
    numbers = {each.name: numpy_helper.to_array(each) for each in qdq.graph.initializer}
    for node in qdq.graph.node:
        if output in node.output and node.op_type == "DequantizeLinear":
            return float(numbers[node.input[1]])
    return 0.0


def test_a_dense_layer_is_on_the_cpu_if_its_image_is_flattened_behind_an_activation() -> None:
    def network(model: Model) -> str:
        flat = model.add("Relu", model.add("Flatten", image(model, 2, 20)))
        return model.add("Gemm", flat, model.weights(800, 3))

    found = compiled(network)
    where = {p.kind: p.where for p in found.network.placements}
    assert (where["Relu"], where["Gemm"]) == ("accelerator", "cpu")
