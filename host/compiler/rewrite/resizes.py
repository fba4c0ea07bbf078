# SPDX-License-Identifier: Apache-2.0
"""Resizing by any factors, between any coordinates, as moves, products with constants and sums.

That of any axes is that of an image, (N, C, H, W): TVM resizes the last axes alone.

Along one axis a resizing is a matrix: each output is a weighted sum of neighbours. Which matrix,
ONNX Runtime says, of unit vectors; so every mode is the one that the model means.

- Nearest pixels are gathered: nothing is computed.
- Of linear and cubic ones the neighbours of each output are gathered side by side, multiplied by
  their weights and summed by a convolution with weights of 1 whose stride is the neighbours' count.
  Where all outputs weigh alike, as in a whole reduction, the weights are the convolution's.
"""

from __future__ import annotations

from math import prod
from typing import Final, NamedTuple

import numpy as np
import onnx
import onnx_ir as ir

from tilewright.host.common.onnx_sessions import open_session
from tilewright.host.compiler.read.edit import (
    Array,
    Editor,
    array_of,
    input_of,
    integer,
    integers,
    is_kind,
    is_single,
    shape_of,
    take_place,
    text_of,
)
from tilewright.host.compiler.rewrite.general_forms import before_layers

_IMAGE: Final = (2, 3)
_RANK: Final = 4
_MOST_AT_ONCE: Final = 4
"""Neighbours of an output that are summed at once, over both axes; more, one axis after another."""
_MOST: Final = 1 << 22
"""Elements of what is gathered, and of unit vectors."""
_OPSET, _FORMAT = 19, 9

_MOST_AXES: Final = 2
"""Axes of an image that are resized."""
_EXACT: Final = 1e-3


def resize_images(editor: Editor) -> None:
    """Rewrite a graph with known shapes, in place."""
    for node in list(editor.graph):
        if is_kind(node, "Resize"):
            _state_all_axes(editor, node)
            _state_centres(node)
            found = _as_image(editor, node)
            if found is not None:
                take_place(editor, node, found)


def _state_all_axes(editor: Editor, node: ir.Node) -> None:
    """Factors or sizes of all axes where a resizing states those of some (operator set 18)."""
    shape, axes = shape_of(node.inputs[0]), integers(node, "axes", ())
    cropped = text_of(node, "coordinate_transformation_mode", "") == "tf_crop_and_resize"
    if shape is None or not axes or cropped:
        return
    if text_of(node, "keep_aspect_ratio_policy", "stretch") != "stretch":
        return
    scales, sizes = array_of(input_of(node, 2)), array_of(input_of(node, 3))
    by_factors = scales is not None and scales.size > 0
    stated = scales if by_factors else sizes
    if stated is None:
        return
    whole: Array = np.ones(len(shape), np.float32) if by_factors else np.array(shape, np.int64)
    whole[[axis % len(shape) for axis in axes]] = stated
    node.replace_input_with(1, None)
    node.replace_input_with(2 if by_factors else 3, editor.constant(f"{node.name}_axes", whole))
    del node.attributes["axes"]


def _state_centres(node: ir.Node) -> None:
    """``half_pixel_symmetric`` is ``half_pixel`` where factors give whole sizes.

    Not to the last bit, by which the nearest pixel can be another one.
    """
    if text_of(node, "mode", "nearest") == "nearest":
        return
    factors, shape = _factors(node), shape_of(node.inputs[0])
    mode = text_of(node, "coordinate_transformation_mode", "half_pixel")
    if mode == "half_pixel_symmetric" and factors is not None and shape is not None:
        sizes = factors * shape
        if np.abs(sizes - np.rint(sizes)).max(initial=0) < _EXACT:
            node.attributes["coordinate_transformation_mode"] = ir.AttrString(
                "coordinate_transformation_mode", "half_pixel"
            )


