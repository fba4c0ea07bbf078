# SPDX-License-Identifier: Apache-2.0
from itertools import pairwise

import numpy as np
import onnx
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tilewright.host.common.errors import WorkloadError
from tilewright.host.network.onnx_layers import load_onnx
from tilewright.host.network.workload import Kind
from tilewright.host.network.zoo import load_network


class Builder:
    """A small ONNX graph writer; weights have shapes but no data."""

    def __init__(self, *shape, name="x"):
        self.inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)]
        self.nodes, self.initializers, self.count = [], [], 0

    def weight(self, *dims):
        self.count += 1
        name = f"w{self.count}"
        self.initializers.append(TensorProto(name=name, dims=dims, data_type=TensorProto.FLOAT))
        return name

    def scalar(self, value):
        self.count += 1
        name = f"s{self.count}"
        self.initializers.append(numpy_helper.from_array(np.array(value, np.float32), name))
        return name

    def op(self, kind, *inputs, outputs=1, **attributes):
        self.count += 1
        names = [f"t{self.count}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0]

    def conv(self, x, inputs, outputs, *window, group=1):
        """A convolution; ``window`` is kernel, stride and padding, by default 1, 1, 0."""
        kernel, stride, pad = (*window, *(1, 1, 0)[len(window) :])
        return self.op(
            "Conv", x, self.weight(outputs, inputs // group, kernel, kernel), group=group,
            kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4,
        )  # fmt: skip

    def norm(self, x, channels):
        return self.op("BatchNormalization", x, *(self.weight(channels) for _ in range(4)))

    def dense(self, x, inputs, outputs):
        return self.op("Gemm", x, self.weight(outputs, inputs), self.weight(outputs), transB=1)

    def model(self, *outputs, opset=17):
        infos = [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs]
        graph = helper.make_graph(self.nodes, "g", self.inputs, infos, self.initializers)
        return helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid(d, v) for d, v in (("", opset), ("ai.mine", 1))],
        )


@pytest.fixture
def load(tmp_path):
    def load_model(model):
        path = tmp_path / "model.onnx"
        path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
        return load_onnx(path)

    return load_model


def works(table):
    return {w.key: w.count for w in table.workloads}


def refusal(load, model):
    with pytest.raises(WorkloadError) as caught:
        load(model)
    assert caught.value.rule
    assert "model.onnx" in caught.value.field
    return caught.value


# -- whole networks against the built-in tables --------------------------------------------------


def resnet18_model(projection_first):
    b = Builder("batch", 3, 224, 224)
    x = b.op("Relu", b.norm(b.conv("x", 3, 64, 7, 2, 3), 64))
    x = b.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for before, width in pairwise((64, 64, 128, 256, 512)):
        for index in range(2):
            inputs, stride = (before, 1 + (width > before)) if index == 0 else (width, 1)
            shortcut = x
            if stride == 2 and projection_first:
                shortcut = b.norm(b.conv(x, inputs, width, 1, 2), width)
            y = b.op("Relu", b.norm(b.conv(x, inputs, width, 3, stride, 1), width))
            y = b.norm(b.conv(y, width, width, 3, 1, 1), width)
            if stride == 2 and not projection_first:
                shortcut = b.norm(b.conv(x, inputs, width, 1, 2), width)
            x = b.op("Relu", b.op("Add", *((shortcut, y) if projection_first else (y, shortcut))))
    x = b.op("Flatten", b.op("GlobalAveragePool", x))
    return b.model(b.dense(x, 512, 1000))


def mobilenet_model():
    b = Builder(1, 3, 224, 224)
    low, high = b.scalar(0.0), b.scalar(6.0)

    def clip(x):
        return b.op("Clip", x, low, high)

    x, channels = clip(b.conv("x", 3, 32, 3, 2, 1)), 32
    for t, c, n, s in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
        (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ):  # fmt: skip
        for i in range(n):
            stride, hidden = (s if i == 0 else 1), channels * t
            y = x if t == 1 else clip(b.conv(x, channels, hidden))
            y = clip(b.conv(y, hidden, hidden, 3, stride, 1, group=hidden))
            y = b.conv(y, hidden, c)
            x = b.op("Add", x, y) if stride == 1 and channels == c else y
            channels = c
    x = clip(b.conv(x, 320, 1280))
    return b.model(b.dense(b.op("Flatten", b.op("GlobalAveragePool", x)), 1280, 1000))


