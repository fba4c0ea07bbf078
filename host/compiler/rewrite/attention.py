# SPDX-License-Identifier: Apache-2.0
"""What models write around attention, in forms that the accelerator takes.

- Constants that are added to scores one after another, and scores that a constant condition
  replaces by a number far below, are one constant that is added before the softmax.
- Masks that are given at run time are one row that is added behind it (`onnx_masks`).
- Queries, keys and values that one dense layer computes are slices of its channels, before they are
  cut into heads.
- One token of a sequence, taken by its number, is a slice of the tokens and a change of shape.
- Tokens that are images of one token each, (T, 1, C), are one sequence for a dense layer.
- A constant that is added to a sequence, such as positions, has the sequence's shape.

No rewrite changes a result, but that a masked score counts as minus infinity, whose softmax is 0.
Where all tokens are masked at run time, none is.
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod
from typing import Final

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.read.edit import (
    Array,
    Editor,
    array_of,
    input_of,
    integer,
    integers,
    is_kind,
    is_single,
    only_user,
    scalar_of,
    shape_of,
    stand_for,
)
from tilewright.host.compiler.rewrite.masks import MASKED, RunTimeMasks, masked_scores

_RANK: Final = 3
_CHAIN: Final = 8
"""Moves that are followed at most."""


def features_taken(value: ir.Value) -> tuple[ir.Value, range] | None:
    """The sequence (B, T, C), and the features of it, whose elements a value has, in order."""
    chain: list[ir.Node] = []
    current: ir.Value | None = value
    while current is not None and len(chain) < _CHAIN:
        node = current.producer()
        if not is_kind(node, "Gather", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"):
            return None
        chain.append(node)
        current = node.inputs[0]
        shape = shape_of(current)
        if current is None or shape is None:
            return None
        if len(shape) == _RANK and prod(shape) > prod(shape_of(value) or ()):
            taken = _features(chain, shape)
            if taken is not None:
                return current, taken
    return None


def _features(chain: list[ir.Node], shape: tuple[int, ...]) -> range | None:
    numbers: Array | None = np.arange(prod(shape)).reshape(shape)
    for node in reversed(chain):
        numbers = None if numbers is None else _moved(node, numbers)
    if numbers is None or not numbers.size:
        return None
    flat, pixels = numbers.reshape(-1), prod(shape[:2])
    first, count = int(flat[0]), flat.size // pixels
    if flat.size % pixels or first + count > shape[2]:
        return None
    part = np.arange(prod(shape)).reshape(shape)[:, :, first : first + count]
    return range(first, first + count) if np.array_equal(part.reshape(-1), flat) else None


def _moved(node: ir.Node, array: Array) -> Array | None:
    """What a move makes of an array; None: it is none that is known."""
    shape = shape_of(node.outputs[0])
    if shape is None:
        return None
    if is_kind(node, "Transpose"):
        return array.transpose(integers(node, "perm", range(array.ndim)[::-1]))
    if is_kind(node, "Gather"):
        places = array_of(input_of(node, 1))
        return None if places is None else np.take(array, places, integer(node, "axis", 0))
    if is_kind(node, "Slice"):
        return _sliced_numbers(node, array)
    return array.reshape(shape) if prod(shape) == array.size else None


def _sliced_numbers(node: ir.Node, array: Array) -> Array | None:
    bounds = [array_of(input_of(node, index)) for index in range(1, 5)]
    if bounds[0] is None or bounds[1] is None:
        return None
    starts, ends = bounds[0].reshape(-1), bounds[1].reshape(-1)
    axes = range(len(starts)) if bounds[2] is None else bounds[2].reshape(-1)
    steps = [1] * len(starts) if bounds[3] is None else bounds[3].reshape(-1)
    places = [slice(None)] * array.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        places[int(axis)] = slice(int(start), int(end), int(step))
    return array[tuple(places)]


_SEQUENCE_RANK: Final = 3


def state_attention(
    editor: Editor, *, masks: bool = False, mask_inputs: Collection[str] = ()
) -> None:
    """Rewrite a graph with known shapes, in place."""
    reader = RunTimeMasks(editor, mask_inputs) if masks else None
    for node in list(editor.graph):
        if is_kind(node, "Softmax"):
            _add_once(editor, node, reader)
        elif is_kind(node, "Where") and masks:
            _drop_guard(node)
        elif is_kind(node, "Gather"):
            if not _slice_token(editor, node):
                _slice_features(editor, node)
        elif is_kind(node, "Squeeze"):
            _slice_features(editor, node)
        elif is_kind(node, "Add"):
            _widen_constant(editor, node)
        elif is_kind(node, "MatMul"):
            _gather_tokens(editor, node)
    if masks:
        editor.drop_unused()  # what masks were before, which reads scores too


def added_constant(node: ir.Node | None) -> tuple[ir.Value, Array] | None:
    """The value and the constant that an addition adds, if it keeps the value's shape."""
    if not is_kind(node, "Add"):
        return None
    for value, other in (node.inputs[:2], node.inputs[1::-1]):
        array, shape = array_of(other), shape_of(node.outputs[0])
        if value is None or array is None or array.dtype != np.float32 or shape is None:
            continue
        if array_of(value) is None and shape_of(value) == shape:
            return value, array
    return None


