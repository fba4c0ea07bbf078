# SPDX-License-Identifier: Apache-2.0
"""Models of old operator sets, raised to a newer one without another meaning.

ONNX's own converter does most of it, and is trusted only where ONNX Runtime computes the same of
random data before and after. It runs operator sets from 7 on. What an older model means is stated
here, operator by operator: until 7 a second operand was laid over the first from a given axis on,
and operators said themselves whether they were in training.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper, version_converter
from onnx.shape_inference import infer_shapes

from tilewright.host.common.errors import WorkloadError, reason_of
from tilewright.host.common.onnx_sessions import open_session
from tilewright.host.network.onnx_file import short

Array = npt.NDArray[Any]

CONVERTED_OPSET: Final = 17
"""What older models are raised to."""

_FIRST_RUNNABLE: Final = 7
"""The oldest operator set that ONNX Runtime runs."""

_HALF_PIXEL_OPSET: Final = 11
"""Since then resizing can be between pixel centres, and is so if it states nothing."""

_NEWER_SET: Final = "export the model for operator set 13 or a newer one"

_OF_PIXELS: Final = "it normalises each pixel by itself: spatial is 0"

_SEED: Final = 0
_CLOSE: Final = 1e-4
"""Largest difference of the two forms, of the largest result: they may add in another order."""


def raised(model: onnx.ModelProto, version: int, path: Path) -> onnx.ModelProto:
    """A model of `CONVERTED_OPSET` that computes the same; the given one is changed.

    Args:
        model: of fixed input shapes, without functions and control flow.
        version: of its operators.
        path: for messages.
    """
    if version < _FIRST_RUNNABLE:
        _state_old_meanings(model, path)
        version = _FIRST_RUNNABLE
        _set_version(model, version)
    for node in model.graph.node:
        if node.op_type == "BatchNormalization" and any(
            a.name == "spatial" and not a.i for a in node.attribute
        ):
            raise _unreadable(node, version, path, _OF_PIXELS)
    try:
        found = version_converter.convert_version(model, CONVERTED_OPSET)
    except Exception as error:  # the C++ library raises kinds of its own
        raise WorkloadError(
            f"ONNX's converter must raise it from operator set {version} ({reason_of(error)})",
            field=str(path),
            remedy=_NEWER_SET,
        ) from error
    _flatten_hardmax(found)
    if version < _HALF_PIXEL_OPSET:
        _state_coordinates(found)
    _require_same(model, found, version, path)
    return found


def _unreadable(node: onnx.NodeProto, version: int, path: Path, reason: str) -> WorkloadError:
    """The error for an operator whose meaning in its old set has none in a newer one."""
    return WorkloadError(
        f"cannot be read in operator set {version} ({reason})",
        field=f"{path}: {short(node.op_type)} {short(node.name)}",
        remedy=_NEWER_SET,
    )


def _set_version(model: onnx.ModelProto, version: int) -> None:
    for entry in model.opset_import:
        if entry.domain in ("", "ai.onnx"):
            entry.version = version


# -- before operator set 7 -----------------------------------------------------------------------


class _Old:
    """A node of an old operator set, and what is around it."""

    def __init__(self, node: onnx.NodeProto, graph: onnx.GraphProto, ranks: Mapping[str, int]):
        self.node = node
        self._graph = graph
        self._ranks = ranks
        self.before: list[onnx.NodeProto] = []

    def take(self, name: str, default: Any) -> Any:
        """The value of an attribute, which is removed."""
        for index, attribute in enumerate(self.node.attribute):
            if attribute.name == name:
                del self.node.attribute[index]
                return onnx.helper.get_attribute_value(attribute)
        return default

    def rank(self, index: int) -> int:
        """Axes of an input."""
        name = self.node.input[index]
        if name not in self._ranks:
            raise ValueError("the shapes of its inputs are not known")
        return self._ranks[name]

    def align(self, index: int, axis: int) -> None:
        """Give an input the axes behind it that let its first axis be one of the other input."""
        behind = self.rank(0) - axis - self.rank(index)
        if axis < 0 or behind < 0:
            raise ValueError(f"its axis {axis} is none of its data")
        if behind:
            name = self.node.input[index]
            wide = f"{name}/{self.node.output[0]}/aligned"
            axes = list(range(self.rank(index), self.rank(index) + behind))
            self.before.append(onnx.helper.make_node("Unsqueeze", [name], [wide], axes=axes))
            self.node.input[index] = wide

    def constant(self, stem: str, values: Array) -> str:
        """A new constant."""
        name = f"{self.node.output[0]}/{stem}"
        self._graph.initializer.append(numpy_helper.from_array(values, name))
        return name


def _overlaid(old: _Old) -> None:
    """``broadcast``: the second operand lies on the first from ``axis`` on, or at its end."""
    old.take("consumed_inputs", None)
    broadcast, axis = old.take("broadcast", 0), old.take("axis", None)
    if broadcast and axis is not None and old.rank(1):
        old.align(1, axis if axis >= 0 else axis + old.rank(0))


def _slopes(old: _Old) -> None:
    """One slope, or one for each channel."""
    old.take("consumed_inputs", None)
    if old.rank(1) == 1 and old.rank(0) > 1:
        old.align(1, 1)


def _in_training(old: _Old) -> None:
    if not old.take("is_test", 0):
        raise ValueError("it is in training mode: it does not state is_test")
    old.take("consumed_inputs", None)


def _normalisation(old: _Old) -> None:
    _in_training(old)
    if not old.take("spatial", 1):
        raise ValueError(_OF_PIXELS)


def _without(*names: str) -> Callable[[_Old], None]:
    def dropped(old: _Old) -> None:
        for name in names:
            old.take(name, None)

    return dropped


def _cast(old: _Old) -> None:
    to = old.take("to", b"")
    if isinstance(to, bytes):
        to = onnx.TensorProto.DataType.Value(to.decode().upper())
    old.node.attribute.append(onnx.helper.make_attribute("to", to))


def _concat(old: _Old) -> None:
    if all(attribute.name != "axis" for attribute in old.node.attribute):
        old.node.attribute.append(onnx.helper.make_attribute("axis", 1))


def _reshape(old: _Old) -> None:
    old.take("consumed_inputs", None)
    if (shape := old.take("shape", None)) is not None:
        old.node.input.append(old.constant("sizes", np.array(shape, np.int64)))


def _pad(old: _Old) -> None:
    if (pads := old.take("paddings", None)) is not None:
        old.node.attribute.append(onnx.helper.make_attribute("pads", pads))


_OVERLAID: Final = ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub",
                    "Xor")  # fmt: skip
_IN_PLACE: Final = ("Abs", "Ceil", "Clip", "Elu", "Exp", "Floor", "HardSigmoid",
                    "InstanceNormalization", "LeakyRelu", "Log", "Max", "Mean", "Min", "Neg",
                    "Reciprocal", "Relu", "Selu", "Sigmoid", "Sqrt", "Sum", "Tanh")  # fmt: skip
"""What before operator set 6 said which inputs it wrote over."""

_MEANINGS: Final[Mapping[str, Callable[[_Old], None]]] = {
    **dict.fromkeys(_OVERLAID, _overlaid),
    **dict.fromkeys(_IN_PLACE, _without("consumed_inputs")),
    "AveragePool": _without(),
    "BatchNormalization": _normalisation,
    "Cast": _cast,
    "Concat": _concat,
    "Dropout": _in_training,
    "Gemm": _without("broadcast"),
    "PRelu": _slopes,
    "Pad": _pad,
    "Reshape": _reshape,
}
"""How to state in operator set 7 what operators that have changed meant before."""


def _state_old_meanings(model: onnx.ModelProto, path: Path) -> None:
    version = next((e.version for e in model.opset_import if e.domain in ("", "ai.onnx")), 1)
    typed = infer_shapes(model, strict_mode=False).graph
    ranks = {
        value.name: len(value.type.tensor_type.shape.dim)
        for value in (*typed.input, *typed.value_info, *typed.output)
        if value.type.tensor_type.HasField("shape")
    }
    ranks |= {tensor.name: len(tensor.dims) for tensor in model.graph.initializer}
    nodes = list(model.graph.node)
    del model.graph.node[:]
    for node in nodes:
        old = _Old(node, model.graph, ranks)
        if node.domain in ("", "ai.onnx") and _has_changed(node.op_type, version):
            meaning = _MEANINGS.get(node.op_type)
            try:
                if meaning is None:
                    raise ValueError("its meaning in that set is not known here")
                meaning(old)
            except ValueError as error:
                raise _unreadable(node, version, path, str(error)) from error
        model.graph.node.extend([*old.before, node])


def _has_changed(kind: str, version: int) -> bool:
    """Whether an operator was another one in an old operator set than it is in 7."""
    then, now = (
        onnx.defs.get_schema(kind, at, "").since_version for at in (version, _FIRST_RUNNABLE)
    )
    return bool(then != now)


# -- what ONNX's converter forgets ----------------------------------------------------------------


def _state_coordinates(model: onnx.ModelProto) -> None:
    """State what old resizing computes, which ONNX's converter leaves to newer defaults."""
    before = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    for node in model.graph.node:
        if node.op_type == "Resize":
            stated = {attribute.name for attribute in node.attribute}
            node.attribute.extend(
                onnx.helper.make_attribute(name, value)
                for name, value in before.items()
                if name not in stated
            )


