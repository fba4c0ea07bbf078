# SPDX-License-Identifier: Apache-2.0
"""Runs a compiled network in this process: its regions on the accelerator's reference."""

from collections.abc import Iterable, Mapping

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from support.networks.qdq_runs import output_of, quantised_names, region_errors, run_all
from support.networks.qgraph_floats import FloatRegions
from support.networks.small_models import TIES, assert_regions_agree, noise

from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.lower.qgraph import from_normal_form, to_normal_form
from tilewright.host.compiler.pack.artefact import CompiledNetwork
from tilewright.host.compiler.pipeline import (
    Compilation,
    ImportedNetwork,
    PartitionedNetwork,
    compile_model,
    import_network,
    partition,
)
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.run.relax_host import HostModule, HostProgram
from tilewright.host.compiler.run.runtime import run_network
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.sim.reference.device import ReferenceDevice


def run_compiled(
    compilation: Compilation, inputs: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """What a compiled network computes, by name."""
    network = compilation.network
    device = ReferenceDevice(network.hw)
    host = HostProgram(module=HostModule.from_json(network.host))
    return dict(host.run(inputs, lambda n, arrays: network.regions[n].run(device, arrays)[0]))


def compiled_on_its_data(
    proto: onnx.ModelProto, data: np.ndarray, hw: HwConfig, left: Iterable[str] = ()
) -> tuple[Compilation, np.ndarray, np.ndarray]:
    """A float model that becomes one region, its result for the first of its data, and the model's.

    Args:
        proto: its input is ``x``.
        data: several of it, which it is calibrated on.
        hw: of the accelerator.
        left: kinds of operators that the CPU may have.
    """
    data_of = Calibration(arrays={"x": data})
    board = load_board("pynq-z2")
    compilation = compile_model(proto, hw, board, calibration=data_of, offload_all=True)
    places = {(p.kind, p.reason) for p in compilation.network.placements if p.where == "cpu"}
    assert {kind for kind, _ in places} <= {*left}, places
    assert len(compilation.layers) == 1
    inputs = {"x": data[:1]}
    (found,) = run_compiled(compilation, inputs).values()
    (expected,) = output_of([proto], inputs)
    assert found.shape == expected.shape
    return compilation, found, expected


def assert_bits_of_its_layers(
    compilation: Compilation,
    inputs: Mapping[str, np.ndarray],
    network: CompiledNetwork | None = None,
) -> np.ndarray:
    """A network of one region, or its saved form, gives the bits of its layers; returns them."""
    network = network or compilation.network
    (graph,) = compilation.layers
    qdq, (result,) = compilation.imported.qdq, graph.outputs
    tensors, names = run_all(qdq, inputs), quantised_names(qdq)
    data = {
        name: to_normal_form(tensors[names.get(name, name)], graph.tensors[name].shape)
        for name in graph.inputs
    }
    output, expected = graph.tensors[result], evaluate(graph, data)[result]
    run = run_network(network, ReferenceDevice(network.hw), inputs, trusted=True)
    (found,) = run.outputs.values()
    steps = np.rint(found / output.scale) + output.zero_point
    shape = network.regions[0].model_shapes.get(result, output.shape)
    assert np.array_equal(steps, from_normal_form(expected, shape).reshape(steps.shape))
    return found


def assert_one_region_has_its_bits(
    proto: onnx.ModelProto, seen: np.ndarray, hw: HwConfig, *, quantised: bool = False
) -> np.ndarray:
    """All of a model of one input is one region, with the bits of its layers; returns its result.

    Its operators compute what ONNX Runtime computes of real numbers, but for two steps.

    Args:
        proto: the float model; its input is ``x``.
        seen: several of it, which it is calibrated on; it runs on the first.
        hw: has a row unit.
        quantised: the model is, instead.
    """
    data = None if quantised else Calibration(arrays={"x": seen})
    board = load_board("pynq-z2")
    compilation = compile_model(proto, hw, board, calibration=data, offload_all=True)
    placed = {p.name: (p.where, p.reason) for p in compilation.network.placements}
    assert {where for where, _ in placed.values()} == {"accelerator"}, placed
    inputs = {"x": seen[:1]}
    qdq = compilation.imported.qdq
    tensors, names = run_all(qdq, inputs), quantised_names(qdq)
    taken = {"tables": bool(hw.activation_table), "rows": True, "turns": True}
    (region,) = partition(compilation.imported, **taken).regions
    assert max(np.abs(each).max() for each in region_errors(region, tensors, names).values()) <= 2
    return assert_bits_of_its_layers(compilation, inputs)


# -- A divided model, run as one: its regions in floats, the rest on the CPU ----------------------


def assert_same_outputs(network: ImportedNetwork, parts: PartitionedNetwork) -> None:
    """Region by region and as a whole, but for what the ties of a few elements change."""
    inputs = noise(network, np.random.default_rng(1))
    assert_regions_agree(network, parts, inputs)
    found = HostProgram(module=parts.host).run(inputs, FloatRegions(parts.regions))
    tensors = run_all(network.qdq, inputs)
    for name in (argument.name for argument in network.outputs):
        expected = tensors[name]
        assert found[name].shape == expected.shape
        difference = np.abs(found[name] - expected)
        assert (difference > 1e-5).sum() <= max(TIES, 0.02 * difference.size)
        assert difference.max() <= 0.1 * np.abs(expected).max() + 1e-5


# -- compiles a float model, of which the CPU computes all but a convolution beside it ------------

_IMAGE = (1, 2, 3, 3)


def assert_cpu_computes(
    proto: onnx.ModelProto, inputs: Mapping[str, np.ndarray], tolerance: float = 1e-4
) -> None:
    """The saved CPU part gives what ONNX Runtime gives, in shapes, types and numbers.

    Args:
        proto: a float model without operators that are quantised.
        inputs: by name.
        tolerance: largest difference.
    """
    assert_computes(beside_a_layer(proto, inputs), proto, inputs, tolerance)


def beside_a_layer(proto: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> ImportedNetwork:
    """A model, imported with a convolution that nothing else reads."""
    wide = onnx.ModelProto()
    wide.CopyFrom(proto)
    graph = wide.graph
    graph.input.append(helper.make_tensor_value_info("beside", TensorProto.FLOAT, _IMAGE))
    kernel = np.random.default_rng(0).normal(size=(2, 2, 1, 1)).astype(np.float32)
    graph.initializer.append(numpy_helper.from_array(kernel, "kernel_beside"))
    graph.node.append(helper.make_node("Conv", ["beside", "kernel_beside"], ["layer"], "layer"))
    graph.output.append(helper.make_tensor_value_info("layer", TensorProto.FLOAT, None))
    return import_network(wide, calibration=Calibration(arrays=_all(inputs)))


def assert_computes(
    network: ImportedNetwork,
    proto: onnx.ModelProto,
    inputs: Mapping[str, np.ndarray],
    tolerance: float,
) -> None:
    """What `beside_a_layer` made of a model gives what the model gives."""
    names = [value.name for value in proto.graph.output]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    expected = session.run(names, dict(inputs))
    parts = partition(network)
    program = HostProgram(module=HostModule.from_json(parts.host.to_json()))
    found = program.run(_all(inputs), FloatRegions(parts.regions))
    attends = any(node.op_type == "Attention" for node in proto.graph.node)
    for name, array in zip(names, expected, strict=True):
        if attends:  # a masked score is minus infinity, says ONNX
            array[array == np.finfo(np.float32).min] = -np.inf
        assert (found[name].shape, found[name].dtype) == (array.shape, array.dtype)
        np.testing.assert_allclose(found[name], array, rtol=1e-3, atol=tolerance)


def _all(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {**inputs, "beside": np.ones(_IMAGE, np.float32)}
