# SPDX-License-Identifier: Apache-2.0
"""Model files as hostile input: whatever the bytes, a table or one `WorkloadError`."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser
from support.randomness import fresh_rng

from tilewright.host.common.errors import TilewrightError, WorkloadError
from tilewright.host.compiler.divide.relax_onnx import TensorKind
from tilewright.host.compiler.pack.relax_attributes import check_part
from tilewright.host.compiler.read.model_file import read_model
from tilewright.host.network.onnx_file import short, tensors_of
from tilewright.host.network.onnx_graph import SMALL_TENSOR_ELEMENTS, read_graph
from tilewright.host.network.onnx_layers import load_onnx


def convolution(shape, body):
    """A model in ONNX's text syntax, with weights ``w`` (4x4x3x3), ``v`` (3x4), zero and six."""
    model = parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> g ({shape} x) => (y) {{ {body} }}'
    )
    for name, dims in (("w", (4, 4, 3, 3)), ("v", (3, 4))):
        model.graph.initializer.append(
            TensorProto(name=name, dims=dims, data_type=TensorProto.FLOAT)
        )
    for name, value in (("zero", 0), ("six", 6)):
        model.graph.initializer.append(numpy_helper.from_array(np.array(value, np.float32), name))
    return model


def pointwise(before=""):
    return convolution("float[1,4,8,8]", before + "y = Conv <pads = [1, 1, 1, 1]> (x, w)")


@pytest.fixture
def load(tmp_path):
    def load_model(model):
        path = tmp_path / "model.onnx"
        path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
        return load_onnx(path)

    return load_model


def refusal(load, model):
    with pytest.raises(WorkloadError) as caught:
        load(model)
    assert caught.value.rule
    assert "model.onnx" in caught.value.field
    return caught.value


def test_a_missing_file_and_a_directory_are_refused(tmp_path):
    with pytest.raises(WorkloadError, match="readable file"):
        load_onnx(tmp_path / "none.onnx")
    with pytest.raises(WorkloadError, match="regular file"):
        load_onnx(tmp_path)
    with pytest.raises(WorkloadError, match="readable file"):
        load_onnx("\0")


def small_models():
    model = convolution(
        "float[N,4,8,8]",
        """c1 = Conv <pads = [1, 1, 1, 1], strides = [1, 1], kernel_shape = [3, 3]> (x, w)
        r1 = Relu (c1)
        c2 = Conv <auto_pad = "SAME_UPPER", dilations = [1, 1], group = 1> (r1, w)
        a = Add (c2, x)
        r2 = Clip (a, zero, six)
        p = GlobalAveragePool (r2)
        f = Flatten (p)
        y = Gemm <transB = 1> (f, v)""",
    )
    quantised = convolution(
        "float[1,4,8,8]",
        """q = QuantizeLinear (x, six)
        d = DequantizeLinear (q, six)
        y = Conv <pads = [1, 1, 1, 1]> (d, w)""",
    )
    return [model.SerializeToString(), quantised.SerializeToString()]


SMALL = small_models()


def succeeds_or_is_refused(load, data):
    """Any exception but `WorkloadError` escapes and fails the test."""
    try:
        message = load(data).name
    except WorkloadError as error:
        message = str(error)
    assert 0 < len(message) < 1000


@pytest.mark.parametrize("data", SMALL)
def test_every_truncation_is_refused_or_read(load, data):
    for length in range(len(data)):
        succeeds_or_is_refused(load, data[:length])


@pytest.mark.parametrize("seed", range(4))
def test_mutated_files_never_raise_anything_else(load, seed):
    # changed bytes often leave a readable model, lengthened and shortened ones seldom do
    rng = random.Random(seed)
    for _ in range(200):
        data = bytearray(rng.choice(SMALL))
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(data))
            action = rng.randrange(10)
            if action < 8:
                data[place] = rng.randrange(256)
            elif action == 8:
                del data[place : place + rng.randint(1, 8)]
            else:
                data[place:place] = rng.randbytes(rng.randint(1, 4))
        succeeds_or_is_refused(load, bytes(data))


def external(model, location):
    tensor = model.graph.initializer[0]
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    return model


@pytest.mark.parametrize(
    "location", ["weights.bin", "../weights.bin", "/etc/passwd", "", "a" * 5000]
)
def test_external_data_must_be_a_file_beside_the_model(load, tmp_path, location):
    (tmp_path.parent / "weights.bin").write_bytes(b"")
    error = refusal(load, external(pointwise(), location))
    assert "external data" in error.rule or "well-formed" in error.rule


def test_external_data_is_checked_but_not_read(load, tmp_path):
    (tmp_path / "weights.bin").write_bytes(b"")
    assert load(external(pointwise(), "weights.bin")).macs == 8 * 8 * 16 * 9


def test_doubling_concatenations_do_not_exhaust_memory(load):
    doubled = "".join(f"s{i + 1} = Concat <axis = 0> (s{i}, s{i})\n" for i in range(48))
    assert load(pointwise(f"s0 = Shape (x)\n{doubled}")).layers == 1


def test_recursive_functions_are_not_expanded(load):
    model = pointwise()
    call = helper.make_node("F", ["x"], ["z"], domain="mine")
    model.graph.node.append(call)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    model.opset_import.append(opsets[1])
    model.functions.append(helper.make_function("mine", "F", ["x"], ["z"], [call], opsets))
    assert load(model).cpu_operators == ("1 x F: not an operator of the accelerator",)