def squeezenet_model():
    b = Builder(1, 3, 224, 224)

    def pool(x):
        return b.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)

    x, channels = pool(b.op("Relu", b.conv("x", 3, 64, 3, 2))), 64
    for fire, (squeeze, expand) in enumerate(
        [(16, 64)] * 2 + [(32, 128)] * 2 + [(48, 192)] * 2 + [(64, 256)] * 2, 2
    ):
        x = b.op("Relu", b.conv(pool(x) if fire in (4, 6) else x, channels, squeeze))
        paths = (b.conv(x, squeeze, expand), b.conv(x, squeeze, expand, 3, 1, 1))
        x = b.op("Concat", *(b.op("Relu", p) for p in paths), axis=1)
        channels = 2 * expand
    return b.model(b.op("GlobalAveragePool", b.op("Relu", b.conv(x, 512, 1000))))


@pytest.mark.parametrize("projection_first", [True, False])
def test_resnet18_equals_the_built_in_table_in_either_order_of_the_shortcut(load, projection_first):
    table = load(resnet18_model(projection_first))
    assert works(table) == works(load_network("resnet18"))
    assert table.cpu_operators == (
        "1 x MaxPool: pooling is not tuned",
        "1 x GlobalAveragePool: pooling is not tuned",
        "1 x Flatten: moves data only",
    )


def test_mobilenet_equals_the_built_in_table(load):
    assert works(load(mobilenet_model())) == works(load_network("mobilenet_v2"))


def test_squeezenet_equals_the_built_in_table(load):
    table = load(squeezenet_model())
    assert works(table) == works(load_network("squeezenet1_1"))
    assert "8 x Concat: moves data only" in table.cpu_operators


# -- operators ------------------------------------------------------------------------------------