def _flatten_hardmax(model: onnx.ModelProto) -> None:
    """State that old Hardmax is over an axis and all behind it, which ONNX's converter forgets."""
    nodes = list(model.graph.node)
    del model.graph.node[:]
    for node in nodes:
        if node.op_type != "Hardmax":
            model.graph.node.append(node)
            continue
        data, result = node.input[0], node.output[0]
        axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 1)
        shape, rows, found = (f"{result}_{name}" for name in ("shape", "rows", "found"))
        model.graph.node.extend(
            [
                onnx.helper.make_node("Shape", [data], [shape]),
                onnx.helper.make_node("Flatten", [data], [rows], axis=axis),
                onnx.helper.make_node("Hardmax", [rows], [found], node.name, axis=1),
                onnx.helper.make_node("Reshape", [found, shape], [result]),
            ]
        )


# -- the check -----------------------------------------------------------------------------------


def _require_same(
    before: onnx.ModelProto, after: onnx.ModelProto, version: int, path: Path
) -> None:
    """Refuse a converted model that computes something else of random data than the old one."""
    data = _random_inputs(before)
    try:
        old, new = _run(before, data), _run(after, data)
    except Exception as error:  # ONNX Runtime raises kinds of its own
        raise WorkloadError(
            f"must run in ONNX Runtime, so that its conversion from operator set {version} can be "
            f"checked ({reason_of(error)})",
            field=str(path),
            remedy=_NEWER_SET,
        ) from error
    for value, first, second in zip(before.graph.output, old, new, strict=True):
        if not _is_close(first, second):
            raise WorkloadError(
                f"ONNX's converter changes its results from operator set {version} on",
                field=f"{path}: {short(value.name)}",
                remedy=_NEWER_SET,
            )


def _random_inputs(model: onnx.ModelProto) -> dict[str, Array]:
    rng = np.random.default_rng(_SEED)
    constants = {tensor.name for tensor in model.graph.initializer}
    found = {}
    for value in model.graph.input:
        if value.name in constants:
            continue
        kind = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        drawn = rng.normal(size=shape) if kind.kind == "f" else rng.integers(0, 2, shape)
        found[value.name] = drawn.astype(kind)
    return found


def _run(model: onnx.ModelProto, data: Mapping[str, Array]) -> list[Array]:
    session = open_session(model, optimised=False)
    known = {value.name for value in session.get_inputs()}
    given = {name: array for name, array in data.items() if name in known}
    return list(session.run([value.name for value in model.graph.output], given))


def _is_close(first: Array, second: Array) -> bool:
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    if first.dtype.kind != "f":
        return bool(np.array_equal(first, second))
    largest = np.abs(first[np.isfinite(first)]).max(initial=0.0)
    return bool(np.allclose(first, second, rtol=_CLOSE, atol=_CLOSE * largest, equal_nan=True))
