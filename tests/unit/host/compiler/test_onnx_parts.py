# SPDX-License-Identifier: Apache-2.0
"""What TVM does not compute, ONNX Runtime does, beside the accelerator."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from support.networks.small_models import Model
from support.randomness import fresh_rng, often

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.pack.artefact import load, save
from tilewright.host.compiler.pipeline import Compilation, compile_model
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions, QuantiseOptions
from tilewright.host.compiler.run.runtime import run_network
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.reference.device import ReferenceDevice

TINY = load_hwconfig("tiny-4x4")
Array = np.ndarray


def compiled(model: onnx.ModelProto) -> Compilation:
    return compile_model(
        model,
        TINY,
        load_board("pynq-z2"),
        calibration=Calibration(random_samples=4),
        offload_all=True,
    )


def image(model: Model) -> str:
    x = model.input(1, 4, 6, 6)
    return model.add("Relu", model.add("Conv", x, model.weights(8, 4, 3, 3), pads=[1] * 4))


def einsum(model: Model) -> str:
    x = image(model)
    return model.add("Einsum", x, model.weights(8, 3), equation="bchw,cd->bdhw")


def grid_sample(model: Model) -> str:
    x = image(model)
    grid = model.constant(model.rng.uniform(-1.2, 1.2, (1, 5, 4, 2)).astype(np.float32))
    return model.add("GridSample", x, grid, align_corners=0)


def grid_of_data(model: Model) -> str:
    x = image(model)
    grid = model.add("Conv", x, model.weights(2, 8, 1, 1))
    grid = model.add("Tanh", model.add("Transpose", grid, perm=[0, 2, 3, 1]))
    return model.add("GridSample", x, grid, align_corners=1)


def reversed_sequence(model: Model) -> str:
    x = model.add("Reshape", image(model), model.constant(np.array([8, 1, 36])))
    lengths = model.constant(np.array([5]))
    return model.add("ReverseSequence", x, lengths, time_axis=0, batch_axis=1)


def integer_power(model: Model) -> str:
    x = model.add("Cast", image(model), to=TensorProto.INT32)
    y = model.add("Pow", x, model.constant(np.int32(2)))
    return model.add("Cast", y, to=TensorProto.FLOAT)


def mean_of_normalisation(model: Model) -> str:
    x = image(model)
    scale = model.constant(np.ones(6, np.float32))
    names = ["normal", "mean"]
    model.nodes.append(helper.make_node("LayerNormalization", [x, scale], names, "norm"))
    return model.add("Add", *names)


def long_sequence(model: Model) -> str:
    x = model.input(600, 1, 4)
    model.nodes.append(
        helper.make_node(
            "LSTM",
            [x, model.weights(2, 12, 4), model.weights(2, 12, 3)],
            ["states", "last"],
            "lstm",
            hidden_size=3,
            direction="bidirectional",
        )
    )
    return model.add("MatMul", model.add("Squeeze", "last"), model.weights(3, 8))


def branch(model: Model) -> str:
    """Scores, doubled if the mean of what the convolution gives is large."""
    x = image(model)
    mean = model.add("ReduceMean", x, keepdims=0)
    big = model.add("Greater", mean, model.constant(np.float32(0.4)))
    two = model.constant(np.float32(2))
    bodies = [
        helper.make_graph(
            [helper.make_node(kind, [x, two], [f"{kind}_of"])],
            kind,
            [],
            [helper.make_tensor_value_info(f"{kind}_of", TensorProto.FLOAT, (1, 8, 6, 6))],
        )
        for kind in ("Mul", "Sub")
    ]
    y = model.add("If", big, then_branch=bodies[0], else_branch=bodies[1])
    return model.add("Conv", y, model.weights(4, 8, 1, 1))


def loop_until(model: Model) -> str:
    """Halved until its largest element is below a bound: as many rounds as data want."""
    x = image(model)
    bound = model.constant(np.float32(0.3))
    half = model.constant(np.float32(0.5))
    nodes = [
        helper.make_node("Mul", ["state", half], ["next"]),
        helper.make_node("ReduceMax", ["next"], ["peak"], keepdims=0),
        helper.make_node("Greater", ["peak", bound], ["again"]),
    ]
    body = helper.make_graph(
        nodes,
        "body",
        [
            helper.make_tensor_value_info("round", TensorProto.INT64, ()),
            helper.make_tensor_value_info("on", TensorProto.BOOL, ()),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, (1, 8, 6, 6)),
        ],
        [
            helper.make_tensor_value_info("again", TensorProto.BOOL, ()),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, (1, 8, 6, 6)),
        ],
    )
    rounds, on = model.constant(np.int64(40)), model.constant(np.array(True))
    y = model.add("Loop", rounds, on, x, body=body)
    return model.add("Conv", y, model.weights(4, 8, 1, 1))


def chosen_boxes(model: Model) -> str:
    """The scores of boxes that non-maximum suppression leaves, padded to a fixed number."""
    x = image(model)
    boxes = model.constant(model.rng.uniform(0, 1, (1, 36, 4)).astype(np.float32))
    scores = model.add("Reshape", x, model.constant(np.array([1, 8, 36])))
    limits = model.constant(np.int64(3)), model.constant(np.float32(0.5))
    picked = model.add("NonMaxSuppression", boxes, scores, *limits)
    found = model.add("GatherND", scores, picked)
    zeros = model.constant(np.zeros(24, np.float32))
    joined = model.add("Concat", found, zeros, axis=0)
    bounds = [model.constant(np.array([n])) for n in (0, 24)]
    return model.add("Slice", joined, *bounds)


CASES = [
    einsum, grid_sample, grid_of_data, reversed_sequence, integer_power, mean_of_normalisation,
    long_sequence, branch, loop_until, chosen_boxes,
]  # fmt: skip


@pytest.mark.parametrize(
    "case", often("parts", [pytest.param(case, id=case.__name__) for case in CASES], 4)
)
def test_a_network_with_what_tvm_does_not_compute(
    case: Callable[[Model], str], tmp_path: Path
) -> None:
    model = Model(fresh_rng())
    proto = model.proto(case(model))
    if case is chosen_boxes:  # the exporter knows it
        proto.graph.output[0].type.tensor_type.shape.dim.add().dim_value = 24
    compilation = compiled(proto)
    path = tmp_path / "net.tw"
    save(compilation.network, path)
    network = load(path)
    (argument,) = network.inputs
    for _ in range(2):
        data = fresh_rng().normal(size=argument.shape).astype(np.float32)
        run = run_network(network, ReferenceDevice(TINY), {argument.name: data})
        (found,) = run.outputs.values()
        session = onnxruntime.InferenceSession(compilation.imported.qdq.SerializeToString())
        (expected,) = session.run(None, {argument.name: data})
        assert found.shape == expected.shape
        step = np.abs(expected).max() / 100
        assert (np.abs(found - expected) > step).mean() < 0.05
    behind = [p for p in network.placements if "ONNX Runtime" in p.reason]
    assert behind


@pytest.mark.parametrize("int8_ends", [False, True])
def test_a_state_is_an_output_and_read_by_a_layer(int8_ends: bool) -> None:
    model = Model(fresh_rng())
    y = loop_until(model)
    state = next(node.output[0] for node in model.nodes if node.op_type == "Loop")
    compilation = compile_model(
        model.proto(y, state),
        TINY,
        load_board("pynq-z2"),
        calibration=Calibration(random_samples=4),
        options=ImportOptions(quantise=QuantiseOptions(int8_ends=int8_ends)),
        offload_all=True,
    )
    assert {each.shape for each in compilation.network.outputs} == {(1, 4, 6, 6), (1, 8, 6, 6)}


def test_a_quantised_model_may_have_nodes_of_constants() -> None:
    model = Model(fresh_rng())
    x = model.quantised(model.input(1, 4, 3, 3), 0.1)
    weights = model.constant(model.rng.integers(-9, 9, (4, 4, 1, 1)).astype(np.int8))
    scale, zero = model.constant(np.float32(0.1)), model.constant(np.int8(0))
    y = model.add("Conv", x, model.add("DequantizeLinear", weights, scale, zero))
    y = model.quantised(y, 0.2)
    one = onnx.numpy_helper.from_array(np.float32(1))
    assert compiled(model.proto(model.add("Add", y, model.add("Constant", value=one))))


def test_an_empty_output_is_refused_when_it_is_compiled() -> None:
    model = Model(fresh_rng())
    x = image(model)
    bounds = [model.constant(np.array([n])) for n in (0, 0, 1)]
    with pytest.raises(WorkloadError, match="must have elements"):
        compiled(model.proto(x, model.add("Slice", x, *bounds)))