def _factors(node: ir.Node) -> Array | None:
    """The factor of each axis."""
    shape, result = shape_of(node.inputs[0]), shape_of(node.outputs[0])
    scales = array_of(input_of(node, 2))
    if shape is None or result is None or "axes" in node.attributes:
        return None
    if text_of(node, "keep_aspect_ratio_policy", "stretch") != "stretch":
        return None
    if scales is not None and scales.size:
        return scales.astype(np.float64)
    return np.array(result, np.float64) / shape


def _as_image(editor: Editor, node: ir.Node) -> ir.Value | None:
    """An image whose rows and columns are the axes that are resized, in their order."""
    data, shape, result = node.inputs[0], shape_of(node.inputs[0]), shape_of(node.outputs[0])
    factors, mode = _factors(node), text_of(node, "coordinate_transformation_mode", "half_pixel")
    if data is None or shape is None or result is None or factors is None:
        return None
    if mode == "tf_crop_and_resize":
        return None
    rank = len(shape)
    moved = [i for i in range(rank) if factors[i] != 1 or shape[i] != result[i]]
    if not 1 <= len(moved) <= _MOST_AXES or (rank > 3 and moved[0] >= 2):
        return None
    kept = [i for i in range(rank) if i not in moved]
    order = [*kept, *moved]
    lead, rows = [shape[i] for i in kept], [1] * (_MOST_AXES - len(moved))
    if rows and lead and mode == "align_corners":
        rows = [lead.pop()]  # one row has no corners to align
    lead = lead if len(lead) == 2 else [1, prod(lead)]
    small = [*lead, *rows, *(shape[i] for i in moved)]
    large = [*lead, *rows, *(result[i] for i in moved)]
    stem = node.outputs[0].name or "resized"
    turned = _turned(editor, node, data, order)
    image: ir.Value | None = _shaped(editor, node, turned, small)
    inputs = [image, None]
    if input_of(node, 3) is None:
        numbers = [1.0] * (_RANK - len(moved)) + [float(factors[i]) for i in moved]
        inputs.append(editor.constant(f"{stem}_scales", np.array(numbers, np.float32)))
    else:
        inputs += [None, editor.constant(f"{stem}_sizes", np.array(large, np.int64))]
    resized = editor.before(
        node, "Resize", inputs, node.attributes, stem=stem, like=node.outputs[0]
    )
    resized.shape = ir.Shape(large)
    back = _shaped(editor, node, resized, [result[i] for i in order])
    return _turned(editor, node, back, np.argsort(order).tolist())


def _turned(editor: Editor, node: ir.Node, data: ir.Value, order: list[int]) -> ir.Value:
    """Axes in another order."""
    shape = shape_of(data) or ()
    if order == sorted(order):
        return data
    stem = node.outputs[0].name or "resized"
    turned = editor.before(node, "Transpose", [data], {"perm": order}, stem=stem, like=data)
    turned.shape = ir.Shape([shape[i] for i in order])
    return turned


def _shaped(editor: Editor, node: ir.Node, data: ir.Value, shape: list[int]) -> ir.Value:
    """A value in another shape, or itself if it has that shape."""
    if list(shape_of(data) or ()) == shape:
        return data
    return editor.reshaped(node, data, shape, stem=node.outputs[0].name or "resized")


# -- as sums ---------------------------------------------------------------------------------------


class Axis(NamedTuple):
    """How the outputs along one axis are made.

    Attributes:
        sources: (outputs, neighbours) which inputs they are made of.
        weights: (outputs, neighbours) float64.
    """

    sources: Array
    weights: Array

    @property
    def neighbours(self) -> int:
        """Inputs of an output."""
        return int(self.sources.shape[1])

    @property
    def alike(self) -> bool:
        """Whether all outputs weigh their neighbours alike."""
        return bool((self.weights == self.weights[0]).all())


def sum_resizes(editor: Editor) -> None:
    """Take those in front of layers apart, in a float graph with known shapes, in place."""
    before = before_layers(editor.graph)
    for node in list(editor.graph):
        if is_kind(node, "Resize") and node in before and not enlarges(node):
            found = sum_resized(editor, node)
            if found is not None:
                take_place(editor, node, found)


