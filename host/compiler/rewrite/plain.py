# SPDX-License-Identifier: Apache-2.0
"""Operators that TVM takes for others, or not at all, as plain ones that it computes rightly.

Normalisation of groups of channels as that of instances, whose channels are the groups.

ONNX Runtime would write it out with shapes that it computes at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Final

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.read.edit import (
    Array,
    Editor,
    array_of,
    axes_of,
    input_of,
    integer,
    integers,
    is_kind,
    number,
    scalar_of,
    shape_of,
    take_place,
)

_EPSILON: Final = 1e-5


def state_groups(model: ir.Model) -> bool:
    """Rewrite what can be, in place; whether anything was."""
    editor, changed = Editor(model.graph), False
    for node in list(model.graph):
        found = _normalised(editor, node) if is_kind(node, "GroupNormalization") else None
        if found is not None:
            take_place(editor, node, found)
            changed = True
    return changed


def _normalised(editor: Editor, node: ir.Node) -> ir.Value | None:
    """Scale and offset are of channels, as since operator set 21."""
    data, shape, groups = node.inputs[0], shape_of(node.inputs[0]), integer(node, "num_groups", 0)
    factors, offsets = (array_of(input_of(node, index)) for index in (1, 2))
    if data is None or shape is None or factors is None or offsets is None or len(shape) < 2:
        return None
    if not factors.size == offsets.size == shape[1]:
        return None
    stem = node.outputs[0].name or "normalised"
    plain = [
        editor.constant(f"{stem}_{name}", np.full(groups, value, np.float32))
        for name, value in (("scale", 1), ("offset", 0))
    ]
    rows = editor.reshaped(node, data, [shape[0], groups, prod(shape[1:]) // groups], stem=stem)
    more = {"epsilon": number(node, "epsilon", _EPSILON)}
    rows = editor.before(node, "InstanceNormalization", [rows, *plain], more, stem=stem, like=rows)
    result = editor.reshaped(node, rows, shape, stem=stem)
    for kind, each in (("Mul", factors), ("Add", offsets)):
        wide = each.astype(np.float32).reshape(-1, *[1] * (len(shape) - 2))
        number_of = editor.constant(f"{stem}_{kind}", wide)
        result = editor.before(node, kind, [result, number_of], stem=stem, like=result)
    return result


_SCORES: Final = 3
"""Output of Attention that holds its scores,"""

_MASKED_SCORES: Final = 2
"""in this mode behind the mask."""

_MVN_EPSILON: Final = 1e-9
"""What ONNX Runtime adds to the deviation in MeanVarianceNormalization."""


def state_plain(editor: Editor) -> None:
    """Rewrite a graph with known shapes, in place."""
    for node in list(editor.graph):
        if node.op_type in _REWRITES and is_kind(node, node.op_type):
            found = _REWRITES[node.op_type](editor, node)
            if found is not None:
                take_place(editor, node, found)
        elif is_kind(node, "Attention"):
            _masked_scores(editor, node)


def write_out_one_hot(editor: Editor) -> None:
    """One-hot vectors as a choice between two numbers, in place."""
    for node in list(editor.graph):
        found = _one_hot(editor, node) if is_kind(node, "OneHot") else None
        if found is not None:
            take_place(editor, node, found)


# -- element by element --------------------------------------------------------------------------


def _clip(_editor: Editor, node: ir.Node) -> None:
    """Of bounds that cross each other the upper one counts, also as the lower one."""
    low, high = array_of(input_of(node, 1)), array_of(input_of(node, 2))
    if low is None or high is None or not low.size == high.size == 1:
        return
    if low.reshape(()) > high.reshape(()):
        node.replace_input_with(1, node.inputs[2])


def _power(editor: Editor, node: ir.Node) -> None:
    """The exponent in the type of the float that it is applied to."""
    base, exponent = node.inputs
    if base is None or exponent is None or base.dtype in (None, exponent.dtype):
        return
    if not base.dtype.is_floating_point():
        return
    stated, stem = array_of(exponent), f"{node.name}_exponent"
    if stated is None:
        plain = _cast(editor, node, exponent, base.dtype, stem)
    else:
        plain = editor.constant(stem, stated.astype(base.dtype.numpy()))
    node.replace_input_with(1, plain)


def _infinite(editor: Editor, node: ir.Node) -> ir.Value | None:
    """Whether numbers are infinite, of one sign: beyond the largest number."""
    signs = [integer(node, f"detect_{sign}", 1) for sign in ("negative", "positive")]
    data = node.inputs[0]
    if all(signs) or data is None or data.dtype is None:
        return None
    largest = np.finfo(data.dtype.numpy()).max
    bound = editor.constant(f"{node.name}_bound", np.array(-largest if signs[0] else largest))
    kind, right = ("Less" if signs[0] else "Greater"), bound if any(signs) else data
    return _before(editor, node, kind, [data, right], like=node.outputs[0])


def _celu(editor: Editor, node: ir.Node) -> ir.Value | None:
    """``alpha * elu(x / alpha)``."""
    alpha, data = number(node, "alpha", 1.0), node.inputs[0]
    if data is None or not alpha > 0:
        return None
    factors = [editor.constant(f"{node.name}_factor", _single(f)) for f in (1 / alpha, alpha)]
    scaled = _before(editor, node, "Mul", [data, factors[0]])
    return _before(editor, node, "Mul", [_before(editor, node, "Elu", [scaled]), factors[1]])


def _one_hot(editor: Editor, node: ir.Node) -> ir.Value | None:
    """Indices of which negative ones count from the end; those outside give no vector a 1."""
    indices, depth, values = node.inputs[0], scalar_of(input_of(node, 1)), node.inputs[2]
    pair, shape = array_of(values), shape_of(node.outputs[0])
    if indices is None or depth is None or pair is None or not shape or pair.size != 2:
        return None
    stem, axis = node.name or "one_hot", integer(node, "axis", -1) % len(shape)
    whole = _cast(editor, node, indices, ir.DataType.INT64, f"{stem}_whole")
    wide = [1 if index == axis else size for index, size in enumerate(shape)]
    sizes = editor.constant(f"{stem}_sizes", np.array(wide, np.int64))
    whole = _before(editor, node, "Reshape", [whole, sizes], shape=wide, like=whole)
    places = np.arange(int(depth)).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    hits = []
    for first in (0, -int(depth)):
        place = editor.constant(f"{stem}_places", (places + first).astype(np.int64))
        hit = _before(editor, node, "Equal", [whole, place], shape=shape, dtype=ir.DataType.BOOL)
        hits.append(hit)
    hit = _before(editor, node, "Or", hits, like=hits[0])
    off, on = (editor.constant(f"{stem}_{name}", pair[i]) for i, name in ((0, "off"), (1, "on")))
    return _before(editor, node, "Where", [hit, on, off], like=node.outputs[0])


# -- rows ----------------------------------------------------------------------------------------


def _masked_scores(editor: Editor, node: ir.Node) -> None:
    """Masked scores that leave are minus infinity, where ONNX Runtime has the least number."""
    masked = integer(node, "qk_matmul_output_mode", 0) == _MASKED_SCORES
    scores = node.outputs[_SCORES] if len(node.outputs) > _SCORES else None
    if scores is None or not masked or not (scores.uses() or scores.is_graph_output()):
        return
    if any(is_kind(use.node, "LessOrEqual") for use in scores.uses()):
        return  # stated already
    stem, users = f"{node.name}_scores", list(scores.uses())
    least = editor.constant(f"{stem}_least", np.array(np.finfo(np.float32).min))
    lowest = editor.constant(f"{stem}_masked", np.array(-np.inf, np.float32))
    hidden = editor.after(
        node, "LessOrEqual", [scores, least], stem=stem, like=scores, dtype=ir.DataType.BOOL
    )
    place = hidden.producer()
    assert place is not None
    stated = editor.after(place, "Where", [hidden, lowest, scores], stem=stem, like=scores)
    for user, index in users:
        user.replace_input_with(index, stated)
    if scores.is_graph_output():
        name = scores.name
        outputs = editor.graph.outputs
        outputs[list(outputs).index(scores)] = stated
        scores.name, stated.name = editor.name(f"{stem}_computed"), name


def _reduction(editor: Editor, node: ir.Node) -> ir.Value | None:
    """A reduction over no axis is what it does to one element; a mean of integers is one."""
    data = node.inputs[0]
    axes, stated = axes_of(node), input_of(node, 1)
    if data is None or (stated is not None and array_of(stated) is None):
        return None
    if not axes and integer(node, "noop_with_empty_axes", 0):
        kind = _OF_ONE[node.op_type]
        return _before(editor, node, kind, [data, data] if kind == "Mul" else [data])
    shape = shape_of(data)
    if node.op_type != "ReduceMean" or data.dtype is None or shape is None:
        return None
    if data.dtype.is_floating_point():
        return None
    chosen = sorted({axis % len(shape) for axis in axes}) or list(range(len(shape)))
    total = _sum(editor, node, data, chosen, keep=bool(integer(node, "keepdims", 1)))
    count = np.array(prod(shape[axis] for axis in chosen), data.dtype.numpy())
    divisor = editor.constant(f"{node.name}_count", count)
    return _before(editor, node, "Div", [total, divisor])


def _sum(
    editor: Editor, node: ir.Node, data: ir.Value, axes: list[int], *, keep: bool = True
) -> ir.Value:
    places = editor.constant(f"{node.name}_axes", np.array(axes, np.int64))
    shape = list(shape_of(data) or ())
    left = [1 if i in axes else size for i, size in enumerate(shape) if keep or i not in axes]
    more = {"keepdims": int(keep)}
    return _before(editor, node, "ReduceSum", [data, places], more, shape=left, dtype=data.dtype)


def _lp_normalisation(editor: Editor, node: ir.Node) -> ir.Value | None:
    """Numbers divided by their length; zeros stay."""
    data, shape = node.inputs[0], shape_of(node.inputs[0])
    if data is None or not shape or data.dtype != ir.DataType.FLOAT:
        return None
    axis = integer(node, "axis", -1) % len(shape)
    squares = integer(node, "p", 2) == 2
    each = [data, data] if squares else [data]
    length = _sum(
        editor, node, _before(editor, node, "Mul" if squares else "Abs", each, like=data), [axis]
    )
    if squares:
        length = _before(editor, node, "Sqrt", [length], like=length)
    least = editor.constant(f"{node.name}_least", np.array(np.finfo(np.float32).tiny))
    length = _before(editor, node, "Max", [length, least], like=length)
    return _before(editor, node, "Div", [data, length])


def _mean_variance(editor: Editor, node: ir.Node) -> ir.Value | None:
    """The distance from the mean, divided by the deviation."""
    data, shape = node.inputs[0], shape_of(node.inputs[0])
    if data is None or not shape or data.dtype != ir.DataType.FLOAT:
        return None
    axes = sorted({axis % len(shape) for axis in integers(node, "axes", (0, 2, 3))})
    share = _single(1 / prod(shape[axis] for axis in axes))
    share_of = editor.constant(f"{node.name}_share", share)
    total = _sum(editor, node, data, axes)
    mean = _before(editor, node, "Mul", [total, share_of], like=total)
    centred = _before(editor, node, "Sub", [data, mean], like=data)
    squares = _sum(editor, node, _before(editor, node, "Mul", [centred, centred], like=data), axes)
    variance = _before(editor, node, "Mul", [squares, share_of], like=total)
    deviation = _before(editor, node, "Sqrt", [variance], like=total)
    epsilon = editor.constant(f"{node.name}_epsilon", _single(_MVN_EPSILON))
    deviation = _before(editor, node, "Add", [deviation, epsilon], like=total)
    return _before(editor, node, "Div", [centred, deviation])


def _layer_normalisation(editor: Editor, node: ir.Node) -> None:
    """A scale and an offset for each element of a row: TVM takes the axes from the scale."""
    shape = shape_of(node.inputs[0])
    if shape is None:
        return
    row = shape[integer(node, "axis", -1) % len(shape) :]
    for index in (1, 2):
        stated = array_of(input_of(node, index))
        if stated is not None and stated.shape != row:
            wide = np.broadcast_to(stated, row).copy()
            node.replace_input_with(index, editor.constant(f"{node.name}_row", wide))


def _top(_editor: Editor, node: ir.Node) -> None:
    """The largest in order, where any order would do."""
    node.attributes.pop("sorted", None)


# -- shapes and places ---------------------------------------------------------------------------


def _shape(editor: Editor, node: ir.Node) -> ir.Value | None:
    """A part of a known shape is a constant, and a shape that leaves the graph.

    TVM computes with other shapes itself.
    """
    shape = shape_of(node.inputs[0])
    whole = not {"start", "end"} & set(node.attributes)
    if shape is None or (whole and not node.outputs[0].is_graph_output()):
        return None
    end = integer(node, "end", len(shape))
    return _stated(editor, node, np.array(shape[integer(node, "start", 0) : end], np.int64))


def _size(editor: Editor, node: ir.Node) -> ir.Value | None:
    shape = shape_of(node.inputs[0])
    return None if shape is None else _stated(editor, node, np.array(prod(shape), np.int64))


def _eye(editor: Editor, node: ir.Node) -> ir.Value | None:
    shape, dtype = shape_of(node.outputs[0]), node.outputs[0].dtype
    if shape is None or dtype is None:
        return None
    rows, columns = shape
    ones = np.eye(rows, columns, integer(node, "k", 0)).astype(dtype.numpy())
    return _stated(editor, node, ones)


def _triangle(editor: Editor, node: ir.Node) -> ir.Value | None:
    """Which elements of a matrix stay is known; the others are 0."""
    data, shape = node.inputs[0], shape_of(node.inputs[0])
    stated = input_of(node, 1)
    diagonal = 0.0 if stated is None else scalar_of(stated)
    if data is None or shape is None or data.dtype is None or diagonal is None:
        return None
    kept = np.ones(shape[-2:], bool)
    upper = bool(integer(node, "upper", 1))
    kept = np.triu(kept, int(diagonal)) if upper else np.tril(kept, int(diagonal))
    mask = editor.constant(f"{node.name}_kept", kept)
    if data.dtype == ir.DataType.BOOL:
        return _before(editor, node, "And", [mask, data])
    zero = editor.constant(f"{node.name}_zero", np.zeros((), data.dtype.numpy()))
    return _before(editor, node, "Where", [mask, data, zero])


def _concat(editor: Editor, node: ir.Node) -> ir.Value | None:
    """Nothing is joined of tensors without elements."""
    full = [value for value in node.inputs if 0 not in (shape_of(value) or ())]
    if len(full) == len(node.inputs) or not full:
        return None
    return _before(editor, node, "Concat", full, {"axis": integer(node, "axis", 0)})


def _split(editor: Editor, node: ir.Node) -> None:
    """No part without elements, which a rotary embedding of all features has."""
    shapes = [shape_of(value) for value in node.outputs]
    empty = [value for value, shape in zip(node.outputs, shapes, strict=True) if 0 in (shape or ())]
    left = [value for value in node.outputs if value not in empty]
    if not empty or None in shapes or not left or any(v.is_graph_output() for v in node.outputs):
        return
    for value in empty:
        dtype = value.dtype or ir.DataType.FLOAT
        nothing = np.zeros(shape_of(value) or (), dtype.numpy())
        ir.convenience.replace_all_uses_with(value, editor.constant(f"{value.name}_of", nothing))
    axis = integer(node, "axis", 0)
    sizes = editor.constant(
        f"{node.name}_sizes", np.array([(shape_of(v) or ())[axis] for v in left], np.int64)
    )
    whole = ir.node(
        "Split", [node.inputs[0], sizes], {"axis": axis}, num_outputs=len(left),
        name=editor.name(node.name or "split"),
    )  # fmt: skip
    editor.graph.insert_before(node, [whole])
    for old, new in zip(left, whole.outputs, strict=True):
        new.name, new.shape, new.type = editor.name(f"{old.name}_of"), old.shape, old.type
        ir.convenience.replace_all_uses_with(old, new)
    editor.graph.remove(node, safe=True)


# -- helpers -------------------------------------------------------------------------------------


def _before(
    editor: Editor,
    node: ir.Node,
    kind: str,
    inputs: list[ir.Value] | list[ir.Value | None],
    attributes: Mapping[str, int] | None = None,
    *,
    like: ir.Value | None = None,
    shape: list[int] | tuple[int, ...] | None = None,
    dtype: ir.DataType | None = None,
) -> ir.Value:
    """The result of a new operator in front of one; as its result, unless more is said."""
    like = node.outputs[0] if like is None and shape is None else like
    stem = node.outputs[0].name or "plain"
    new = editor.before(node, kind, list(inputs), attributes, stem=stem, like=like, dtype=dtype)
    if shape is not None:
        new.shape = ir.Shape(shape)
    return new


def _cast(
    editor: Editor, node: ir.Node, value: ir.Value, dtype: ir.DataType, stem: str
) -> ir.Value:
    if value.dtype == dtype:
        return value
    return editor.before(node, "Cast", [value], {"to": dtype}, stem=stem, like=value, dtype=dtype)


def _stated(editor: Editor, node: ir.Node, array: Array) -> ir.Value | None:
    """A constant in place of a result, also of one that leaves the graph."""
    known = editor.constant(f"{node.name}_known", array)
    if node.outputs[0].is_graph_output():
        return _before(editor, node, "Identity", [known])
    ir.convenience.replace_all_uses_with(node.outputs[0], known)
    editor.graph.remove(node, safe=True)
    return None


def _single(value: float) -> Array:
    return np.array(value, np.float32)


_OF_ONE: Final = {
    "ReduceL1": "Abs", "ReduceL2": "Abs", "ReduceLogSum": "Log", "ReduceLogSumExp": "Identity",
    "ReduceMax": "Identity", "ReduceMean": "Identity", "ReduceMin": "Identity",
    "ReduceProd": "Identity", "ReduceSum": "Identity", "ReduceSumSquare": "Mul",
}  # fmt: skip
"""What a reduction makes of a single element."""
_REWRITES: Final[Mapping[str, Callable[[Editor, ir.Node], ir.Value | None]]] = {
    **dict.fromkeys(_OF_ONE, _reduction),
    "Celu": _celu,
    "Clip": _clip,
    "Concat": _concat,
    "EyeLike": _eye,
    "IsInf": _infinite,
    "LayerNormalization": _layer_normalisation,
    "LpNormalization": _lp_normalisation,
    "MeanVarianceNormalization": _mean_variance,
    "Pow": _power,
    "Shape": _shape,
    "Size": _size,
    "Split": _split,
    "TopK": _top,
    "Trilu": _triangle,
}
