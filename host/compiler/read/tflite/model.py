# SPDX-License-Identifier: Apache-2.0
"""A TensorFlow Lite file as an ONNX model, because every later stage reads ONNX.

What the file computes between int8 tensors stands between DequantizeLinear and QuantizeLinear with
the file's own scales and zero points; biases are its int32 numbers. Inputs and outputs keep their
names, shapes and types, so images have their channels last. TVM reads such files, too
(``relax.frontend.tflite``), but behind all that is done here.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tilewright.host.common.errors import WorkloadError, reason_of
from tilewright.host.compiler.read.tflite.file import TfliteModel, parse_tflite
from tilewright.host.compiler.read.tflite.graph import OPSET, Graph, Held, Step
from tilewright.host.compiler.read.tflite.operators import CONVERSIONS, KEEPING
from tilewright.host.network.onnx_file import MAX_FILE_BYTES, short

Shapes = Mapping[str, tuple[int, ...]]

_IR: Final = 8
_MOST_NAME: Final = 500


def read_tflite(path: Path, input_shapes: Shapes, named: Path | None = None) -> onnx.ModelProto:
    """The ONNX model of a file.

    Args:
        path: of the file.
        input_shapes: by input name, for axes that the file leaves open; an open batch is 1.
        named: what messages call the file.
    """
    origin = named or path
    return tflite_to_onnx(parse_tflite(tflite_bytes(path, origin), origin), input_shapes, origin)


def tflite_bytes(path: Path, origin: Path) -> bytes:
    """What a file holds."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
            raise WorkloadError(
                "a model must be a regular file smaller than 2 GiB",
                field=str(origin),
                value=status.st_size,
                remedy="name the .tflite file itself",
            )
        return path.read_bytes()
    except OSError as error:
        raise WorkloadError(
            "a model must be a readable file",
            field=str(origin),
            remedy=error.strerror or str(error),
        ) from error


def tflite_to_onnx(source: TfliteModel, input_shapes: Shapes, origin: Path) -> onnx.ModelProto:
    """The ONNX model of a file's records."""
    ends = {index: _end_name(source, index) for index in (*source.inputs, *source.outputs)}
    graph = Graph(origin, ends.values())
    held = Held(source, graph)
    inputs, checked = [], True
    for index in source.inputs:
        tensor, name = source.tensors[index], ends[index]
        shape = _input_shape(source, index, name, input_shapes, origin)
        checked = checked and tensor.stored == shape
        held.keep(index, graph.state(name, shape, tensor.dtype), first=False)
        inputs.append(name)
    if unknown := [name for name in input_shapes if name not in inputs]:
        raise WorkloadError(
            f"must be an input of the model ({', '.join(map(short, inputs))})",
            field="input_shapes",
            value=short(unknown[0]),
            remedy="name the input as the model does",
        )
    for number in range(len(source.operations)):
        _convert(held, number, checked=checked)
    outputs, known = [], dict[str, str]()
    for index in source.outputs:
        if index not in held:
            raise WorkloadError(
                "an output must be computed", field=f"{origin}: {short(ends[index])}",
                remedy="export or copy it again",
            )  # fmt: skip
        name = held.raw(index, first=False)
        outputs.append(graph.renamed(known.get(name, name), ends[index]))
        known.setdefault(name, ends[index])
    return _assembled(graph, inputs, outputs)


def _convert(held: Held, number: int, *, checked: bool) -> None:
    """Add one operator; every tensor is computed before it is read, and once."""
    source, graph = held.source, held.graph
    operation = source.operations[number]
    place = f"operator {number} {operation.kind}"
    step = Step(held, operation, place)
    convert = CONVERSIONS.get(operation.kind)
    if convert is None:
        step.refuse("must be an operator that is read here (docs/reference/operators.md)")
    for index in operation.inputs:
        if index >= 0 and index not in held:
            step.refuse("must read what is computed before it", index, "export or copy it again")
    for index in operation.outputs:
        if index < 0 or index in held:
            step.refuse("must write each tensor once", index, "export or copy it again")
    named = [source.tensors[index].name for index in operation.outputs]
    graph.stem = (named[0].split(";")[-1] if named else "") or place
    rescales = operation.kind == "CONCATENATION" and step.result().dtype == "uint8"
    if operation.kind in KEEPING and not rescales:
        _require_one_scale(step)
    try:
        convert(step)
    except (MemoryError, WorkloadError):
        raise
    except Exception as error:  # libraries raise kinds of their own
        step.refuse(f"must have inputs and options that fit it ({reason_of(error, 80)})")
    for index in operation.outputs:
        tensor = source.tensors[index]
        if index not in held:
            step.refuse("must give each of its outputs", len(operation.outputs))
        if checked and index not in held.unlike and tensor.stored not in (None, held.shape(index)):
            step.refuse(
                f"must have a result of the shape {list(held.shape(index))} that follows from it",
                list(tensor.stored or ()),
                "export or copy it again",
            )


def _require_one_scale(step: Step) -> None:
    """Refuse an operator that copies steps of one scale, as if they had another one."""
    operation, tensors = step.operation, step.source.tensors
    found = [
        (each.quantisation.scale, each.quantisation.zero_point)
        for index in (*operation.inputs, *operation.outputs)
        if index >= 0 and (each := tensors[index]).quantised and each.quantisation is not None
    ]
    for scale, zero in found[1:]:
        alike = scale.shape == found[0][0].shape and np.allclose(scale, found[0][0], rtol=1e-6)
        if not alike or not np.array_equal(zero, found[0][1]):
            step.refuse("must have one scale and zero point for what it reads and gives")


def _end_name(source: TfliteModel, index: int) -> str:
    """The file's own name of an input or output, if it can be one."""
    name = source.tensors[index].name
    alone = sum(source.tensors[i].name == name for i in {*source.inputs, *source.outputs}) == 1
    fits = name.strip() and name.isprintable() and len(name) <= _MOST_NAME
    return name if fits and alone else f"tensor_{index}"


def _input_shape(
    source: TfliteModel, index: int, name: str, given: Shapes, origin: Path
) -> tuple[int, ...]:
    tensor = source.tensors[index]
    field, stated, shape = f"{origin}: {short(name)}", tensor.shape, given.get(name)
    if shape is not None and len(shape) != len(stated):
        raise WorkloadError(
            f"must have {len(stated)} axes", field=field, value=shape,
            remedy="state a size for each axis, also for the fixed ones",
        )  # fmt: skip
    if shape is None:
        shape = tuple(1 if not axis and size < 0 else size for axis, size in enumerate(stated))
    for size, fixed in zip(shape, stated, strict=True):
        if size < 1 or fixed not in (size, -1):
            raise WorkloadError(
                "must have a fixed shape without zeros" if size < 1
                else f"must be {fixed} on a fixed axis",
                field=field,
                value=list(shape),
                remedy="state the sizes of open axes: --shape NAME=1,224,224,3",
            )  # fmt: skip
    return tuple(shape)


def _assembled(graph: Graph, inputs: list[str], outputs: list[str]) -> onnx.ModelProto:
    read = {name for node in graph.nodes for name in node.input}
    made = helper.make_graph(
        graph.nodes,
        "tflite",
        [graph.value(name) for name in inputs],
        [graph.value(name) for name in outputs],
        [numpy_helper.from_array(a, name) for name, a in graph.constants.items() if name in read],
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=_IR)