def sum_resized(editor: Editor, node: ir.Node) -> ir.Value | None:
    """What a resizing of images by other than whole factors is; ``None``: it is not taken apart."""
    data, shape, result = node.inputs[0], shape_of(node.inputs[0]), shape_of(node.outputs[0])
    if not is_single(data) or shape is None or result is None:
        return None
    if len(shape) != _RANK or shape[:2] != result[:2] or shape[0] != 1:
        return None
    rows, columns = (axis_of(node, axis) for axis in _IMAGE)
    if rows is None or columns is None:
        return None
    steps = [(rows, columns)]
    if rows.neighbours * columns.neighbours > _MOST_AT_ONCE:
        steps = [(rows, _idle(shape[3])), (_idle(result[2]), columns)]
    if max(first.sources.size * last.sources.size for first, last in steps) * shape[1] > _MOST:
        return None
    for step in steps:
        data = _resized(editor, node, data, step)
    return data


def nearest(node: ir.Node) -> dict[int, Array]:
    """Which inputs nearest resizing takes along each axis that it resizes; empty: it is another."""
    shape, result = shape_of(node.inputs[0]) or (), shape_of(node.outputs[0]) or ()
    if text_of(node, "mode", "nearest") != "nearest" or len(shape) != len(result):
        return {}
    lines = {axis: axis_of(node, axis) for axis in range(len(shape)) if _changes(node, axis)}
    if any(line is None or (line.weights != 1).any() for line in lines.values()):
        return {}
    return {axis: line.sources.reshape(-1) for axis, line in lines.items() if line is not None}


def _changes(node: ir.Node, axis: int) -> bool:
    """Whether a resizing says something of an axis."""
    sizes = [(shape_of(value) or ())[axis] for value in (node.inputs[0], node.outputs[0])]
    scales = array_of(input_of(node, 2))
    stated = scales is not None and scales.size and scales.reshape(-1)[axis] != 1
    cropped = text_of(node, "coordinate_transformation_mode", "") == "tf_crop_and_resize"
    return sizes[0] != sizes[1] or bool(stated) or cropped


