# SPDX-License-Identifier: Apache-2.0
"""Old operator sets keep their meaning, which NumPy states here as the old documents do."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.randomness import fresh_rng, generator, sample, where

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.read import old_operator_sets
from tilewright.host.compiler.read.model_file import normalised

PAIRS = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide,
    "Less": np.less, "Greater": np.greater,
}  # fmt: skip


def old_model(node, version, shape, constants=(), result=TensorProto.FLOAT):
    graph = helper.make_graph(
        [node],
        "old",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", result, None)],
        [numpy_helper.from_array(array, name) for name, array in constants],
    )
    opsets = [helper.make_opsetid("", version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=4)


def computed(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    read = normalised(model, Path("old.onnx"), {})
    session = onnxruntime.InferenceSession(
        read.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(["y"], {"x": x})[0]


@pytest.mark.parametrize("number", sample(20, 300))
def test_operands_lie_on_each_other_from_an_axis_on(number) -> None:
    """Sizes are drawn equal, too, where any other axis would fit as well."""
    rng = generator(f"old operand {number}")
    rank = int(rng.integers(1, 5))
    shape = rng.choice([2, 3, 3], rank).tolist()
    first = int(rng.integers(0, rank))
    last = int(rng.integers(first, rank)) + 1
    kind = str(rng.choice(list(PAIRS)))
    b = rng.normal(size=shape[first:last]).astype(np.float32) + 3
    stated = {"axis": first - (rank if rng.random() < 0.3 else 0)}
    if last == rank and rng.random() < 0.5:
        stated = {}  # a suffix needs none
    node = helper.make_node(kind, ["x", "b"], ["y"], broadcast=1, **stated)
    version = int(rng.integers(1, 7)) if kind not in ("Less", "Greater") else 6
    result = TensorProto.BOOL if kind in ("Less", "Greater") else TensorProto.FLOAT
    x = rng.normal(size=shape).astype(np.float32)
    expected = PAIRS[kind](x, b.reshape(*b.shape, *(1,) * (rank - last)))
    found = computed(old_model(node, version, shape, [("b", b)], result), x)
    np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=where(number=number, kind=kind))


@pytest.mark.parametrize("version", [1, 6])
@pytest.mark.parametrize("width", [4, 5])
def test_slopes_are_those_of_the_channels_also_where_columns_are_as_many(version, width) -> None:
    rng = fresh_rng()
    slopes, x = (rng.normal(size=size).astype(np.float32) for size in ((4,), (2, 4, 3, width)))
    model = old_model(
        helper.make_node("PRelu", ["x", "s"], ["y"]), version, x.shape, [("s", slopes)]
    )
    expected = np.where(x < 0, x * slopes[:, None, None], x)
    np.testing.assert_allclose(computed(model, x), expected, rtol=1e-6)


def test_inference_is_what_was_stated_and_training_is_refused() -> None:
    x = fresh_rng().normal(size=(2, 3)).astype(np.float32)
    node = helper.make_node("Dropout", ["x"], ["y"], is_test=1, ratio=0.5)
    np.testing.assert_array_equal(computed(old_model(node, 6, x.shape), x), x)
    node = helper.make_node("Dropout", ["x"], ["y"], ratio=0.5)
    with pytest.raises(WorkloadError, match="training mode"):
        computed(old_model(node, 6, x.shape), x)


def test_an_operator_whose_old_meaning_is_not_stated_is_refused() -> None:
    node = helper.make_node("Upsample", ["x"], ["y"], width_scale=2.0, height_scale=2.0)
    with pytest.raises(WorkloadError, match=r"operator set 1 .*not known"):
        computed(old_model(node, 1, (1, 2, 3, 3)), np.zeros((1, 2, 3, 3), np.float32))


@pytest.mark.parametrize("version", [1, 4])
def test_a_new_constant_is_known_where_weights_are_inputs(version) -> None:
    """Before version 4 of the file format all of them are."""
    model = old_model(helper.make_node("Reshape", ["x"], ["y"], shape=[2, 6]), version, [3, 4])
    model.ir_version = 3
    assert computed(model, np.zeros((3, 4), np.float32)).shape == (2, 6)


@pytest.mark.parametrize("version", [6, 7, 8])
def test_normalisation_of_each_pixel_is_told_in_every_old_set(version) -> None:
    names = "abcd"
    stated = {"spatial": 0, **({"is_test": 1} if version < 7 else {})}
    node = helper.make_node("BatchNormalization", ["x", *names], ["y"], **stated)
    constants = [(name, np.ones((3, 2, 2), np.float32)) for name in names]
    with pytest.raises(WorkloadError, match=rf"set {version} \(it normalises each pixel"):
        computed(old_model(node, version, [1, 3, 2, 2], constants), np.zeros(()))


def test_what_the_converter_changes_is_refused(monkeypatch) -> None:
    """It forgets that Hardmax was over all axes behind its own; without the mend that shows."""
    x = fresh_rng().normal(size=(2, 3, 4)).astype(np.float32)
    model = old_model(helper.make_node("Hardmax", ["x"], ["y"], axis=1), 9, x.shape)
    assert computed(model, x).sum() == 2
    monkeypatch.setattr(old_operator_sets, "_flatten_hardmax", lambda model: None)
    with pytest.raises(WorkloadError, match="converter changes its results"):
        computed(model, x)


@pytest.mark.parametrize("mode", [True, None])
def test_dropout_whose_mode_is_an_input_is_refused_unless_it_is_off(mode) -> None:
    x = np.ones((2, 3), np.float32)
    node = helper.make_node("Dropout", ["x", "", "mode"], ["y"])
    constants = [("mode", np.array(False))]
    np.testing.assert_array_equal(computed(old_model(node, 13, x.shape, constants), x), x)
    model = old_model(node, 13, x.shape, [] if mode is None else [("mode", np.array(mode))])
    if mode is None:
        model.graph.input.append(helper.make_tensor_value_info("mode", TensorProto.BOOL, []))
    with pytest.raises(WorkloadError, match="inference mode"):
        computed(model, x)