def test_large_constants_lose_their_values_and_small_ones_keep_them(tmp_path):
    model = pointwise()
    for name, size in (("large", SMALL_TENSOR_ELEMENTS + 1), ("small", SMALL_TENSOR_ELEMENTS)):
        model.graph.initializer.append(numpy_helper.from_array(np.ones(size, np.int8), name))
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    tensors = {t.name: t for t in read_graph(path).initializer}
    assert len(tensors["large"].raw_data) == 0
    assert tensors["large"].dims == [SMALL_TENSOR_ELEMENTS + 1]
    assert len(tensors["small"].raw_data) == SMALL_TENSOR_ELEMENTS


def test_names_that_are_not_text_are_refused(load):
    data = pointwise("badname = Relu (x)\n").SerializeToString()
    assert "UTF-8" in refusal(load, data.replace(b"badname", b"bad\xff\xfe\xfdm")).rule


def test_text_for_messages_is_printable_and_short():
    assert short("a\nb" + "c" * 100) == "a?b" + "c" * 57
    assert short(b"\xffok") == "\ufffdok"


# -- A tensor whose data are in another file is found wherever the format of ONNX has a place -----

LONGEST = 7
"""Messages in messages, from the model to the tensor."""


def model() -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"], name="n")], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
    )  # fmt: skip
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def fields(descriptor: Any) -> Iterator[Any]:
    return (field for field in descriptor.fields if field.message_type is not None)


def leads(descriptor: Any, steps: int) -> bool:
    """Whether a tensor can be within a message, so many messages deep at most."""
    return descriptor.name == "TensorProto" or (
        steps > 0 and any(leads(field.message_type, steps - 1) for field in fields(descriptor))
    )


def placed(whole: onnx.ModelProto, rng: np.random.Generator) -> tuple[Any, str]:
    """A new tensor at a random place, and the names of the fields that lead to it."""
    message: Any = whole
    names = []
    for step in range(LONGEST, 0, -1):
        if isinstance(message, TensorProto):
            break
        able = [f for f in fields(message.DESCRIPTOR) if leads(f.message_type, step - 1)]
        field = able[int(rng.integers(len(able)))]
        names.append(field.name)
        value = getattr(message, field.name)
        if hasattr(value, "add"):
            message = value.add()
        else:
            value.SetInParent()
            message = value
    return message, ".".join(names)


def hide(tensor: Any, location: str) -> None:
    tensor.name, tensor.data_type = "t", TensorProto.FLOAT
    tensor.dims[:] = [1]
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)


def test_a_tensor_is_found_at_any_place():
    rng = fresh_rng()
    seen = set()
    for _ in range(400):
        whole = model()
        tensor, names = placed(whole, rng)
        tensor.name = "mine"
        assert [each.name for each in tensors_of(whole)] == ["mine"], names
        seen.add(names)
    assert {"graph.initializer", "training_info.algorithm.initializer"} & seen
    assert any("sparse_tensor" in names for names in seen)
    assert any(names.startswith("functions") for names in seen)


KIND = [TensorKind(shape=(2,), dtype="float32")]


def test_a_part_with_data_elsewhere_is_refused_at_any_place():
    check_part(model().SerializeToString(), KIND, KIND)
    rng = fresh_rng()
    for _ in range(300):
        whole = model()
        tensor, names = placed(whole, rng)
        hide(tensor, "notes.txt")
        with pytest.raises(ValueError, match="a part must"):
            check_part(whole.SerializeToString(), KIND, KIND)
        assert names


@pytest.mark.parametrize("sparse", ["sparse_value", "sparse_tensors", "t", "tensors"])
def test_a_constant_of_a_part_reads_no_file(tmp_path, monkeypatch, sparse):
    """ONNX Runtime reads the values of a sparse constant from a file in the working folder."""
    monkeypatch.chdir(tmp_path)
    Path("secret").write_bytes(b"\0\0\x80?" * 2)
    whole = model()
    node = whole.graph.node[0]
    node.op_type, node.input[:] = "Constant", []
    attribute = node.attribute.add(name="sparse_value")
    if sparse == "sparse_value":
        attribute.type = onnx.AttributeProto.SPARSE_TENSOR
        tensor = attribute.sparse_tensor.values
        attribute.sparse_tensor.indices.CopyFrom(numpy_helper.from_array(np.arange(2)))
        attribute.sparse_tensor.dims[:] = [2]
    elif sparse == "sparse_tensors":
        tensor = attribute.sparse_tensors.add().values
    else:
        tensor = attribute.t if sparse == "t" else attribute.tensors.add()
    hide(tensor, "secret")
    with pytest.raises(ValueError, match="a part must have"):
        check_part(whole.SerializeToString(), [], KIND)


@pytest.mark.parametrize("location", ["../outside", "/etc/hostname", "missing", ""])
def test_no_reader_of_models_takes_data_from_elsewhere(tmp_path, location):
    rng = fresh_rng()
    (tmp_path / "outside").write_bytes(bytes(4))
    path = tmp_path / "in" / "m.onnx"
    path.parent.mkdir()
    for _ in range(60):
        whole = model()
        tensor, names = placed(whole, rng)
        hide(tensor, location)
        if names.startswith("functions"):
            continue  # a function with such a body is refused for its form, too
        path.write_bytes(whole.SerializeToString())
        for read, more in ((read_graph, {}), (read_model, {"input_shapes": {}})):
            with pytest.raises(TilewrightError):
                read(path, **more)