def enlarges(node: ir.Node) -> bool:
    """Whether a resizing is bilinear between pixel centres, by whole factors."""
    shape, result = shape_of(node.inputs[0]), shape_of(node.outputs[0])
    if shape is None or result is None or len(shape) != _RANK or shape[:2] != result[:2]:
        return False
    if any(large % small for small, large in zip(shape[2:], result[2:], strict=True)):
        return False
    scales = array_of(input_of(node, 2))
    stated = [large // small for small, large in zip(shape, result, strict=True)]
    plain = scales is None or not scales.size or np.array_equal(scales, stated)
    mode = text_of(node, "coordinate_transformation_mode", "half_pixel")
    centred = mode in ("half_pixel", "pytorch_half_pixel") and not integer(node, "antialias", 0)
    return plain and centred and text_of(node, "mode", "nearest") == "linear"


def axis_of(node: ir.Node, axis: int) -> Axis | None:
    """How a resizing makes the outputs along one axis; ``None``: that is not known."""
    shape, result = shape_of(node.inputs[0]), shape_of(node.outputs[0])
    if shape is not None and shape == result:  # ONNX Runtime copies, whatever else is stated
        return _idle(shape[axis])
    matrix = _matrix(node, axis)
    if matrix is None or not np.isfinite(matrix).all():
        return None
    used = matrix != 0
    first = np.where(used.any(axis=1), used.argmax(axis=1), 0)
    last = np.where(used.any(axis=1), matrix.shape[1] - 1 - used[:, ::-1].argmax(axis=1), 0)
    count = int((last - first).max()) + 1
    first = np.minimum(first, matrix.shape[1] - count)
    sources = first[:, None] + np.arange(count)
    return Axis(sources, np.take_along_axis(matrix, sources, axis=1))


def _idle(size: int) -> Axis:
    """An axis that stays as it is."""
    return Axis(np.arange(size)[:, None], np.ones((size, 1)))


def _resized(editor: Editor, node: ir.Node, data: ir.Value, lines: tuple[Axis, Axis]) -> ir.Value:
    """An image with both axes resized at once."""
    stem = _stem(node)
    for axis, line in zip(_IMAGE, lines, strict=True):
        data = editor.gathered(node, data, axis, line.sources.reshape(-1), stem=stem)
    factors = np.outer(*(1 + 0 * line.weights if line.alike else line.weights for line in lines))
    if (factors != 1).any():
        number = editor.constant(f"{stem}_weights", factors.astype(np.float32)[None, None])
        data = editor.before(node, "Mul", [data, number], stem=stem, like=data)
    taps = np.outer(*(line.weights[0] if line.alike else 1 + 0 * line.weights[0] for line in lines))
    if taps.size == 1 and taps[0, 0] == 1:
        return data
    batch, channels, *sides = shape_of(data) or ()
    wide = np.tile(taps.astype(np.float32), (channels, 1, 1, 1))
    kernel = list(taps.shape)
    attributes = {"strides": kernel, "kernel_shape": kernel, "group": channels}
    inputs = [data, editor.constant(f"{stem}_taps", wide)]
    summed = editor.before(node, "Conv", inputs, attributes, stem=stem, like=data)
    summed.shape = ir.Shape(
        [batch, channels, *(side // taken for side, taken in zip(sides, kernel, strict=True))]
    )
    return summed


def _stem(node: ir.Node) -> str:
    return node.outputs[0].name or "resized"


def _matrix(node: ir.Node, axis: int) -> Array | None:
    """(outputs, inputs) what ONNX Runtime makes of unit vectors along an axis."""
    shape, result = shape_of(node.inputs[0]), shape_of(node.outputs[0])
    scales, region = array_of(input_of(node, 2)), array_of(input_of(node, 1))
    if shape is None or result is None or "axes" in node.attributes:
        return None
    if text_of(node, "keep_aspect_ratio_policy", "stretch") != "stretch":
        return None
    before, after, rank = shape[axis], result[axis], len(shape)
    if before * before * after > _MOST:
        return None
    inputs = ["x", "", "", ""]
    constants: dict[str, Array] = {}
    if text_of(node, "coordinate_transformation_mode", "") == "tf_crop_and_resize":
        if region is None or region.size != 2 * rank:
            return None
        ends = region.reshape(2, rank)[:, axis]
        inputs[1] = "region"
        constants["region"] = np.array([0, 0, ends[0], 0, 1, 1, ends[1], 1], np.float32)
    if scales is not None and scales.size == rank:
        inputs[2], constants["scales"] = "scales", np.array([1, 1, scales[axis], 2], np.float32)
    else:
        inputs[3], constants["sizes"] = "sizes", np.array([1, before + 1, after, 4], np.int64)
    resize = onnx.helper.make_node("Resize", inputs, ["y"])
    resize.attribute.extend(ir.to_proto(each) for each in node.attributes.values())
    # Two equal columns become four: an image that keeps its size would be copied.
    units = np.repeat(np.eye(before, dtype=np.float32)[None, :, :, None], 2, axis=3)
    found = _run(resize, constants, np.concatenate([units, 0 * units[:, :1]], axis=1))
    if found is None or found.shape[2] != after or found[0, -1].any():
        return None
    return np.asarray(found[0, :-1, :, 0].T, np.float64)


def _run(node: onnx.NodeProto, constants: dict[str, Array], data: Array) -> Array | None:
    """What ONNX Runtime computes; ``None``: it refuses."""
    ends = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", data.shape), ("y", None))
    ]
    numbers = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = onnx.helper.make_graph([node], "axis", ends[:1], ends[1:], numbers)
    opset = onnx.helper.make_opsetid("", _OPSET)
    model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=_FORMAT)
    try:
        (found,) = open_session(model).run(None, {"x": data})
    except Exception:  # ONNX Runtime raises kinds of its own
        return None
    return np.asarray(found)
