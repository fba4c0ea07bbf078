# SPDX-License-Identifier: Apache-2.0
"""Resizes and convolutions over three axes become operators of images."""

import itertools

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from support.networks.compiled_runs import assert_cpu_computes
from support.networks.detector_models import Detector
from support.networks.onnx_results import after_rewrites, drawn_inputs, results, rewritten
from support.networks.small_models import Model, assert_regions_agree, imported, noise
from support.randomness import fresh_rng

from tilewright.host.compiler.pipeline import partition
from tilewright.host.compiler.read.import_options import QuantiseOptions
from tilewright.host.compiler.rewrite.recurrent_layers import unroll_recurrent

FORMS = {
    "channels last": ((1, 4, 6, 3), [1, 2, 2, 1]),
    "rows of channels last": ((1, 4, 6, 3), [1, 3, 1, 1]),
    "a matrix": ((4, 6), [2, 3]),
    "rows": ((4, 6), [2, 1]),
    "images without a batch": ((3, 4, 6), [1, 2, 2]),
    "sequences": ((2, 3, 5), [1, 1, 2]),
    "batch": ((2, 3, 5), [2, 1, 1]),
}
MODES = {
    "nearest": {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    "linear": {},
    "symmetric": {"coordinate_transformation_mode": "half_pixel_symmetric"},
    "corners": {"coordinate_transformation_mode": "align_corners"},
}


def resized(
    shape: tuple[int, ...], factors: list[float], *, sizes: bool, **attributes: object
) -> Model:
    model = Model(fresh_rng(), opset=19)
    x = model.input(*shape)
    numbers = np.array(shape) * factors if sizes else np.array(factors, np.float32)
    given = ["", model.constant(numbers.astype(np.int64))] if sizes else [model.constant(numbers)]
    model.add("Resize", x, "", *given, **attributes)
    return model


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", FORMS)
def test_any_axes_are_resized(form, mode) -> None:
    shape, factors = FORMS[form]
    sizes = mode in ("linear", "corners")
    kind = mode if mode == "nearest" else "linear"
    if kind == "linear" and form == "batch":
        pytest.skip("ONNX Runtime refuses it")
    model = resized(shape, factors, sizes=sizes, mode=kind, **MODES[mode])
    data = fresh_rng().normal(size=shape).astype(np.float32)
    proto = model.proto(model.nodes[-1].output[0])
    layer = "ConvTranspose" if kind == "nearest" else "Resize"
    assert set(rewritten(proto, x=data)) <= {layer, "Transpose", "Reshape"}
    step = np.abs(data).max() / 127
    assert_cpu_computes(proto, {"x": data}, tolerance=2 * step if kind == "nearest" else 1e-4)


@pytest.mark.parametrize("sizes", [False, True])
def test_axes_may_be_named(sizes) -> None:
    model = Model(fresh_rng(), opset=19)
    numbers = np.array([9, 8]) if sizes else np.array([1.5, 2], np.float32)
    given = ["", model.constant(numbers)] if sizes else [model.constant(numbers)]
    y = model.add("Resize", model.input(1, 2, 4, 6), "", *given, mode="linear", axes=[3, 2])
    data = fresh_rng().normal(size=(1, 2, 4, 6)).astype(np.float32)
    assert_cpu_computes(model.proto(y), {"x": data})


def test_a_region_of_an_image_is_resized_by_onnx_runtime() -> None:
    model = Model(fresh_rng())
    roi = model.constant(np.array([0, 0, 0.2, 0.2, 1, 1, 0.8, 0.8], np.float32))
    more = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}
    y = model.add("Resize", model.input(1, 2, 6, 5), roi, "", [1, 2, 4, 4], **more)
    data = fresh_rng().normal(size=(1, 2, 6, 5)).astype(np.float32)
    assert_cpu_computes(model.proto(y), {"x": data})


# -- what heads of detectors join and split again stays apart; results stay -----------------------

TABLES = QuantiseOptions(activation_tables=True)


def head(*sizes: int, function: str = "Sigmoid") -> tuple[Detector, str]:
    """Three levels of 8 and 3 channels, split into parts of some sizes, and what they become."""
    model = Detector(fresh_rng())
    parts = model.split(model.levels(2, 3), *sizes, axis=1)
    parts[1] = model.add(function, parts[1])
    return model, model.add("Concat", *(model.add("Neg", part) for part in parts), axis=1)