def _masking(node: ir.Node | None) -> tuple[ir.Value, Array] | None:
    """The value that a constant condition masks, and what to add to it instead."""
    if not is_kind(node, "Where"):
        return None
    condition, shape = array_of(node.inputs[0]), shape_of(node.outputs[0])
    if condition is None or shape is None:
        return None
    for value, other, keeps in (
        (node.inputs[1], node.inputs[2], True),
        (node.inputs[2], node.inputs[1], False),
    ):
        number = array_of(other)
        if not is_single(value) or number is None or shape_of(value) != shape:
            continue
        if array_of(value) is None and number.size and number.max() <= MASKED:
            return value, np.where(condition == keeps, 0, -np.inf).astype(np.float32)
    return None


def _add_once(editor: Editor, softmax: ir.Node, masks: RunTimeMasks | None) -> None:
    """One addition of a constant, and one of a mask, for all that are in front of a softmax."""
    value, found = softmax.inputs[0], []
    rows: list[ir.Value] = []
    while value is not None and only_user(value) is not None:
        node = value.producer()
        step = added_constant(node) or _masking(node)
        if step is not None:
            value = step[0]
            found.append(step[1])
            continue
        masked = None if masks is None else masks.read(node, softmax)
        if masked is None:
            break
        value = masked.value
        found += masked.constants
        rows += masked.rows
    plain = len(found) == 1 and is_kind(softmax.inputs[0].producer(), "Add")  # type: ignore[union-attr]  # found: there is one
    shape = shape_of(value)
    if value is None or shape is None or (not rows and (plain or not found)):
        return
    if found:
        total = np.zeros((), np.float32)
        for array in found:
            total = total + array
        kept = np.broadcast_to(total > -np.inf, shape)
        if not kept.any(axis=integer(softmax, "axis", -1)).all():
            return  # a row without any place has no softmax
        stem = f"{value.name}_masked"
        addend = editor.constant(f"{stem}_addend", np.asarray(total, np.float32))
        value = editor.before(softmax, "Add", [value, addend], stem=stem, like=softmax.inputs[0])
    if masks is not None and rows:
        value = masks.added(value, rows, softmax)
    softmax.replace_input_with(0, value)


def _drop_guard(node: ir.Node) -> None:
    """No test for rows that are masked everywhere, which leave no numbers: none of them is."""
    test, result = None if node.inputs[0] is None else node.inputs[0].producer(), node.inputs[2]
    softmax = None if result is None else result.producer()
    if result is None or not is_kind(softmax, "Softmax") or softmax.inputs[0] is None:
        return
    if not is_kind(test, "IsNaN") or test.inputs[0] is not result or scalar_of(node.inputs[1]) != 0:
        return
    added = softmax.inputs[0].producer()
    step = added_constant(added)
    if step is None:
        needless = masked_scores(added) is not None
    else:
        needless = not np.isneginf(np.atleast_1d(step[1])).all(axis=-1).any()
    if needless and not node.outputs[0].is_graph_output():
        ir.convenience.replace_all_uses_with(node.outputs[0], result)


