# SPDX-License-Identifier: Apache-2.0
"""Parts of ONNX models, and ONNX's own cases of each operator."""

import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from support.networks.compiled_runs import assert_computes, beside_a_layer
from support.networks.small_models import Model
from support.randomness import fresh_rng, often, sample, where

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.pack.artefact import load, save
from tilewright.host.compiler.pipeline import Compilation, compile_model, partition
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions, QuantiseOptions
from tilewright.host.compiler.run.runtime import run_network
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.operators import ON_ARRAY
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
    return model.add("Einsum", image(model), model.weights(8, 8), equation="bchw,cc->bchw")


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
    x = model.add("Reshape", image(model), [8, 1, 36])
    return model.add("ReverseSequence", x, [5], time_axis=0, batch_axis=1)


def integer_power(model: Model) -> str:
    y = model.add("Pow", model.add("Cast", image(model), to=TensorProto.INT32), np.int32(2))
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
    big = model.add("Greater", model.add("ReduceMean", x, keepdims=0), np.float32(0.4))
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
    return model.add("Conv", model.add("Loop", rounds, on, x, body=body), model.weights(4, 8, 1, 1))


def chosen_boxes(model: Model) -> str:
    """The scores of boxes that non-maximum suppression leaves, padded to a fixed number."""
    x = image(model)
    boxes = model.constant(model.rng.uniform(0, 1, (1, 36, 4)).astype(np.float32))
    scores = model.add("Reshape", x, [1, 8, 36])
    limits = model.constant(np.int64(3)), model.constant(np.float32(0.5))
    found = model.add("GatherND", scores, model.add("NonMaxSuppression", boxes, scores, *limits))
    joined = model.add("Concat", found, np.zeros(24, np.float32), axis=0)
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
        step = np.abs(expected).max() / 50  # a code, where data reach half of their range
        assert (np.abs(found - expected) > step).mean() < 0.05
    assert [p for p in network.placements if "ONNX Runtime" in p.reason]


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


# -- ONNX's own cases of each operator: what compiles runs, and gives what ONNX Runtime gives
OPERATOR_CASES = 6
"""In a test."""

ROUNDED = {*ON_ARRAY} - {"Clip", "Gather", "Relu", "Reshape", "Transpose"}
"""Kinds that become int8 beside a layer: `test_saturation` and others hold those."""

DTYPES = {"bool", "float32", "float64", "int8", "int32", "int64", "uint8"}


@cache
def cases() -> list[tuple[str, onnx.ModelProto, dict[str, np.ndarray]]]:
    """Name, model and inputs of those that our models can hold."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases  # noqa: PLC0415  (computes much)

        every = collect_testcases(None)
    found = []
    for case in every:
        arrays = case.data_sets[0][0]
        if fits(case.model, arrays):
            names = [value.name for value in case.model.graph.input]
            found.append((case.name, case.model, dict(zip(names, arrays, strict=True))))
    return found


def fits(model: onnx.ModelProto, arrays: list[Any]) -> bool:
    plain = all(
        isinstance(a, np.ndarray) and str(a.dtype) in DTYPES and a.size and np.isfinite(a).all()
        for a in arrays
    )
    kinds = {node.op_type for node in model.graph.node}
    versions = [entry.version for entry in model.opset_import if entry.domain == ""]
    standard = all(node.domain == "" for node in model.graph.node)
    return plain and standard and bool(versions) and versions[0] >= 13 and not kinds & ROUNDED


def runs(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> bool:
    """Whether ONNX Runtime computes a model at all, to finite numbers."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        results = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, inputs)
    except Exception:  # it raises kinds of its own
        return False
    return all(isinstance(r, np.ndarray) and r.size and r.dtype != object for r in results)


@pytest.mark.parametrize("number", sample(1, 120))
def test_operators_of_onnx(number: int) -> None:
    rng = fresh_rng()
    known = cases()
    assert len(known) > 500
    computed = 0
    for index in rng.permutation(len(known)):
        name, model, inputs = known[index]
        if not runs(model, inputs):
            continue
        try:
            network = beside_a_layer(model, inputs)
            partition(network)
        except WorkloadError:
            continue  # refused when it is compiled, not when it runs
        try:
            assert_computes(network, model, inputs, 1e-3)
        except Exception as error:
            raise AssertionError(where(case=name)) from error
        computed += 1
        if computed == OPERATOR_CASES:
            return
    raise AssertionError("no more cases")