def test_parts_that_are_read_together_too_stay_joined() -> None:
    model = Detector(fresh_rng())
    joined = model.levels(2, 3)
    parts = model.split(joined, 8, 3, axis=1)
    both = model.add("Neg", joined)
    results = [model.add("Neg", part) for part in parts]
    assert rewritten(model.proto(*results, both)).count("Slice") == 2


def test_a_sigmoid_of_joined_levels_is_behind_their_layers() -> None:
    model, y = head(8, 3)
    kinds = rewritten(model.proto(y), TABLES)
    assert kinds.count("Sigmoid") == 3
    for place, kind in enumerate(kinds):
        assert kind != "Sigmoid" or kinds[place - 1] == "Conv"
    assert rewritten(model.proto(y)).count("Sigmoid") == 1


def test_a_sigmoid_of_what_is_joined_with_other_results_stays_behind() -> None:
    model = Detector(fresh_rng())
    x = model.input(1, 3, 4, 4)
    parts = [model.convolution(x, 3, 4), model.add("Relu", model.convolution(x, 3, 4))]
    y = model.add("Sigmoid", model.add("Concat", *parts, axis=1))
    kinds = rewritten(model.proto(model.add("Neg", y)), TABLES)
    assert kinds.count("Sigmoid") == 1
    plain = model.add("Sigmoid", model.add("Concat", parts[0], axis=1))
    assert np.count_nonzero(np.array(kinds) == "Concat") == 1
    assert rewritten(model.proto(plain), TABLES)[-1] == "Sigmoid"


# -- LSTM, GRU and RNN step by step: the results of ONNX's own definition -------------------------

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
FLOAT = onnx.TensorProto.FLOAT