def _slice_token(editor: Editor, node: ir.Node) -> bool:
    """A slice and a change of shape for one token that is taken by its number."""
    data, result, index = node.inputs[0], node.outputs[0], array_of(input_of(node, 1))
    shape, target = shape_of(data), shape_of(result)
    if data is None or index is None or index.size != 1 or shape is None or target is None:
        return False
    if len(shape) != _SEQUENCE_RANK or integer(node, "axis", 0) % _SEQUENCE_RANK != 1:
        return False
    number = int(index.reshape(())) % shape[1]
    token = _sliced(editor, node, data, 1, range(number, number + 1))
    _take_place(editor, node, _reshaped(editor, node, token, target))
    return True


def _slice_features(editor: Editor, node: ir.Node) -> None:
    """A slice of features for one position of the axis that they are cut into first.

    Permutations of the axes may lie before and behind the choice of the position.
    """
    taken = features_taken(node.outputs[0])
    if taken is not None:
        part = _sliced(editor, node, taken[0], 2, taken[1])
        shape = shape_of(node.outputs[0]) or ()
        _take_place(editor, node, _reshaped(editor, node, part, shape))
        return
    picked = _picked(node)
    if picked is None:
        return
    value, order, axis, position = picked
    source, cut = value.producer(), shape_of(value)
    data = source.inputs[0] if is_kind(source, "Reshape") else None
    before = shape_of(data)
    if data is None or before is None or cut is None or len(before) != _SEQUENCE_RANK:
        return
    if axis != _SEQUENCE_RANK - 1 or cut[:2] != before[:2] or len(cut) <= _SEQUENCE_RANK:
        return
    size = prod(cut[_SEQUENCE_RANK:])
    part = _sliced(editor, node, data, 2, range(position * size, (position + 1) * size))
    shaped = _reshaped(editor, node, part, (*cut[:2], *cut[_SEQUENCE_RANK:]))
    perm = [place - (place > axis) for place in order if place != axis]
    stem = f"{node.name}_turned"
    turned = editor.before(node, "Transpose", [shaped], {"perm": perm}, stem=stem, like=shaped)
    turned.shape = node.outputs[0].shape
    _take_place(editor, node, turned)


def _picked(node: ir.Node) -> tuple[ir.Value, list[int], int, int] | None:
    """What a node takes one position of an axis of, without that axis, through permutations."""
    value, shape = node.inputs[0], shape_of(node.inputs[0])
    number = array_of(input_of(node, 1))
    if value is None or shape is None or number is None or number.size != 1:
        return None
    order, position = list(range(len(shape))), None
    if is_kind(node, "Gather"):
        axis = integer(node, "axis", 0) % len(shape)
        position = int(number.reshape(())) % shape[axis]
        if number.ndim:
            return None
    else:
        axis = int(number.reshape(())) % len(shape)
    while True:
        source = value.producer()
        if is_kind(source, "Transpose"):
            perm = integers(source, "perm", range(len(shape))[::-1])
            order, axis = [perm[place] for place in order], perm[axis]
        elif position is None and is_kind(source, "Slice"):
            position = _only_position(source, axis)
            if position is None:
                return None
        else:
            break
        if source.inputs[0] is None:
            return None
        value = source.inputs[0]
    return None if position is None else (value, order, axis, position)


