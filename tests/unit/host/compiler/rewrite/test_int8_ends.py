# SPDX-License-Identifier: Apache-2.0
"""Networks that take and give int8: the same results, in steps of the first and last tensor."""

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from support.networks.small_models import Model
from support.randomness import fresh_rng

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.pack.artefact_rules import MANIFEST
from tilewright.host.compiler.pipeline import import_network, partition
from tilewright.host.compiler.read.argument import Argument
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions, QuantiseOptions
from tilewright.host.compiler.read.model_ends import arguments_of
from tilewright.host.compiler.rewrite import qdq
from tilewright.host.compiler.rewrite.int8_ends import to_int8_ends

OPTIMISED = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL


def run(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = OPTIMISED
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, inputs)


def both(model: onnx.ModelProto) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """Canonical, and that with int8 ends."""
    found = []
    for ends in (False, True):
        current = ir.from_proto(onnx.shape_inference.infer_shapes(model))
        qdq.canonical(current)
        if ends:
            to_int8_ends(current)
        changed = ir.to_proto(current)
        onnx.checker.check_model(changed, full_check=True)
        found.append(onnx.shape_inference.infer_shapes(changed))
    return found[0], found[1]


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
@pytest.mark.parametrize("moved", [False, True], ids=["straight", "moved"])
def test_real_numbers_give_the_same_result_either_way(kind, moved) -> None:
    rng = fresh_rng()
    model = Model(rng)
    x = model.input(2, 6)
    if moved:
        x = model.add("Transpose", model.add("Reshape", x, model.constant(np.array([6, 2]))))
    x = model.quantised(x, 0.03, 5, kind)
    weights = model.constant(rng.normal(size=(6, 4)).astype(np.float32))
    y = model.quantised(model.add("MatMul", x, weights), 0.11, 7, kind)
    if moved:
        y = model.add("Flatten", y, axis=0)
    before, after = both(model.proto(y))
    (given,), (result,) = arguments_of(after)
    assert (given.dtype, result.dtype) == ("int8", "int8")
    offset = 128 if kind is np.uint8 else 0
    assert (given.scale, given.zero_point) == (pytest.approx(0.03), 5 - offset)
    assert (result.scale, result.zero_point) == (pytest.approx(0.11), 7 - offset)
    assert [argument.name for argument in arguments_of(before)[0]] == [given.name]
    assert [argument.name for argument in arguments_of(before)[1]] == [result.name]
    assert not [n for n in after.graph.node if n.op_type == "QuantizeLinear"][1:]
    data = rng.normal(size=given.shape).astype(np.float32)
    (expected,) = run(before, {given.name: data})
    (found,) = run(after, {given.name: given.quantise(data)})
    np.testing.assert_array_equal(result.dequantise(found), expected)


def test_ends_without_one_scale_stay_as_they_are() -> None:
    rng = fresh_rng()
    model = Model(rng)
    x = model.input(1, 4)
    coarse, fine = (model.quantised(x, scale, 0, np.int8) for scale in (0.1, 0.01))
    total = model.add("Add", coarse, fine)
    before, after = both(model.proto(model.add("Softmax", total)))
    assert [a.dtype for a in (*arguments_of(after)[0], *arguments_of(after)[1])] == ["float32"] * 2
    data = {"x": rng.normal(size=(1, 4)).astype(np.float32)}
    np.testing.assert_array_equal(run(after, data)[0], run(before, data)[0])


def test_an_output_that_is_read_inside_too_stays_real() -> None:
    rng = fresh_rng()
    model = Model(rng)
    y = model.quantised(model.input(1, 4), 0.1, 0, np.int8)
    proto = model.proto(y, model.add("Softmax", y))
    before, after = both(proto)
    data = rng.normal(size=(1, 4)).astype(np.float32)
    given = arguments_of(after)[0][0]
    found = run(after, {"x": given.quantise(data) if given.is_quantised else data})
    for port, one, other in zip(
        arguments_of(after)[1], found, run(before, {"x": data}), strict=True
    ):
        real = port.dequantise(one) if port.is_quantised else one
        np.testing.assert_allclose(real, other, atol=1e-6)


