# SPDX-License-Identifier: Apache-2.0
"""Tensors of ONNX files whose data are elsewhere: found at any place, and refused."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.randomness import fresh_rng

from tilewright.host.common.errors import TilewrightError
from tilewright.host.compiler.divide.relax_onnx import TensorKind
from tilewright.host.compiler.pack.relax_attributes import check_part
from tilewright.host.compiler.read.model_file import read_model
from tilewright.host.network.onnx_file import short, tensors_of


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
        with pytest.raises(TilewrightError):
            read_model(path, {})
