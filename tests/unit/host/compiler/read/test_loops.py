# SPDX-License-Identifier: Apache-2.0
"""Loops and pools that are read in another form give the same results."""

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.networks.onnx_results import assert_same_results, results
from support.networks.small_models import Model
from support.randomness import fresh_rng

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.read import loops
from tilewright.host.compiler.read.loops import unroll_loops
from tilewright.host.compiler.read.model_file import normalised, read_model

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def port(name, kind=FLOAT, *shape):
    return helper.make_tensor_value_info(name, kind, shape)


def scaling(rounds):
    """A loop of its own that multiplies ``t`` with ``w`` of the graph around it."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["on2"], ["go2"]),
            helper.make_node("Mul", ["s2", "w"], ["r2"]),
        ],
        "inner",
        [port("i2", INT64), port("on2", BOOL), port("s2", FLOAT, 2)],
        [port("go2", BOOL), port("r2", FLOAT, 2)],
    )
    return helper.make_node("Loop", [rounds, "", "t"], ["u"], "inner", body=body)


def looped(*, count=4, nested=False, ends=False, read=False):
    """s = (s + i) * w - x in each round; the state and all rounds leave the loop."""
    nodes = [
        helper.make_node("Identity", ["on"], ["go"]),
        helper.make_node("Cast", ["i"], ["f"], to=FLOAT),
        helper.make_node("Add", ["s", "f"], ["t"]),
        scaling("three") if nested else helper.make_node("Mul", ["t", "w"], ["u"]),
        helper.make_node("Add", ["u", "outer"], ["next"]),
        helper.make_node("Identity", ["next"], ["row"]),
    ]
    if ends:
        nodes[0] = helper.make_node("Less", ["i", "three"], ["go"])
    body = helper.make_graph(
        nodes,
        "body",
        [port("i", INT64), port("on", BOOL), port("s", FLOAT, 2)],
        [port("go", BOOL), port("next", FLOAT, 2), port("row", FLOAT, 2)],
        [numpy_helper.from_array(np.array([0.5, 0.25], np.float32), "w")],
    )
    loop = helper.make_node(
        "Loop", ["n" if read else "count", "", "x"], ["y", "rows"], "loop", body=body
    )
    constants = {"count": np.array(count), "three": np.array(3)}
    return helper.make_model(
        helper.make_graph(
            [helper.make_node("Neg", ["x"], ["outer"]), loop],
            "g",
            [port("x", FLOAT, 2), *([port("n", INT64)] if read else [])],
            [port("y", FLOAT, 2), helper.make_tensor_value_info("rows", FLOAT, [None, 2])],
            [numpy_helper.from_array(array, name) for name, array in constants.items()],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )


@pytest.mark.parametrize("model", [looped(ends=True), looped(count=0), looped(read=True)])
def test_loops_whose_rounds_are_not_known_stay(model) -> None:
    assert not unroll_loops(ir.from_proto(model))


def test_a_loop_of_too_many_operators_stays(monkeypatch) -> None:
    monkeypatch.setattr(loops, "MOST_NODES", 23)  # it has 4 rounds of 6
    assert not unroll_loops(ir.from_proto(looped()))
    monkeypatch.setattr(loops, "MOST_NODES", 24)
    assert unroll_loops(ir.from_proto(looped()))


def test_a_file_with_another_loop_keeps_it(tmp_path) -> None:
    onnx.save(looped(ends=True), tmp_path / "loop.onnx")
    model = read_model(tmp_path / "loop.onnx", {})
    assert "Loop" in {node.op_type for node in model.graph.node}


def test_control_flow_of_old_operator_sets_is_refused(tmp_path) -> None:
    path, model = tmp_path / "loop.onnx", looped()
    model.opset_import[0].version = 11
    onnx.save(model, path)
    with pytest.raises(WorkloadError, match=r"must be of operator set 13 or newer, not 11"):
        read_model(path, {})


# -- Pools that round their sizes up become pools of stated padding, with ONNX Runtime's result
def pools(kind: str, height: int, width: int, **attributes: object) -> onnx.ModelProto:
    """Two pools, so that the second takes what the first gives."""
    model = Model(fresh_rng(), opset=19)
    y = model.add(kind, model.input(1, 2, height, width), ceil_mode=1, **attributes)
    return model.proto(model.add(kind, y, ceil_mode=1, kernel_shape=[2, 1], strides=[2, 1]))


def assert_same(model: onnx.ModelProto, height: int, width: int) -> None:
    before = onnx.load_from_string(model.SerializeToString())
    read = normalised(model, Path("pools.onnx"), {})
    data = {"x": fresh_rng().normal(size=(1, 2, height, width)).astype(np.float32)}
    (expected,) = results(before, data)
    stated = [d.dim_value for d in read.graph.output[0].type.tensor_type.shape.dim]
    assert stated == list(expected.shape)
    assert_same_results(before, read, data, atol=1e-6)
    assert not any(a.name == "ceil_mode" and a.i for n in read.graph.node for a in n.attribute)


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
def test_a_window_that_would_begin_behind_the_image_is_none(kind: str) -> None:
    assert_same(pools(kind, 6, 4, kernel_shape=[1, 1], strides=[3, 1]), 6, 4)
    more = {"kernel_shape": [3, 1], "strides": [3, 1], "pads": [1, 0, 2, 0]}
    assert_same(pools(kind, 5, 4, **more), 5, 4)
    assert_same(pools(kind, 9, 7, kernel_shape=[4, 2], strides=[2, 2], auto_pad="VALID"), 9, 7)


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool", "padding counts"])
def test_any_pool_is_what_onnx_runtime_computes(kind: str) -> None:
    rng = fresh_rng()
    counts = {"count_include_pad": 1} if kind == "padding counts" else {}
    for _ in range(20):
        height, width = (int(size) for size in rng.integers(4, 12, 2))
        kernel = rng.integers(1, 5, 2).tolist()
        pads = [int(rng.integers(0, kernel[axis % 2])) for axis in range(4)]
        more = {"kernel_shape": kernel, "strides": rng.integers(1, 4, 2).tolist(), "pads": pads}
        name = "MaxPool" if kind == "MaxPool" else "AveragePool"
        assert_same(pools(name, height, width, **more, **counts), height, width)


def test_dilated_windows_beyond_the_padding_are_refused() -> None:
    more = {"kernel_shape": [1, 3], "strides": [1, 3], "dilations": [1, 2], "pads": [0, 0, 0, 2]}
    with pytest.raises(WorkloadError, match="pooling with dilations must not reach beyond"):
        normalised(pools("MaxPool", 4, 4, **more), Path("pools.onnx"), {})