def _only_position(node: ir.Node, axis: int) -> int | None:
    """The one position of an axis that a slice takes, if it takes all of the others."""
    shape, sizes = shape_of(node.inputs[0]), shape_of(node.outputs[0])
    bounds = [array_of(input_of(node, index)) for index in (1, 2, 3)]
    steps = array_of(input_of(node, 4)) if input_of(node, 4) is not None else np.array(1)
    stated = [each for each in (*bounds, steps) if each is not None and each.size == 1]
    if shape is None or sizes is None or len(stated) != 4:
        return None
    start, end, cut, step = (int(each.reshape(())) for each in stated)
    left = [each for each, size in enumerate(shape) if sizes[each] != size]
    if cut % len(shape) != axis or left not in ([axis], []) or sizes[axis] != 1:
        return None
    places = range(shape[axis])[start:end:step]
    return places[0] if len(places) == 1 else None


def _sliced(editor: Editor, node: ir.Node, data: ir.Value, axis: int, places: range) -> ir.Value:
    """Some neighbours along an axis of a sequence."""
    stem = node.outputs[0].name or "part"
    bounds = [
        editor.constant(f"{stem}_{name}", np.array([value], np.int64))
        for name, value in (("start", places.start), ("end", places.stop), ("axis", axis))
    ]
    part = editor.before(node, "Slice", [data, *bounds], stem=f"{stem}_kept", like=data)
    sizes = list(shape_of(data) or ())
    sizes[axis] = len(places)
    part.shape = ir.Shape(sizes)
    return part


def _reshaped(editor: Editor, node: ir.Node, data: ir.Value, shape: tuple[int, ...]) -> ir.Value:
    return editor.reshaped(node, data, shape, stem=f"{node.outputs[0].name or 'part'}_shaped")


def _take_place(editor: Editor, node: ir.Node, new: ir.Value) -> None:
    """Let a value replace a node's result everywhere, under its name."""
    stand_for(node.outputs[0], new)
    editor.graph.remove(node, safe=True)


def _widen_constant(editor: Editor, node: ir.Node) -> None:
    """A constant of a sequence's shape, where it is not one number for each feature."""
    step, shape = added_constant(node), shape_of(node.outputs[0])
    if step is None or shape is None or len(shape) != _SEQUENCE_RANK:
        return
    array = step[1]
    if array.shape == shape or array.size == 1 or array.size == array.shape[-1]:
        return
    index = 1 if node.inputs[0] is step[0] else 0
    whole = np.ascontiguousarray(np.broadcast_to(array, shape))
    node.replace_input_with(index, editor.constant(f"{node.name}_whole", whole))


def _gather_tokens(editor: Editor, node: ir.Node) -> None:
    """A dense layer, with its bias, of (1, T, C) for one of (T, 1, C)."""
    data, shape = node.inputs[0], shape_of(node.inputs[0])
    weights = array_of(input_of(node, 1))
    if data is None or shape is None or weights is None or weights.ndim != 2:
        return
    if len(shape) != _SEQUENCE_RANK or shape[1] != 1 or shape[0] == 1:
        return
    last, user = node, only_user(node.outputs[0])
    step = added_constant(user)
    if user is not None and step is not None and _is_of_channels(step[1], weights.shape[1]):
        last = user
    node.replace_input_with(0, _reshaped(editor, node, data, (1, shape[0], shape[2])))
    apart, together = (shape[0], 1, weights.shape[1]), (1, shape[0], weights.shape[1])
    result = last.outputs[0]
    users = list(result.uses())
    for each in (node, last):
        each.outputs[0].shape = ir.Shape(together)
    sizes = editor.constant(f"{result.name}_sizes", np.array(apart, np.int64))
    stem = result.name or "tokens"
    back = editor.after(last, "Reshape", [result, sizes], stem=f"{stem}_apart", like=result)
    back.shape = ir.Shape(apart)
    for reader, index in users:
        reader.replace_input_with(index, back)
    if result.is_graph_output():
        outputs = editor.graph.outputs
        outputs[list(outputs).index(result)] = back
        result.name, back.name = editor.name(f"{stem}_together"), stem


def _is_of_channels(array: Array, channels: int) -> bool:
    """Whether a constant has one number for each channel, which are last."""
    return array.size == channels and array.shape[-1:] == (channels,)