@given(data=st.data())
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_convolution_attributes_give_the_shape_that_torch_computes(tmp_path, data):
    size = st.integers(1, 3)
    kernel, stride, dilation = (
        (data.draw(size, label=n), data.draw(size, label=n)) for n in ("k", "s", "d")
    )
    pads = [data.draw(st.integers(0, 2), label="pad") for _ in range(4)]
    height, width = data.draw(st.integers(7, 20)), data.draw(st.integers(7, 20))
    depthwise = data.draw(st.booleans())
    inputs, outputs, groups = (6, 6, 6) if depthwise else (6, 5, 1)
    b = Builder(2, inputs, height, width)
    w = b.weight(outputs, inputs // groups, *kernel)
    out = b.op("Conv", "x", w, strides=stride, dilations=dilation, pads=pads, group=groups)
    path = tmp_path / "model.onnx"
    path.write_bytes(b.model(out).SerializeToString())
    (work,) = load_onnx(path).workloads
    top, left, bottom, right = pads
    x = torch.nn.functional.pad(
        torch.zeros(2, inputs, height, width, device="meta"), (left, right, top, bottom)
    )
    weight = torch.zeros(outputs, inputs // groups, *kernel, device="meta")
    y = torch.nn.functional.conv2d(x, weight, None, stride, 0, dilation, groups)
    assert work.output_shape == tuple(y.shape)
    assert work.input_shape == (2, inputs, height, width)
    assert work.weight_shape == tuple(weight.shape)
    assert work.kind is (Kind.DEPTHWISE if depthwise else Kind.CONV2D)
    assert (work.pad_top, work.pad_left, work.pad_bottom, work.pad_right) == tuple(pads)
    assert not work.relu


@pytest.mark.parametrize(
    ("mode", "window", "pads"),
    [
        ("SAME_UPPER", (8, 3, 2), (0, 1)),
        ("SAME_LOWER", (8, 3, 2), (1, 0)),
        ("SAME_UPPER", (7, 3, 1), (1, 1)),
        ("SAME_UPPER", (8, 1, 3), (0, 0)),
        ("SAME_LOWER", (9, 4, 1), (2, 1)),
        ("VALID", (8, 3, 2), (0, 0)),
    ],
)
def test_auto_pad_follows_the_onnx_definition(load, mode, window, pads):
    size, kernel, stride = window
    b = Builder(1, 4, size, size)
    out = b.op("Conv", "x", b.weight(4, 4, kernel, kernel), strides=[stride] * 2, auto_pad=mode)
    (work,) = load(b.model(out)).workloads
    assert (work.pad_top, work.pad_bottom) == pads
    assert (work.pad_left, work.pad_right) == pads
    if mode != "VALID":
        assert work.out_height == -(-size // stride)


def test_activations_of_a_gemm_are_transposed_on_the_cpu(load):
    b = Builder(24, 5)
    gemm = b.op("Gemm", "x", b.weight(24, 40), transA=1, alpha=0.5, beta=2.0)
    table = load(b.model(gemm))
    (work,) = table.workloads
    assert (work.height, work.channels_in, work.channels_out) == (5, 24, 40)
    assert table.cpu_operators == (
        "1 x Transpose: of the activations of a Gemm (transA), moves data only",
    )


def test_matmul_folds_leading_dimensions_into_rows_and_its_bias_into_the_epilogue(load):
    b = Builder(2, 7, 24)
    y = b.op("Add", b.weight(40), b.op("MatMul", "x", b.weight(24, 40)))
    table = load(b.model(b.op("Relu", y)))
    (work,) = table.workloads
    assert (work.height, work.width, work.channels_in, work.channels_out) == (14, 1, 24, 40)
    assert work.relu
    assert table.cpu_operators == ()


# -- epilogues ------------------------------------------------------------------------------------


def epilogue(load, build):
    b = Builder(1, 4, 8, 8)
    y = build(b, b.conv("x", 4, 4, 3, 1, 1))
    table = load(b.model(*(y if isinstance(y, tuple) else (y,))))
    return table.workloads[0].relu, table.workloads[0].residual, table.cpu_operators


@pytest.mark.parametrize(
    ("build", "relu", "residual", "cpu"),
    [
        (lambda b, y: b.op("Relu", y), True, False, 0),
        (lambda b, y: b.op("Clip", y, b.scalar(0), b.scalar(6)), True, False, 0),
        (lambda b, y: b.op("Clip", y, b.scalar(-1), b.scalar(6)), False, False, 1),
        (lambda b, y: b.op("Clip", y, "", b.scalar(6)), False, False, 1),
        (lambda b, y: b.op("Sigmoid", y), False, False, 1),
        (lambda b, y: b.op("Add", y, "x"), False, True, 0),
        (lambda b, y: b.op("Relu", b.op("Add", "x", y)), True, True, 0),
        (lambda b, y: b.op("Add", b.op("Relu", y), "x"), True, False, 1),
        (lambda b, y: b.op("Add", y, y), False, False, 1),
        (lambda b, y: (b.op("Relu", y), y), False, False, 1),
        (lambda b, y: (b.op("Relu", y), b.op("Neg", y)), False, False, 2),
        (lambda b, y: b.op("Add", y, b.op("GlobalAveragePool", "x")), False, False, 2),
        (lambda b, y: b.op("Add", b.op("Add", y, "x"), "x"), False, True, 1),
        (lambda b, y: b.norm(b.op("Relu", y), 4), True, False, 1),
        (lambda b, y: b.norm(b.op("Add", y, "x"), 4), False, True, 1),
        (lambda b, y: b.op("Add", y, b.weight(1, 4, 1, 1)), False, False, 0),
    ],
    ids=[
        "relu", "relu6", "clip-below-0", "clip-open", "sigmoid", "residual", "residual-relu",
        "add-after-relu", "doubled", "also-an-output", "two-readers", "broadcast-add",
        "second-add", "norm-after-relu", "norm-after-add", "bias",
    ],
)  # fmt: skip
def test_epilogue_takes_what_one_vector_pass_can_do(load, build, relu, residual, cpu):
    found_relu, found_residual, operators = epilogue(load, build)
    assert (found_relu, found_residual) == (relu, residual)
    assert len(operators) == cpu


def test_clip_bounds_may_be_attributes(load):
    b = Builder(1, 4, 8, 8)
    model = b.model(b.op("Clip", b.conv("x", 4, 4), min=0.0, max=6.0), opset=10)
    assert load(model).workloads[0].relu


# -- what stays on the CPU ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda b: b.conv("x", 8, 8, 3, 1, 1, group=2), "2 groups of 4 input channels"),
        (lambda b: b.conv("x", 8, 16, 3, 1, 1, group=8), "8 groups of 1 input channels"),
        (lambda b: b.op("Conv", "x", b.op("Identity", "x")), "weights are not constant"),
        (lambda b: b.op("MatMul", "x", "x"), "weights are not constant"),
        (lambda b: b.op("MatMul", b.weight(4, 4), "x"), "its first operand is constant"),
        (
            lambda b: b.op("MatMul", "x", b.weight(1, 8, 8, 8)),
            "its operand has 4 axes; 2 are offloaded",
        ),
        (lambda b: b.op("Conv", "x", b.weight(4, 8, 3, 3), domain="ai.mine"), "not an operator"),
    ],
)
def test_unsupported_operators_are_listed_with_the_reason(load, build, text):
    b = Builder(1, 8, 8, 8)
    table = load(b.model(build(b), b.conv("x", 8, 4)))
    assert len(table.workloads) == 1
    assert any(text in line for line in table.cpu_operators), table.cpu_operators


def test_a_convolution_over_time_is_that_of_an_image_of_one_row(load):
    b = Builder(1, 8, 9)
    y = b.op("Conv", "x", b.weight(4, 8, 3), strides=[2], pads=[2, 1], dilations=[2])
    y = b.op("Conv", y, b.weight(4, 1, 2), group=4, auto_pad="SAME_UPPER")
    first, second, _ = load(b.model(b.op("MatMul", y, b.weight(4, 5)))).workloads
    assert (first.height, first.width, first.kernel_h, first.kernel_w) == (1, 9, 1, 3)
    assert (first.stride_h, first.stride_w, first.dilation_w) == (1, 2, 2)
    assert (first.pad_top, first.pad_left, first.pad_bottom, first.pad_right) == (0, 2, 0, 1)
    assert (second.kind, second.pad_right, second.pad_bottom) == (Kind.DEPTHWISE, 1, 0)
    assert first.macs == 4 * 4 * 8 * 3


def test_a_convolution_over_three_axes_is_listed_with_their_number(load):
    b = Builder(1, 8, 4, 4, 4)
    y = b.op("Conv", "x", b.weight(4, 8, 1, 1, 1))
    table = load(b.model(b.op("MatMul", y, b.weight(4, 5))))
    macs = 4 * 64 * 8
    reason = "its operand has 5 axes; 3 or 4 are offloaded"
    assert table.cpu_operators == (f"1 x Conv: {reason} ({macs:,} MACs)",)
    assert table.cpu_macs == macs


@pytest.mark.parametrize(
    ("build", "macs"),
    [
        (lambda b: b.op("MatMul", "x", "x"), 8 * 8 * 8 * 8),
        (lambda b: b.op("ConvTranspose", "x", b.weight(8, 3, 2, 2)), 8 * 8 * 8 * 3 * 4),
        (lambda b: b.op("Conv", "x", b.weight(4, 4, 3, 3), group=2), 4 * 6 * 6 * 4 * 9),
        (lambda b: b.op("Sigmoid", "x"), 0),
    ],
)
def test_work_that_is_left_to_the_cpu_is_counted(load, build, macs):
    b = Builder(1, 8, 8, 8)
    table = load(b.model(build(b), b.conv("x", 8, 4)))
    assert table.cpu_macs == macs
    assert any(f"({macs:,} MACs)" in line for line in table.cpu_operators) == bool(macs)


def test_a_model_without_supported_operators_is_refused_with_what_it_has(load):
    b = Builder(1, 4, 8, 8)
    error = refusal(load, b.model(b.op("Sigmoid", "x")))
    assert "at least one operator" in error.rule
    assert "Sigmoid" in error.remedy


# -- shapes ---------------------------------------------------------------------------------------


def test_a_dynamic_spatial_shape_is_refused_and_shown(load):
    b = Builder(1, 4, "H", 8)
    error = refusal(load, b.model(b.conv("x", 4, 4)))
    assert "must be static" in error.rule
    assert error.value == (1, 4, "?", 8)
    assert "input sizes" in error.remedy


def test_inconsistent_shapes_are_refused(load):
    b = Builder(1, 4, 8, 8)
    error = refusal(load, b.model(b.op("Conv", "x", b.weight(4, 5, 3, 3))))
    assert "channels must be" in error.rule
    b = Builder(1, 4, 8, 8)
    error = refusal(load, b.model(b.op("Conv", "x", b.weight(4, 4, 3, 3), kernel_shape=[5, 5])))
    assert "kernel_shape must match" in error.rule
    b = Builder(2, 8)
    refusal(load, b.model(b.op("MatMul", "x", b.weight(9, 4))))


@pytest.mark.parametrize(
    "attributes",
    [
        {"strides": [0, 1]},
        {"strides": [1]},
        {"dilations": [1, -1]},
        {"pads": [0, 0, 0, -1]},
        {"pads": [0, 0]},
        {"auto_pad": "SOMETIMES"},
        {"strides": "fast"},
        {"group": 0},
        {"pads": [2**62] * 4},
        {"strides": [2**62] * 2, "dilations": [2**62] * 2},
    ],
)
def test_bad_attributes_are_refused(load, attributes):
    b = Builder(1, 4, 8, 8)
    refusal_or_cpu = b.op("Conv", "x", b.weight(4, 4, 3, 3), **attributes)
    with pytest.raises(WorkloadError):
        load(b.model(refusal_or_cpu))


@pytest.mark.parametrize(
    ("shape", "weight"),
    [
        ((1, 4, 2**31, 2**31), (4, 4, 1, 1)),
        ((1, 2**40, 4, 4), (4, 2**40, 1, 1)),
        ((1, 4, 8, 8), (2**40, 4, 1, 1)),
        ((2**40, 4, 8, 8), (4, 4, 1, 1)),
    ],
)
def test_absurd_sizes_are_refused(load, shape, weight):
    b = Builder(*shape)
    with pytest.raises(WorkloadError):
        load(b.model(b.op("Conv", "x", b.weight(*weight))))


# -- graphs ---------------------------------------------------------------------------------------


def test_cyclic_unsorted_undefined_and_doubled_values_are_refused(load):
    b = Builder(1, 4, 8, 8)
    w = b.weight(4, 4, 1, 1)
    relu = helper.make_node("Relu", ["b"], ["a"])
    conv = helper.make_node("Conv", ["a", w], ["b"])
    for nodes, rule in (
        ([relu, conv], "acyclic"),
        ([helper.make_node("Relu", ["nothing"], ["c"])], "must be defined"),
        ([helper.make_node("Relu", ["x"], ["c"])] * 2, "defined once"),
        ([conv, helper.make_node("Relu", ["x"], ["a"])], "sorted"),
    ):
        b.nodes = nodes
        assert rule in refusal(load, b.model("b")).rule


def test_node_names_become_distinct_layer_names(load):
    b = Builder(1, 4, 8, 8)
    y = b.op("Conv", "x", b.weight(4, 4, 1, 1), name="/stem/conv")
    y = b.op("Conv", y, b.weight(5, 4, 1, 1), name="/stem/conv")
    table = load(b.model(b.op("Conv", y, b.weight(6, 5, 1, 1))))
    names = [w.name for w in table.workloads]
    assert names[0] == "stem.conv"
    assert len(set(names)) == 3
    assert table.name == "model"


def test_models_of_the_onnx_library_agree_with_their_own_checker(load):
    model = resnet18_model(projection_first=False)
    inferred = onnx.shape_inference.infer_shapes(model)
    convs = sum(n.op_type == "Conv" for n in inferred.graph.node)
    assert load(model).layers == convs + 1
