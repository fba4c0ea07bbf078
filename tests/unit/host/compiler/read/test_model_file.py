# SPDX-License-Identifier: Apache-2.0
"""Model files as untrusted input: what is read, fixed and refused."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.networks.onnx_results import assert_same_results
from support.networks.small_models import Model
from support.randomness import fresh_rng

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.read import model_file
from tilewright.host.compiler.read.model_file import read_model, with_shapes


def layer(rng_seed: int = 0, opset: int = 17) -> Model:
    model = Model(np.random.default_rng(rng_seed), opset)
    model.add("Conv", model.input(1, 3, 8, 8), model.weights(4, 3, 3, 3))
    return model


def written(tmp_path, proto: onnx.ModelProto):
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def shape_of(model: onnx.ModelProto, name: str) -> list[int]:
    values = (*model.graph.input, *model.graph.value_info, *model.graph.output)
    (value,) = (v for v in values if v.name == name)
    return [dim.dim_value for dim in value.type.tensor_type.shape.dim]


def test_shapes_are_set_on_request(tmp_path) -> None:
    proto = layer().proto("conv0")
    dims = proto.graph.input[0].type.tensor_type.shape.dim
    for index, name in ((0, "batch"), (2, "size"), (3, "size")):
        dims[index].dim_param = name
    path = written(tmp_path, proto)
    assert shape_of(read_model(path, {"x": (2, 3, 10, 12)}), "conv0") == [2, 4, 8, 10]
    with pytest.raises(WorkloadError, match=r"not 'float \(1, 3, size, size\)'; give its sizes"):
        read_model(path, {})
    with pytest.raises(WorkloadError, match="must be 3 on a fixed axis, not 4"):
        read_model(path, {"x": (2, 4, 10, 12)})
    with pytest.raises(WorkloadError, match="must have 4 axes"):
        read_model(path, {"x": (2, 3)})
    with pytest.raises(WorkloadError, match="input_shapes: must be an input of the model"):
        read_model(path, {"y": (2, 3)})


def test_operators_of_the_future_are_refused(tmp_path) -> None:
    version = onnx.defs.onnx_opset_version()
    path = written(tmp_path, layer(opset=version).proto("conv0"))
    with pytest.raises(WorkloadError, match=f"version 26 of ONNX's operators.*not {version}"):
        read_model(path, {})


def test_functions_of_the_model_are_expanded(tmp_path) -> None:
    proto = layer().proto("twice1")
    proto.graph.node.append(helper.make_node("Twice", ["conv0"], ["twice1"], domain="own"))
    proto.opset_import.append(helper.make_opsetid("own", 1))
    body = [helper.make_node("Add", ["a", "a"], ["b"])]
    opset = [helper.make_opsetid("", 17)]
    proto.functions.append(helper.make_function("own", "Twice", ["a"], ["b"], body, opset))
    model = read_model(written(tmp_path, proto), {})
    assert [node.op_type for node in model.graph.node] == ["Conv", "Add"]


@pytest.mark.parametrize(
    ("calls", "message"),
    [(lambda i: i + 1, "nodes once its functions are inlined"), (lambda _: 0, "call themselves")],
)
def test_functions_that_grow_without_end_are_refused(tmp_path, calls, message) -> None:
    proto = layer().proto("grown")
    proto.graph.node.append(helper.make_node("F0", ["conv0"], ["grown"], domain="own"))
    opset = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    proto.opset_import.append(opset[1])
    for number in range(31):
        inner = f"F{calls(number)}" if number < 30 else "Relu"
        domain = "own" if number < 30 else ""
        body = [
            helper.make_node(inner, ["a"], ["c"], domain=domain),
            helper.make_node(inner, ["c"], ["b"], domain=domain),
        ]
        proto.functions.append(helper.make_function("own", f"F{number}", ["a"], ["b"], body, opset))
    with pytest.raises(WorkloadError, match=message):
        read_model(written(tmp_path, proto), {})


def test_weights_beside_the_model_are_loaded_and_others_are_not(tmp_path) -> None:
    proto = layer().proto("conv0")
    expected = onnx.numpy_helper.to_array(proto.graph.initializer[0])
    path = tmp_path / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="weights", size_threshold=0)
    model = read_model(path, {})
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(model.graph.initializer[0]), expected)
    (tmp_path / "weights").rename(tmp_path.parent / "elsewhere")
    (tmp_path / "weights").symlink_to(tmp_path.parent / "elsewhere")
    with pytest.raises(WorkloadError, match="must be a file in the model's directory"):
        read_model(path, {})
    (tmp_path / "weights").unlink()
    with pytest.raises(WorkloadError, match="must be a file in the model's directory"):
        read_model(path, {})


UNUSABLE = {
    "cyclic": "must be a well-formed ONNX model",
    "in training": "must be exported in inference mode",
    "unknown in a body": "must be an operator of standard ONNX, not 'Mish2'",
    "huge": "must have at most 2147483648 elements",
    "huge weights": "must have at most 2147483648 elements",
    "huge constant": "computed must have at most 67108864 elements, not .1, 134217728.",
    "long name": "must be a name of at most 512 characters",
    "blank name": "characters that are not all blank",
    "of a layout": "optimised the model.*ORT_ENABLE_BASIC",
    "channels last": "optimised the model.*ORT_ENABLE_BASIC",
    "input of a sequence": "an input must be a tensor|must be a well-formed",
    "of the future": "must be an operator set from 1 to",
    "sparse": "must not have sparse weights",
    "many nodes": "must have at most 10000 nodes",
    "no nodes": "at least one node",
}


def make_unusable(proto: onnx.ModelProto, what: str) -> None:
    graph, first = proto.graph, proto.graph.node[0]
    match what:
        case "cyclic":
            first.input[0] = "relu1"
        case "in training":
            first.attribute.add(name="training_mode", i=1, type=onnx.AttributeProto.INT)
        case "unknown in a body":
            branch = helper.make_graph([helper.make_node("Mish2", ["x"], ["y"])], "b", [], [])
            graph.node.append(
                helper.make_node("If", ["c"], ["z"], then_branch=branch, else_branch=branch)
            )
        case "long name":
            first.name = "n" * 1000
        case "blank name":
            first.input[1] = graph.initializer[0].name = " "
        case "of a layout":
            first.domain = "com.microsoft.nchwc"
        case "channels last":
            first.domain = "com.microsoft"
            first.attribute.append(helper.make_attribute("channels_last", 1))
        case "input of a sequence":
            inner = helper.make_tensor_type_proto(TensorProto.FLOAT, [1])
            graph.input[0].type.CopyFrom(helper.make_sequence_type_proto(inner))
        case "of the future":
            proto.opset_import[0].version = 1000
        case "sparse":
            graph.sparse_initializer.add()
        case "no nodes":
            del graph.node[:]
        case _:
            make_too_large(graph, what)


def make_too_large(graph: onnx.GraphProto, what: str) -> None:
    match what:
        case "huge":
            dims = graph.input[0].type.tensor_type.shape.dim
            dims[2].dim_value = dims[3].dim_value = 2**20
        case "huge weights":
            graph.initializer[0].dims[0] = 2**40
        case "huge constant":
            sizes = onnx.numpy_helper.from_array(np.array([1, 2**27]), "sizes")
            graph.initializer.append(sizes)
            graph.node.append(helper.make_node("ConstantOfShape", ["sizes"], ["huge"]))
        case _:
            graph.node.extend([graph.node[0]] * 10_000)


@pytest.mark.parametrize("what", UNUSABLE)
def test_unusable_models_are_refused(tmp_path, what) -> None:
    model = layer()
    proto = model.proto(model.add("Relu", "conv0"))
    make_unusable(proto, what)
    with pytest.raises(WorkloadError, match=UNUSABLE[what]) as caught:
        read_model(written(tmp_path, proto), {})
    assert str(tmp_path) in str(caught.value)


def test_unreadable_files_are_refused(tmp_path) -> None:
    with pytest.raises(WorkloadError, match="must be a readable file"):
        read_model(tmp_path / "missing.onnx", {})
    with pytest.raises(WorkloadError, match="must be a regular file"):
        read_model(tmp_path, {})
    path = tmp_path / "text.onnx"
    path.write_text("this is no model")
    with pytest.raises(WorkloadError, match=r"is not protobuf|operator set"):
        read_model(path, {})


def test_half_precision_is_widened(tmp_path) -> None:
    proto = layer().proto("conv0")
    values = {t.name: onnx.numpy_helper.to_array(t) for t in proto.graph.initializer}
    for tensor in proto.graph.initializer:
        half = values[tensor.name].astype(np.float16)
        tensor.CopyFrom(onnx.numpy_helper.from_array(half, tensor.name))
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    node = proto.graph.node[-1]
    cast = onnx.helper.make_node("Cast", node.output, ["cast"], to=onnx.TensorProto.BFLOAT16)
    scale = onnx.helper.make_tensor("two", onnx.TensorProto.BFLOAT16, (), [2.0])
    constant = onnx.helper.make_node("Constant", [], ["two"], value=scale)
    proto.graph.node.extend([cast, constant, onnx.helper.make_node("Mul", ["cast", "two"], ["y"])])
    proto.graph.output[0].name = "y"
    proto.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.BFLOAT16
    model = read_model(written(tmp_path, proto), {})
    kinds = {v.type.tensor_type.elem_type for v in (*model.graph.input, *model.graph.value_info)}
    assert kinds | {model.graph.output[0].type.tensor_type.elem_type} == {onnx.TensorProto.FLOAT}
    for tensor in model.graph.initializer:
        wide = onnx.numpy_helper.to_array(tensor)
        assert wide.dtype == np.float32
        assert np.array_equal(wide, values[tensor.name].astype(np.float16))
    (two,) = (n.attribute[0].t for n in model.graph.node if n.op_type == "Constant")
    assert onnx.numpy_helper.to_array(two) == np.float32(2)


def test_shapes_follow_without_the_elements_of_large_constants(tmp_path, monkeypatch) -> None:
    model = Model(np.random.default_rng(0))
    y = model.add("Conv", model.input(1, 64, 8, 8), model.weights(64, 64, 3, 3))
    y = model.add("Reshape", y, np.array([1, -1, 4], np.int64))
    y = model.add("MatMul", y, model.weights(4, 5))
    proto = model.proto(y)
    path = written(tmp_path, proto)
    sizes = []

    def infer(given: onnx.ModelProto, **options: bool) -> onnx.ModelProto:
        sizes.append(given.ByteSize())
        return onnx.shape_inference.infer_shapes(given, **options)

    monkeypatch.setattr(model_file, "infer_shapes", infer)
    read = read_model(path, {})
    assert sizes
    assert max(sizes) < 4096
    assert list(read.graph.initializer) == list(proto.graph.initializer)
    assert shape_of(read, y) == [1, 576, 5]
    before = read.SerializeToString()
    whole = onnx.shape_inference.infer_shapes(read)
    assert with_shapes(read) == whole
    assert read.SerializeToString() == before


@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("opset", [7, 9, 10])
def test_old_resizing_computes_what_it_did(tmp_path, opset, mode) -> None:
    rng = fresh_rng()
    model, scales = Model(rng, opset), np.array([1, 1, 2, 2.5], np.float32)
    kind = "Resize" if opset == 10 else "Upsample"
    more = {"scales": scales.tolist()} if opset == 7 else {}
    given = [] if more else [model.constant(scales)]
    proto = model.proto(model.add(kind, model.input(1, 2, 3, 4), *given, mode=mode, **more))
    proto.ir_version = 7
    changed = read_model(written(tmp_path, proto), {})
    data = {"x": rng.normal(size=(1, 2, 3, 4)).astype(np.float32)}
    assert_same_results(proto, changed, data, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axis", [None, 0, 1, 2])
@pytest.mark.parametrize("opset", [7, 11, 12])
def test_old_hardmax_is_over_an_axis_and_all_behind_it(tmp_path, opset, axis) -> None:
    rng = fresh_rng()
    model = Model(rng, opset)
    more = {} if axis is None else {"axis": axis}
    proto = model.proto(model.add("Hardmax", model.input(2, 3, 4), **more))
    proto.ir_version = 7
    changed = read_model(written(tmp_path, proto), {})
    assert_same_results(proto, changed, {"x": rng.normal(size=(2, 3, 4)).astype(np.float32)})