def recurrent(rng, kind, *, steps=4, inputs=3, hidden=5, given=(), state=False, **attributes):
    """A model of one node; `given` are inputs of the node behind the bias."""
    both = attributes.get("direction") == "bidirectional"
    ways, batch, wide = 1 + both, 2, GATES[kind] * hidden
    shapes = {"W": (ways, wide, inputs), "R": (ways, wide, hidden), "B": (ways, 2 * wide)}
    constants = [
        numpy_helper.from_array((rng.normal(size=shape) / 2).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    names = ["x", *shapes, *(given or [""])]
    by_batch = attributes.get("layout", 0)
    data = (batch, steps, inputs) if by_batch else (steps, batch, inputs)
    last = (batch, ways, hidden) if by_batch else (ways, batch, hidden)
    ports = [helper.make_tensor_value_info("x", FLOAT, data)]
    if state:
        starts = ["h0", "c0"] if kind == "LSTM" else ["h0"]
        names += starts
        ports += [helper.make_tensor_value_info(name, FLOAT, last) for name in starts]
    every = (batch, steps, ways, hidden) if by_batch else (steps, ways, batch, hidden)
    shapes_out = {"y": every, "yh": last} | ({"yc": last} if kind == "LSTM" else {})
    node = helper.make_node(kind, names, list(shapes_out), "rec", hidden_size=hidden, **attributes)
    outputs = [helper.make_tensor_value_info(n, FLOAT, shape) for n, shape in shapes_out.items()]
    model = helper.make_model(
        helper.make_graph([node], "g", ports, outputs, constants),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    return onnx.shape_inference.infer_shapes(model)


def unrolled(model):
    current = ir.from_proto(model)
    assert unroll_recurrent(current)
    found = ir.to_proto(current)
    onnx.checker.check_model(found, full_check=True)
    assert not {node.op_type for node in found.graph.node} & set(GATES)
    return found


CASES = [
    (kind, way, late)
    for kind, way, late in itertools.product(GATES, ("forward", "reverse", "bidirectional"), (0, 1))
    if kind == "GRU" or not late
]


@pytest.mark.parametrize(("kind", "way", "late"), CASES)
@pytest.mark.parametrize("by_batch", [0, 1])
def test_results_are_those_of_the_definition(kind, way, late, by_batch) -> None:
    rng = fresh_rng()
    attributes = {"direction": way, "layout": by_batch}
    if late:
        attributes["linear_before_reset"] = 1
    for state in (False, True):
        model = recurrent(rng, kind, state=state, **attributes)
        feed = drawn_inputs(model, rng)
        # ONNX Runtime has no kernel for a batch in front.
        expected = ReferenceEvaluator(model).run(None, feed) if by_batch else results(model, feed)
        for one, other in zip(results(unrolled(model), feed), expected, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"clip": 1.0},
        {"activations": ["Relu", "Tanh", "Tanh"]},
        {"given": ["lengths"]},
        {"given": ["", "", "", "P"]},
    ],
    ids=["clip", "activations", "lengths", "peepholes"],
)
def test_what_has_other_options_stays(options) -> None:
    model = recurrent(fresh_rng(), "LSTM", **options)
    assert not unroll_recurrent(ir.from_proto(model))


# -- Convolutions over three axes are convolutions of images; nothing of a volume is left inside
SHAPE = (1, 3, 5, 8, 6)


def volumes_inside(proto: onnx.ModelProto) -> list[str]:
    """Operators that read a tensor of five axes, after the rewrites."""
    return [
        node.op_type
        for node in after_rewrites(proto).graph
        if any(value is not None and len(value.shape or ()) == 5 for value in node.inputs)
    ]


def small(model: Model, end: str) -> str:
    """Two convolutions, a residual, a pool over all three axes, and a dense layer."""
    x = model.input(*SHAPE)
    y = model.add("Conv", x, model.weights(8, 3, 3, 3, 3), model.weights(8), pads=[1] * 6)
    y = model.add("Relu", y)
    z = model.add("Conv", y, model.weights(8, 8, 3, 1, 3), pads=[1, 0, 1, 1, 0, 1])
    y = model.add("Add", y, model.add("Mul", z, model.weights(8, 1, 1, 1)))
    y = model.add("MaxPool", y, kernel_shape=[2, 2, 2], strides=[2, 2, 2])
    if end == "mean":
        y = model.add("Flatten", model.add("GlobalAveragePool", y))
        return model.add("Gemm", y, model.weights(10, 8), model.weights(10), transB=1)
    y = model.add("Flatten", y)
    if end == "Gemm":
        return model.add("Gemm", y, model.weights(10, 8 * 2 * 4 * 3), transB=1)
    return model.add("MatMul", y, model.weights(8 * 2 * 4 * 3, 10))


@pytest.mark.parametrize("end", ["mean", "Gemm", "MatMul"])
def test_a_network_of_volumes_becomes_one_of_images(end) -> None:
    model = Model(fresh_rng())
    proto = model.proto(small(model, end))
    rewritten(proto)
    assert volumes_inside(proto) == ["Gather"] * SHAPE[2]


@pytest.mark.parametrize("_", range(3))
def test_strides_dilations_and_padding_of_the_depth(_) -> None:
    rng = fresh_rng()
    model = Model(rng)
    depth, kernel = int(rng.integers(4, 9)), int(rng.integers(1, 4))
    dilation, stride = int(rng.integers(1, 3)), int(rng.integers(1, 4))
    reach = (kernel - 1) * dilation
    before, after = (int(n) for n in rng.integers(0, reach + 1, 2))
    if depth + before + after <= reach:
        before = after = reach
    y = model.add(
        "Conv",
        model.input(2, 2, depth, 5, 4),
        model.weights(4, 2, kernel, 2, 3),
        strides=[stride, 2, 1],
        dilations=[dilation, 1, 1],
        pads=[before, 1, 0, after, 0, 1],
    )
    y = model.add("AveragePool", y, kernel_shape=[1, 2, 2], strides=[2, 1, 1])
    proto = model.proto(model.add("Concat", y, model.add("Sigmoid", y), axis=1))
    rewritten(proto)
    assert "Conv" not in volumes_inside(proto)


@pytest.mark.parametrize("case", ["groups", "no constant", "deep"])
def test_what_is_not_taken_apart_stays(case) -> None:
    model = Model(fresh_rng())
    shape = (1, 4, 65 if case == "deep" else 4, 4, 4)
    groups = 2 if case == "groups" else 1
    size = (4, 4 // groups, 1, 3, 3)
    weights = model.input(*size, name="w") if case == "no constant" else model.weights(*size)
    y = model.add("Conv", model.input(*shape), weights, group=groups)
    assert rewritten(model.proto(y)) == ["Conv"]


def test_a_small_network_of_volumes_is_one_region() -> None:
    rng = fresh_rng()
    model = Model(rng)
    network = imported(model.proto(small(model, "Gemm")))
    parts = partition(network)
    assert len(parts.regions) == 1
    kinds = {p.kind for p in parts.placements if p.place == "cpu"}
    assert kinds <= {"Gather", "Concat"}  # of the first convolution
    assert_regions_agree(network, parts, noise(network, rng))
    assert np.prod(network.outputs[0].shape) == 10


def test_a_dense_layer_that_turns_its_data_keeps_its_weights() -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 2, 3, 4, 4), model.weights(3, 2, 1, 1, 1))
    y = model.add("Gemm", model.add("Flatten", y), model.weights(1, 5), transA=1)
    assert "Gemm" in rewritten(model.proto(y))
