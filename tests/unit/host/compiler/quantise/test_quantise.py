# SPDX-License-Identifier: Apache-2.0
"""Float models become quantised ones: types, scales, names, weights of 4 bits."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx.numpy_helper import to_array
from support.networks.onnx_results import drawn_inputs, results
from support.networks.qdq_runs import assert_near
from support.networks.small_models import Model, imported, noise
from support.randomness import fresh_rng, generator, sample

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.pipeline import partition
from tilewright.host.compiler.quantise.activation_ranges import product_factors
from tilewright.host.compiler.quantise.int4_weights import quantise_groups, quantise_int4
from tilewright.host.compiler.quantise.quantise import quantise
from tilewright.host.compiler.read.edit import array_of, is_kind
from tilewright.host.compiler.read.import_options import QuantiseOptions
from tilewright.host.network.int4_tiles import scales_of


def quantised(model: Model, *outputs: str, **options: bool) -> ir.Model:
    rng = np.random.default_rng(0)
    proto = onnx.shape_inference.infer_shapes(model.proto(*outputs))
    batches = [drawn_inputs(proto, rng) for _ in range(2)]
    return quantise(ir.from_proto(proto), batches, QuantiseOptions(**options))


def nodes(model: ir.Model, *kinds: str) -> list[ir.Node]:
    return [node for node in model.graph if is_kind(node, *kinds)]


def between(node: ir.Node, index: int = 0) -> str:
    """The operator that writes an input of a node."""
    value = node.inputs[index]
    writer = value.producer() if value is not None else None
    return writer.op_type if writer is not None else ""


def test_biases_and_factors_of_products_stay_as_they_are() -> None:
    model = Model(fresh_rng())
    x = model.input(2, 3, 4)
    bias = model.rng.normal(size=5).astype(np.float32)
    a = model.add("Add", model.add("MatMul", x, model.weights(4, 5)), bias)
    b = model.add("MatMul", x, model.weights(4, 5))
    b = model.add("Transpose", b, perm=[0, 2, 1])
    scores = model.add("Div", model.add("MatMul", a, b), np.float32(3))
    found = quantised(model, scores, bias_correction=False)
    (add,) = nodes(found, "Add")
    assert between(add) == "MatMul"
    np.testing.assert_array_equal(array_of(add.inputs[1]), bias)
    (divide,) = nodes(found, "Div")
    assert between(divide) == "MatMul"
    assert array_of(divide.inputs[1]) == np.float32(3)


def test_operators_that_the_accelerator_does_not_take_stay_float() -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 4, 6, 6), model.weights(4, 4, 1, 1))
    shifted = model.add("Add", y, np.float32(1))
    joined = model.add("Concat", y, model.input(1, 4, 6, 6, name="other"), axis=2)
    found = quantised(model, shifted, joined, model.add("HardSwish", y))
    for node in nodes(found, "Add", "Concat", "HardSwish"):
        assert not any(is_kind(use.node, "QuantizeLinear") for use in node.outputs[0].uses())


def rounded(model: ir.Model, kind: str) -> list[bool]:
    """Of each operator of a kind whether its result is rounded."""
    return [
        any(is_kind(use.node, "QuantizeLinear") for use in node.outputs[0].uses())
        for node in nodes(model, kind)
    ]


@pytest.mark.parametrize("kind", ["Neg", "Relu"])
def test_what_the_cpu_alone_reads_at_the_end_is_float(kind) -> None:
    """Boxes from distances: moved, cut, and constants added."""
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 3, 5, 5), model.weights(4, 3, 1, 1))
    y = model.add("Reshape", y, [1, 4, 25])
    y = model.add("Slice", y, *(model.constant(np.array([n])) for n in (0, 2, 1)))
    anchors = model.constant(model.rng.normal(size=(1, 2, 25)).astype(np.float32))
    found = quantised(model, model.add(kind, model.add("Add", y, anchors)))
    taken = kind == "Relu"
    assert rounded(found, "Conv") == [True]
    assert rounded(found, "Reshape") == rounded(found, "Slice") == [taken]
    assert rounded(found, "Add") == [False]  # in a unit with what is behind it, or float
    assert rounded(found, kind) == [taken]


def test_what_a_table_computes_is_rounded_where_it_is_moved_at_the_end() -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 3, 5, 5), model.weights(4, 3, 1, 1))
    for kind in ("Reshape", "Sigmoid", "Reshape"):
        sizes = [model.constant(np.array([1, 4, 25]))] if kind == "Reshape" else []
        y = model.add(kind, y, *sizes)
    found = quantised(model, model.add("Neg", y), activation_tables=True)
    assert rounded(found, "Sigmoid") == [True]
    assert rounded(found, "Reshape") == [True, True]


@pytest.mark.parametrize("asymmetric", [False, True])
def test_quantisation_is_reproducible(asymmetric) -> None:
    seed = int(fresh_rng().integers(2**32))
    found = []
    for _ in range(2):
        model = Model(np.random.default_rng(seed))
        y = model.add("Relu", model.add("Conv", model.input(1, 3, 9, 9), model.weights(6, 3, 3, 3)))
        y = model.add("Conv", y, model.weights(4, 6, 3, 3))
        found.append(ir.to_proto(quantised(model, y, asymmetric=asymmetric)).SerializeToString())
    assert found[0] == found[1]


# -- Weights of 4 bits: their scales, which layers get them, and that they stay int8 in the model
@given(seed=st.integers(0, 2**32 - 1), axis=st.sampled_from([0, 1, None]))
def test_scales_of_channels_have_no_more_error_than_plain_ones(seed: int, axis: int | None) -> None:
    weights = np.random.default_rng(seed).normal(size=(6, 9)) ** 3
    numbers, scales = quantise_int4(weights, axis)
    assert numbers.dtype == np.int8
    assert (numbers.shape, scales.shape) == (weights.shape, (1 if axis is None else (6, 9)[axis],))
    assert -8 <= numbers.min() <= numbers.max() <= 7
    others = None if axis is None else 1 - axis
    plain = np.abs(weights).max(axis=others, keepdims=True) / 7
    shaped = scales if axis is None else np.expand_dims(scales, 1 - axis)
    found = ((numbers * shaped - weights) ** 2).sum()
    assert found <= ((np.rint(weights / plain) * plain - weights) ** 2).sum() * (1 + 1e-6)


@pytest.mark.parametrize("by_channel", [True, False])
@given(
    seed=st.integers(0, 2**32 - 1),
    group=st.sampled_from([(1, 4), (2, 4), (4, 2)]),
    shape=st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 3)),
)
def test_groups_are_4_bit_numbers_times_a_scale(
    seed: int, group: tuple[int, int], shape: tuple[int, int, int], by_channel: bool
) -> None:
    weights = np.random.default_rng(seed).normal(size=shape) ** 3
    numbers, scales = quantise_groups(weights, group, np.zeros(shape[0] if by_channel else 1))
    assert (numbers.shape, numbers.dtype) == (shape, np.int8)
    assert scales.shape == (shape[0] if by_channel else 1,)
    assert (scales > 0).all()
    for o in range(0, shape[0], group[0]):
        for i in range(0, shape[1], group[1]):
            for place in range(shape[2]):
                block = numbers[o : o + group[0], i : i + group[1], place].reshape(1, -1)
                assert scales_of(block).all()
    assert_near(numbers * scales[:, None, None], weights, 0.6)


def network() -> onnx.ModelProto:
    """Convolutions, one of them in groups, a Gemm and a MatMul with its bias."""
    model = Model(np.random.default_rng(7))
    y = model.add("Conv", model.input(2, 4, 6, 6), model.weights(8, 4, 3, 3))
    y = model.add("Conv", y, model.weights(8, 1, 3, 3), group=8)
    y = model.add("Flatten", y)
    y = model.add("Gemm", y, model.weights(16, 32), model.weights(16), transB=1)
    y = model.add("MatMul", y, model.weights(16, 5))
    return onnx.shape_inference.infer_shapes(model.proto(model.add("Add", y, model.weights(5))))


def test_an_unknown_choice_is_refused() -> None:
    with pytest.raises(WorkloadError, match="must be one of none, dense, all"):
        QuantiseOptions(int4_weights="some")  # type: ignore[arg-type]  # the mistake under test


# -- Factors of a product of activations have the zero point 0, wherever they come from
def test_where_factors_come_from_counts_too() -> None:
    model = Model(fresh_rng())
    x = model.input(1, 6, 8)
    query, key, other = (model.add("MatMul", x, model.weights(8, 8)) for _ in range(3))
    turned = model.add("Transpose", key, perm=[0, 2, 1])
    scores = model.add("MatMul", query, turned)
    proto = model.proto(scores, model.add("Relu", other))
    graph = ir.from_proto(onnx.shape_inference.infer_shapes(proto)).graph
    names = {node.name for node in graph}
    assert product_factors(graph, names) == {query, key, turned}
    assert product_factors(graph, names - {scores}) == set()
    quantised = imported(proto, asymmetric=True).qdq.graph
    constants = {tensor.name: to_array(tensor) for tensor in quantised.initializer}
    zero_points = {
        node.input[0]: int(constants[node.input[2]])
        for node in quantised.node
        if node.op_type == "QuantizeLinear"
    }
    assert {zero_points[name] for name in (query, key, turned)} == {0}
    assert zero_points[x] != 0


# -- Tensors that bear names which the quantiser gives keep their values
ENDS = (
    "_scale", "_zero_point", "_quantized", "_QuantizeLinear", "_QuantizeLinear_Input",
    "_QuantizeLinear_Output", "_DequantizeLinear_Output", "_1", "_int8", "_folded", "_copy",
    "_inner", "_bias",
)  # fmt: skip
ODD = ("0", "main", "model_1", "inside_0", "a/b", "%s", "q\n", "\u4e00 \U0001f98a", "x" * 500, "lv")


@pytest.mark.parametrize("number", sample(16, 100))
def test_tensors_and_nodes_may_have_any_names(number) -> None:
    """Each name is one of the others with an end that the quantiser or the compiler gives."""
    rng = generator(f"odd names {number}")
    model = Model(rng)
    x = model.add("Conv", model.input(1, 4, 8, 8), model.weights(4, 4, 3, 3), model.weights(4))
    y = model.add("Mul", model.add("Sigmoid", x), x)
    y = model.add("Max", model.add("Add", x, y), rng.normal(size=(4, 1, 1)).astype(np.float32))
    y = model.add("Conv", y, model.weights(4, 4, 1, 1))
    y = model.add("Mul", y, model.input(1, 4, 1, 1, name="gate"))
    proto = model.proto(model.add("Softmax", model.add("Flatten", y)), y)
    plain = onnx.ModelProto.FromString(proto.SerializeToString())
    tensors = [*proto.graph.input, *proto.graph.initializer]
    olds = [t.name for t in tensors] + [node.output[0] for node in proto.graph.node]
    names = [str(rng.choice(ODD))]
    while len(names) < len(olds):
        wanted = str(rng.choice(names))[-400:] + str(rng.choice(ENDS))
        names += [] if wanted in names else [wanted]
    news = dict(zip(olds, rng.permutation(names).tolist(), strict=True))
    for node in proto.graph.node:
        for each in (node.input, node.output):
            each[:] = [news[name] for name in each]
        node.name = str(rng.choice([*names, ""]))
    for tensor in (*tensors, *proto.graph.output):
        tensor.name = news[tensor.name]
    network = imported(proto)
    assert partition(network).regions
    inputs = noise(network, np.random.default_rng(0))  # the calibration data
    known = {"x": inputs[news["x"]], "gate": inputs[news["gate"]]}
    expected = results(imported(plain).qdq, known)
    for found, exact in zip(results(network.qdq, inputs), expected, strict=True):
        np.testing.assert_array_equal(found, exact)
