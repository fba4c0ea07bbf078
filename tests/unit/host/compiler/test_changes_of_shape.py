# SPDX-License-Identifier: Apache-2.0
"""Changes of shape between layers: whatever they are, a network compiles and has its results."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest
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


def reshaped(model: Model, x: str, *shape: int) -> str:
    return model.add("Reshape", x, np.array(shape, np.int64))


def image(model: Model, outputs: int, side: int) -> str:
    return model.add("Conv", model.input(1, 3, side, side), model.weights(outputs, 3, 1, 1))


def features_as_an_image(model: Model) -> str:
    y = model.add("Gemm", model.input(1, 6), model.weights(6, 32))
    return model.add("Conv", reshaped(model, y, 1, 8, 2, 2), model.weights(4, 8, 2, 2))


def an_image_as_another(model: Model) -> str:
    y = reshaped(model, image(model, 8, 4), 1, 2, 8, 8)
    return model.add("Conv", y, model.weights(4, 2, 3, 3))


def a_sum_behind_a_flattened_image(model: Model) -> str:
    flat = model.add("Flatten", image(model, 4, 2))
    return model.add("Add", model.add("Gemm", flat, model.weights(16, 16)), flat)


def a_norm_behind_a_flattened_image(model: Model) -> str:
    flat = model.add("Flatten", image(model, 4, 2))
    ones, zeros = (model.constant(make(16, np.float32)) for make in (np.ones, np.zeros))
    y = model.add("LayerNormalization", flat, ones, zeros, axis=-1)
    return model.add("Gemm", y, model.weights(16, 3))


def an_activation_behind_a_flattened_image(model: Model) -> str:
    return model.add("Relu", model.add("Flatten", image(model, 4, 2)))


def a_flattened_image(model: Model, side: int) -> str:
    flat = model.add("Flatten", image(model, 2, side))
    return model.add("Gemm", flat, model.weights(2 * side * side, 3))


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


@pytest.mark.parametrize(
    "make",
    [
        features_as_an_image,
        an_image_as_another,
        a_sum_behind_a_flattened_image,
        a_norm_behind_a_flattened_image,
        an_activation_behind_a_flattened_image,
    ],
)
def test_what_makes_pixels_channels_is_moved_inside_a_region(make: Callable[[Model], str]) -> None:
    assert len(compiled(make).layers) == 1


@pytest.mark.parametrize(("side", "regions"), [(8, 1), (20, 2)])
def test_an_image_that_no_scratchpad_holds_is_flattened_on_the_cpu(side: int, regions: int) -> None:
    found = compiled(lambda model: a_flattened_image(model, side))
    assert len(found.layers) == regions
    on_cpu = {p.kind: p.reason for p in found.network.placements if p.where == "cpu"}
    assert ("Flatten" in on_cpu) == (regions == 2)
    if regions == 2:
        assert "kernel of 20 x 20" in on_cpu["Flatten"]
        assert "WGT must hold 1 x 400 tiles" in on_cpu["Flatten"]


def test_a_kernel_that_only_an_unrolled_input_fits_is_on_the_cpu_behind_another_layer() -> None:
    def network(model: Model) -> str:
        return model.add("Conv", image(model, 1, 17), model.weights(3, 1, 17, 17))

    found = compiled(network)
    assert [p.where for p in found.network.placements] == ["accelerator", "cpu"]
    assert "WGT must hold 1 x 289 tiles" in found.network.placements[1].reason


def test_a_dense_layer_is_on_the_cpu_if_its_image_is_flattened_behind_an_activation() -> None:
    def network(model: Model) -> str:
        flat = model.add("Relu", model.add("Flatten", image(model, 2, 20)))
        return model.add("Gemm", flat, model.weights(800, 3))

    found = compiled(network)
    where = {p.kind: p.where for p in found.network.placements}
    assert (where["Relu"], where["Gemm"]) == ("accelerator", "cpu")