def test_data_are_real_numbers_or_int8() -> None:
    port = Argument(name="x", shape=(1, 3), dtype="int8", scale=0.5, zero_point=-3)
    real = np.array([[0.26, -0.25, 1e9]], np.float32)
    (batch,) = Calibration(arrays={"x": real}).batches([port])
    np.testing.assert_array_equal(batch["x"], np.array([[-2, -3, 127]], np.int8))
    (batch,) = Calibration(arrays={"x": batch["x"]}).batches([port])
    np.testing.assert_array_equal(batch["x"], np.array([[-2, -3, 127]], np.int8))
    (noise,) = Calibration(random_samples=1).batches([port])
    assert noise["x"].dtype == np.int8
    with pytest.raises(WorkloadError, match="convertible"):
        next(Calibration(arrays={"x": real.astype(complex)}).batches([port]))
    bare = Argument(name="x", shape=(1, 3), dtype="int8")
    with pytest.raises(WorkloadError, match="float type"):
        next(Calibration(random_samples=1).batches([bare]))


def test_a_file_keeps_the_steps_of_an_input() -> None:
    port = {"name": "x", "shape": [1, 3], "dtype": "int8", "scale": 0.5, "zero_point": -3}
    (kept,) = MANIFEST({"inputs": [port]})["inputs"]
    assert Argument.from_mapping(kept) == Argument(
        name="x", shape=(1, 3), dtype="int8", scale=0.5, zero_point=-3
    )
    without = {"name": "x", "shape": [1, 3], "dtype": "float32"}
    assert Argument.from_mapping(without).scale is None


def test_rows_that_leave_the_network_are_rounded_too() -> None:
    """Nothing reads them, so nothing would ask for int8 but the end itself."""
    rng = fresh_rng()
    model = Model(rng)
    y = model.add("MatMul", model.input(1, 6, 8), model.weights(8, 16))
    scale, bias = (model.constant(rng.normal(size=16).astype(np.float32)) for _ in range(2))
    y = model.add("LayerNormalization", y, scale, bias, axis=-1)
    for ends in (False, True):
        network = import_network(
            model.proto(y),
            calibration=Calibration(random_samples=2),
            options=ImportOptions(quantise=QuantiseOptions(row_functions=True, int8_ends=ends)),
        )
        (port,) = network.outputs
        assert (port.name, port.is_quantised) == (y, ends)
        placed = {p.kind: p.place for p in partition(network, rows=True).placements}
        assert ("Reshape" in placed, placed["LayerNormalization"]) == (
            False,
            "accelerator" if ends else "cpu",
        )


def test_an_activation_that_leaves_the_network_is_rounded_too() -> None:
    rng = fresh_rng()
    model = Model(rng)
    y = model.add("Sigmoid", model.add("Conv", model.input(1, 3, 6, 6), model.weights(8, 3, 3, 3)))
    for ends in (False, True):
        network = import_network(
            model.proto(y),
            calibration=Calibration(random_samples=2),
            options=ImportOptions(quantise=QuantiseOptions(activation_tables=True, int8_ends=ends)),
        )
        (port,) = network.outputs
        assert (port.name, port.is_quantised) == (y, ends)
        placed = {p.kind: p.place for p in partition(network, tables=True).placements}
        assert placed["Sigmoid"] == ("accelerator" if ends else "cpu")


def test_a_moved_output_that_is_read_inside_too_stays_real() -> None:
    rng = fresh_rng()
    model = Model(rng)
    y = model.quantised(model.input(1, 4), 0.1, 0, np.int8)
    y = model.add("Reshape", y, model.constant(np.array([2, 2])))
    before, after = both(model.proto(y, model.add("Softmax", y)))
    assert [a.dtype for a in arguments_of(after)[1]] == ["float32"] * 2
    data = rng.normal(size=(1, 4)).astype(np.float32)
    found = run(after, {"x": arguments_of(after)[0][0].quantise(data)})
    for one, other in zip(found, run(before, {"x": data}), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
