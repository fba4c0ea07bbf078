# SPDX-License-Identifier: Apache-2.0
"""Softmax in the form that a row unit takes: over the last axis.

Permutations of axes around it say where the axis lies, which costs nothing on the accelerator. A
box that detectors predict as distributions is the *expectation* of each: a softmax over groups of
channels and a 1x1 convolution, written so that groups stay channels of one image. No rewrite
changes a result.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.read.onnx_edit import (
    Editor,
    array_of,
    input_of,
    integer,
    integers,
    is_kind,
    only_user,
    shape_of,
    stand_for,
    text_of,
)

_IMAGE_RANK: Final = 4
_RANKS: Final = (3, _IMAGE_RANK)
_GROUPS_TO_ROWS: Final = [0, 2, 1, 3]


def state_softmax(editor: Editor, *, outputs: bool) -> None:
    """Rewrite a graph with known shapes, in place."""
    for node in list(editor.graph):
        if is_kind(node, "Conv"):
            _state_expectation(editor, node)
    for node in list(editor.graph):
        if is_kind(node, "Softmax") and (outputs or not node.outputs[0].is_graph_output()):
            _turn(editor, node)


def _turn(editor: Editor, node: ir.Node) -> None:
    """Softmax over the last axis, between two permutations."""
    data, result = node.inputs[0], node.outputs[0]
    shape = shape_of(data)
    if data is None or shape is None or len(shape) not in _RANKS:
        return
    rank = len(shape)
    axis = integer(node, "axis", -1) % rank
    if axis == rank - 1:
        return
    perm = [*(each for each in range(rank) if each != axis), axis]
    stem = result.name or "softmax"
    turned = editor.before(
        node, "Transpose", [data], {"perm": perm}, stem=f"{stem}_rows", like=data
    )
    turned.shape = ir.Shape([shape[each] for each in perm])
    rows = editor.before(node, "Softmax", [turned], {"axis": rank - 1}, stem=stem, like=turned)
    inverse = [perm.index(each) for each in range(rank)]
    back = editor.before(node, "Transpose", [rows], {"perm": inverse}, stem=stem, like=data)
    softmax = rows.producer()
    stand_for(result, back)
    editor.graph.remove(node, safe=True)
    assert softmax is not None
    softmax.name = node.name


def _state_expectation(editor: Editor, node: ir.Node) -> None:
    """A 1x1 convolution of (N, C, A, P), turned from (N, A, C, P), as one with A groups.

    Numbers of a softmax sum up to 1: weights that lie around 0 and a bias are the same weighted
    sum, with smaller errors of rounding.
    """
    data, result = node.inputs[0], node.outputs[0]
    weights, source = array_of(input_of(node, 1)), _turned_source(data)
    given = input_of(node, 2)
    bias = array_of(given)
    if source is None or weights is None or (given is not None and bias is None):
        return
    if not _is_pointwise(node, weights.shape):
        return
    softmax = None if data is None else data.producer()
    n, groups, channels, pixels = shape_of(source) or ()
    matrix = weights.reshape(-1, channels).astype(np.float64)
    centre = (matrix.max(axis=1) + matrix.min(axis=1)) / 2
    offsets = centre if bias is None else centre + bias
    stem, outputs = result.name or "expectation", len(matrix)
    wide = np.tile(matrix - centre[:, None], (groups, 1)).astype(np.float32)[:, :, None, None]
    probabilities = editor.before(
        node, "Softmax", [source], {"axis": 2}, stem=f"{stem}_bins", like=source
    )
    shaped = f"{stem}_shaped"
    flat = editor.reshaped(node, probabilities, (n, groups * channels, 1, pixels), stem=shaped)
    expected = editor.before(
        node,
        "Conv",
        [
            flat,
            editor.constant(f"{stem}_weights", wide),
            editor.constant(f"{stem}_bias", np.tile(offsets, groups).astype(np.float32)),
        ],
        {"group": groups, "kernel_shape": [1, 1], "pads": [0] * 4, "strides": [1, 1],
         "dilations": [1, 1]},
        stem=stem,
        like=flat,
    )  # fmt: skip
    expected.shape = ir.Shape((n, groups * outputs, 1, pixels))
    if outputs == 1:  # nothing changes places
        turned = editor.reshaped(node, expected, (n, 1, groups, pixels), stem=shaped)
    else:
        apart = editor.reshaped(node, expected, (n, groups, outputs, pixels), stem=shaped)
        perm = {"perm": _GROUPS_TO_ROWS}
        turned = editor.before(node, "Transpose", [apart], perm, stem=stem, like=result)
    layer, rows = expected.producer(), probabilities.producer()
    stand_for(result, turned)
    editor.graph.remove(node, safe=True)
    assert softmax is not None
    assert layer is not None
    assert rows is not None
    editor.graph.remove(softmax, safe=True)
    layer.name, rows.name = node.name, softmax.name


def _turned_source(data: ir.Value | None) -> ir.Value | None:
    """The image (N, A, C, P) of whose permutation (N, C, A, P) a value is the softmax over C."""
    softmax = None if data is None or only_user(data) is None else data.producer()
    if not is_kind(softmax, "Softmax") or integer(softmax, "axis", -1) % _IMAGE_RANK != 1:
        return None
    turned = softmax.inputs[0]
    transpose = None if turned is None else turned.producer()
    if not is_kind(transpose, "Transpose") or integers(transpose, "perm", ()) != _GROUPS_TO_ROWS:
        return None
    source = transpose.inputs[0]
    return None if shape_of(source) is None else source


def _is_pointwise(node: ir.Node, shape: tuple[int, ...]) -> bool:
    """Whether a convolution of images mixes the channels of each pixel alone, in one group."""
    plain = text_of(node, "auto_pad", "NOTSET") == "NOTSET" and not any(integers(node, "pads", ()))
    steps = set(integers(node, "strides", ())) <= {1}
    return plain and steps and shape[2:] == (1, 1) and integer(node, "group", 1) == 1
