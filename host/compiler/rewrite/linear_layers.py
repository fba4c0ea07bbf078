# SPDX-License-Identifier: Apache-2.0
"""What stands around a linear layer as part of it: factors, biases, normalisation.

A Gemm as the product with a matrix and one number for each channel, which is a dense layer.

ONNX's Gemm is ``alpha * A' * B' + beta * C``. The factors become part of constant weights and
biases, an A that is to be transposed is so before, and a C that is no bias, as it differs from row
to row or is no constant, is added behind.

Biases that are added behind a convolution, and changes of shape, as part of the convolution.

ONNX Runtime folds those that are added to the result itself. A bias of a Gemm may be stated in many
shapes.

Factors of the channels behind a dense layer as part of its weights: layer scale.

They also move over a permutation of axes that lies between. A factor of batch normalisation behind
a convolution is folded by ONNX Runtime.

A factor and an offset for each channel of an image as a depthwise 1x1 convolution.

Batch normalisation stands alone where it follows a concatenation or a pool: behind a convolution it
is folded into that. Multiplication by one number per channel, and addition behind it, is the same
operation.

What follows a transposed convolution channel by channel, as its own weights and bias.

ONNX Runtime does this behind plain convolutions. Here: additions of, and multiplications by, one
constant per channel, and batch normalisation.
"""

from __future__ import annotations

from typing import Final, TypeGuard

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
    number,
    only_user,
    shape_of,
    stand_for,
    take_place,
)
from tilewright.host.network.operators import PRODUCTS


def fold_biases(editor: Editor) -> None:
    """Rewrite a graph with known shapes, in place."""
    for node in list(editor.graph):
        if is_kind(node, "Add") and any(
            _fold_bias(editor, node, *sides) for sides in ((0, 1), (1, 0))
        ):
            editor.graph.remove(node, safe=True)


def dedicate_biases(editor: Editor) -> None:
    """Give each reader of a list of numbers its own, in place.

    A bias is rounded to the scales of its layer. ONNX Runtime's quantiser copies one that several
    layers share, under a name that another tensor may bear.
    """
    for constant in list(editor.graph.initializers.values()):
        array = array_of(constant)
        if array is None or array.ndim != 1 or array.dtype != np.float32:
            continue
        for user, index in list(constant.uses())[1:]:
            own = editor.constant(f"{constant.name}_of_{user.name}", array)
            user.replace_input_with(index, own)


def state_bias(editor: Editor, node: ir.Node) -> None:
    """What a Gemm adds as one number for each channel, if it adds the same to all rows."""
    shape, array = shape_of(node.outputs[0]), array_of(input_of(node, 2))
    if shape is None or array is None or array.shape == shape[1:]:
        return
    if array.ndim == 2 and array.shape[0] != 1:
        return
    wide = np.ascontiguousarray(np.broadcast_to(array.reshape(-1), shape[1:]))
    node.replace_input_with(2, editor.constant(f"{node.name}_bias", wide))


def _fold_bias(editor: Editor, node: ir.Node, data: int, other: int) -> bool:
    """Whether constants went into the convolution in front of an addition."""
    value, offsets = node.inputs[data], _of_channels(node, node.inputs[data], node.inputs[other])
    if value is None or offsets is None:
        return False
    last: ir.Value | None = value
    while last is not None and only_user(last) is not None:
        layer = last.producer()
        if not is_kind(layer, "Reshape", "Squeeze", "Unsqueeze"):
            break
        before, after = shape_of(layer.inputs[0]), shape_of(last)
        if before is None or after is None or before[:2] != after[:2]:
            return False
        last = layer.inputs[0]
    layer = None if last is None else last.producer()
    if last is None or only_user(last) is None or not is_kind(layer, "Conv"):
        return False
    weights, bias = array_of(input_of(layer, 1)), array_of(input_of(layer, 2))
    missing = input_of(layer, 2) is None
    if weights is None or weights.dtype != np.float32 or (bias is None and not missing):
        return False
    total = offsets if bias is None else (bias + offsets).astype(np.float32)
    layer.resize_inputs(3)
    layer.replace_input_with(2, editor.constant(f"{layer.name}_bias", total))
    result = node.outputs[0]
    ir.convenience.replace_all_uses_with(result, value, replace_graph_outputs=True)
    if value.is_graph_output():
        value.name, result.name = result.name, None
    return True


def _of_channels(node: ir.Node, data: ir.Value | None, constant: ir.Value | None) -> Array | None:
    """A number for each channel, on axis 1, that is added."""
    shape, array = shape_of(data), array_of(constant)
    if shape is None or len(shape) < 3 or array is None or array.dtype != np.float32:
        return None
    aligned = (1,) * (len(shape) - array.ndim) + array.shape
    if aligned != (1, shape[1], *(1,) * (len(shape) - 2)) or shape_of(node.outputs[0]) != shape:
        return None
    return np.ascontiguousarray(array.reshape(-1))


def fold_factors(editor: Editor) -> None:
    """Rewrite a graph with known shapes, in place."""
    for node in list(editor.graph):
        if is_kind(node, "Mul") and any(
            _fold_factors(editor, node, *sides) for sides in ((0, 1), (1, 0))
        ):
            editor.graph.remove(node, safe=True)


def _fold_factors(editor: Editor, node: ir.Node, data: int, other: int) -> bool:
    """Whether a product with constants went into the layer in front of it."""
    value, factors = node.inputs[data], array_of(node.inputs[other])
    found = channel_factors(value, factors)
    if value is None or found is None:
        return False
    axis, scales = found
    last = value
    while is_kind(source := last.producer(), "Transpose") and only_user(last) is not None:
        moved = integers(source, "perm", range(len(shape_of(last) or ()))[::-1])
        axis, before = moved[axis], source.inputs[0]
        assert before is not None
        last = before
    if axis != len(shape_of(last) or ()) - 1 or only_user(last) is None:
        return False
    addition = last.producer()
    layer, offsets = addition, None
    if is_kind(addition, "Add"):
        side = 1 if array_of(addition.inputs[0]) is None else 0
        offsets, product = array_of(addition.inputs[side]), addition.inputs[1 - side]
        if offsets is None or product is None or only_user(product) is None:
            return False
        layer = product.producer()
    if not _is_dense(layer) or (offsets is not None and offsets.shape[-1:] != scales.shape):
        return False
    rows = is_kind(layer, "Gemm") and integer(layer, "transB", 0)
    _scale(editor, layer, 1, scales[:, None] if rows else scales)
    if is_kind(layer, "Gemm"):
        _scale(editor, layer, 2, scales)
    if offsets is not None:
        assert addition is not None
        _scale(editor, addition, side, scales)
    ir.convenience.replace_all_uses_with(node.outputs[0], value, replace_graph_outputs=True)
    if value.is_graph_output():
        value.name, node.outputs[0].name = node.outputs[0].name, None
    return True


def channel_factors(data: ir.Value | None, factors: Array | None) -> tuple[int, Array] | None:
    """The axis of the channels and a factor for each, if there is one number for each of them."""
    shape = None if array_of(data) is not None else shape_of(data)
    if shape is None or factors is None or factors.dtype != np.float32:
        return None
    aligned = (1,) * (len(shape) - factors.ndim) + factors.shape
    axes = [axis for axis, size in enumerate(aligned) if size != 1]
    if len(aligned) != len(shape) or len(axes) != 1 or factors.size != shape[axes[0]]:
        return None
    if not np.isfinite(factors).all():
        return None
    return axes[0], factors.reshape(-1)


def _is_dense(node: ir.Node | None) -> TypeGuard[ir.Node]:
    """Whether a node multiplies by a constant matrix, with a bias of one number a channel."""
    if not is_kind(node, *PRODUCTS):
        return False
    weights, bias = array_of(input_of(node, 1)), input_of(node, 2)
    if weights is None or weights.ndim != 2 or weights.dtype != np.float32:
        return False
    return bias is None or array_of(bias) is not None


def _scale(editor: Editor, node: ir.Node, index: int, factors: Array) -> None:
    array = array_of(input_of(node, index))
    if array is not None:
        scaled = (array * factors).astype(np.float32)
        node.replace_input_with(index, editor.constant(f"{node.name}_scaled", scaled))


_IMAGE_RANK: Final = 4


def convolve_affine(editor: Editor) -> None:
    """Rewrite a graph with known shapes, in place."""
    for node in list(editor.graph):
        if is_kind(node, "BatchNormalization"):
            found, shape = normalisation(node), shape_of(node.inputs[0])
            if found is None or shape is None:
                continue
            data = node.inputs[0]
            if len(shape) != _IMAGE_RANK or (data and is_kind(data.producer(), "DequantizeLinear")):
                take_place(editor, node, _written_out(editor, node, *found, rank=len(shape)))
            else:
                _replace(editor, node, node.inputs[0], *found)
        elif is_kind(node, "Mul"):
            _multiplication(editor, node)


def _written_out(
    editor: Editor, node: ir.Node, factors: Array, offsets: Array, *, rank: int
) -> ir.Value:
    """A normalisation of int8, or of what is no image: factors and offsets of channels."""
    value, stem = node.inputs[0], node.outputs[0].name or "normalised"
    for kind, each in (("Mul", factors), ("Add", offsets)):
        wide = each.astype(np.float32).reshape(-1, *[1] * (rank - 2))
        number_of = editor.constant(f"{stem}_{kind}", wide)
        value = editor.before(node, kind, [value, number_of], stem=stem, like=node.outputs[0])
    assert value is not None
    return value


def normalisation(node: ir.Node) -> tuple[Array, Array] | None:
    """Factors and offsets of a batch normalisation with constant statistics."""
    arrays = [array_of(input_of(node, index)) for index in range(1, 5)]
    known = [array.astype(np.float64) for array in arrays if array is not None]
    if len(known) != len(arrays) or integer(node, "training_mode", 0):
        return None
    epsilon = number(node, "epsilon", 1e-5)
    scale, offset, mean, variance = known
    if not (variance + epsilon > 0).all():
        return None
    factors = scale / np.sqrt(variance + epsilon)
    return factors, offset - mean * factors


def _multiplication(editor: Editor, node: ir.Node) -> None:
    for data, other in ((0, 1), (1, 0)):
        factors = _of_many(node.inputs[data], node.inputs[other])
        if factors is None:
            continue
        source, last, offsets = node.inputs[data], node, np.zeros(factors.size)
        user = only_user(node.outputs[0])
        if is_kind(user, "Add"):
            side = 1 if user.inputs[0] is node.outputs[0] else 0
            found = _of_many(node.outputs[0], user.inputs[side])
            if found is not None:
                last, offsets = user, found
        producer = source.producer() if source is not None else None
        if last is node and is_kind(producer, "DequantizeLinear"):
            return  # of a quantised model: a product of int8 tensors
        if is_kind(producer, "MatMul", "Softmax"):
            return  # heads of attention are no channels
        _replace(editor, last, source, factors, offsets)
        return


def _of_many(data: ir.Value | None, constant: ir.Value | None) -> Array | None:
    """As `per_channel`, of an image with several channels and with a number stated for each."""
    found, array = per_channel(data, constant), array_of(constant)
    return found if array is not None and array.size > 1 else None


def per_channel(data: ir.Value | None, constant: ir.Value | None) -> Array | None:
    """A constant as float64 (channels,), if it is one number for each channel of an image.

    One number for all of them is that, too.
    """
    shape, array = shape_of(data), array_of(constant)
    if shape is None or len(shape) != _IMAGE_RANK or array is None or array_of(data) is not None:
        return None
    if array.ndim > _IMAGE_RANK or array.dtype != np.float32:
        return None
    aligned = (1,) * (_IMAGE_RANK - array.ndim) + array.shape
    if aligned not in ((1, shape[1], 1, 1), (1, 1, 1, 1)):
        return None
    return np.broadcast_to(array.astype(np.float64).reshape(-1), (shape[1],))


def _replace(
    editor: Editor, node: ir.Node, data: ir.Value | None, factors: Array, offsets: Array
) -> None:
    """Let a convolution of the data take the place of a node."""
    shape, result = shape_of(data), node.outputs[0]
    narrow = [array.astype(np.float32) for array in (factors, offsets)]
    if shape is None or len(shape) != _IMAGE_RANK or not is_single(data):
        return
    if shape[1] != factors.size:
        return
    if not all(np.isfinite(array).all() for array in narrow):
        return
    stem = result.name or "affine"
    weights = editor.constant(f"{stem}_factors", narrow[0].reshape(-1, 1, 1, 1))
    bias = editor.constant(f"{stem}_offsets", narrow[1])
    attributes = {
        "group": shape[1],
        "kernel_shape": [1, 1],
        "pads": [0, 0, 0, 0],
        "strides": [1, 1],
        "dilations": [1, 1],
    }
    new = editor.before(node, "Conv", [data, weights, bias], attributes, stem=stem, like=result)
    take_place(editor, node, new)


def fold_behind_transposed(editor: Editor) -> None:
    """Rewrite a graph with known shapes, in place."""
    for node in list(editor.graph):
        if is_kind(node, "ConvTranspose"):
            while _fold_next(editor, node):
                pass


def _fold_next(editor: Editor, node: ir.Node) -> bool:
    """Fold the one reader of a transposed convolution into it; whether there was one to fold."""
    weights, result = array_of(input_of(node, 1)), node.outputs[0]
    shape = shape_of(result)
    reader = only_user(result)
    if weights is None or weights.dtype != np.float32 or shape is None or reader is None:
        return False
    if len(shape) != _IMAGE_RANK or len(weights.shape) != _IMAGE_RANK:
        return False
    given = input_of(node, 2)
    bias = np.zeros(shape[1]) if given is None else array_of(given)
    found = _affine(reader, result, shape[1])
    if bias is None or found is None:
        return False
    factors, offsets = found
    groups = integer(node, "group", 1)
    # (C_in, C_out / groups, rows, columns): the channels of a group read only its own rows.
    apart = weights.astype(np.float64).reshape(groups, -1, *weights.shape[1:])
    scaled = apart * factors.reshape(groups, 1, -1, 1, 1)
    new = [
        array.astype(np.float32)
        for array in (scaled.reshape(weights.shape), bias.astype(np.float64) * factors + offsets)
    ]
    if not all(np.isfinite(array).all() for array in new):
        return False
    last = reader.outputs[0]
    stem = last.name or "enlarged"
    node.resize_inputs(3)
    node.replace_input_with(1, editor.constant(f"{stem}_weights", new[0]))
    node.replace_input_with(2, editor.constant(f"{stem}_bias", new[1]))
    stand_for(last, result)
    editor.graph.remove(reader, safe=True)
    return True


def _affine(reader: ir.Node, data: ir.Value, channels: int) -> tuple[Array, Array] | None:
    """Factors and offsets of an operator that works channel by channel on data."""
    if is_kind(reader, "BatchNormalization"):
        return normalisation(reader) if reader.inputs[0] is data else None
    if not is_kind(reader, "Add", "Mul") or shape_of(reader.outputs[0]) != shape_of(data):
        return None
    constant = reader.inputs[1] if reader.inputs[0] is data else reader.inputs[0]
    found = per_channel(data, constant)
    if found is None:
        return None
    none = np.zeros(channels) if is_kind(reader, "Mul") else np.ones(channels)
    return (found, none) if is_kind(reader, "Mul") else (none, found)


def state_gemm(editor: Editor, node: ir.Node) -> None:
    """Rewrite one Gemm with known shapes, in place; what cannot be folded stays.

    A product of two activations stays, too.
    """
    if not _is_constant(node.inputs[1]):
        return
    if integer(node, "transA", 0):
        _turn(editor, node)
    alpha, beta = (number(node, name, 1.0) for name in ("alpha", "beta"))
    if alpha != 1 and (weights := _scaled(editor, node, 1, alpha)) is not None:
        node.replace_input_with(1, weights)
        node.attributes.pop("alpha", None)
    addend = input_of(node, 2)
    if beta == 0 and addend is not None:
        node.resize_inputs(2)
    if input_of(node, 2) is None:
        node.attributes.pop("beta", None)
    elif beta != 1 and (scaled := _scaled(editor, node, 2, beta)) is not None:
        node.replace_input_with(2, scaled)
        node.attributes.pop("beta", None)
        beta = 1.0
    if is_single(addend) and len(node.inputs) > 2 and not _is_bias(node.inputs[2]):
        _add_behind(editor, node, beta)


def _turn(editor: Editor, node: ir.Node) -> None:
    """Transpose the activations before; int8 ones between the conversions that they have."""
    data, shape = node.inputs[0], shape_of(node.inputs[0])
    if data is None or shape is None or array_of(data) is not None:
        return
    stem, reading = f"{node.name}_turned", data.producer()
    turned = editor.before(node, "Transpose", [data], {"perm": [1, 0]}, stem=stem, like=data)
    turned.shape = ir.Shape(shape[::-1])
    if is_kind(reading, "DequantizeLinear") and input_of(reading, 2) is not None:
        numbers = list(reading.inputs[1:3])
        for kind in ("QuantizeLinear", "DequantizeLinear"):
            source = reading.inputs[0] if kind == "QuantizeLinear" else data
            dtype = None if source is None else source.dtype
            turned = editor.before(
                node, kind, [turned, *numbers], stem=f"{stem}_{kind}", like=turned, dtype=dtype
            )
    node.replace_input_with(0, turned)
    node.attributes.pop("transA")


def _scaled(editor: Editor, node: ir.Node, index: int, factor: float) -> ir.Value | None:
    """An input times a factor: a constant, or one that is dequantised by another scale."""
    value = node.inputs[index]
    array = array_of(value)
    if array is not None and array.dtype == np.float32:
        product = _product(array, factor)
        return None if product is None else editor.constant(f"{node.name}_scaled", product)
    reading = None if value is None else value.producer()
    if not is_kind(reading, "DequantizeLinear") or array_of(reading.inputs[0]) is None:
        return None
    scale = array_of(reading.inputs[1])
    if scale is None or scale.dtype != np.float32 or factor <= 0:
        return None
    scaled = _product(scale, factor)
    if scaled is None or (scaled < np.finfo(np.float32).tiny).any():
        return None
    numbers = editor.constant(f"{node.name}_scale", scaled)
    inputs = [reading.inputs[0], numbers, *reading.inputs[2:]]
    return editor.before(
        node, "DequantizeLinear", inputs, dict(reading.attributes), stem=f"{node.name}_scaled",
        like=value,
    )  # fmt: skip


def _product(array: Array, factor: float) -> Array | None:
    """An array times a factor in single precision; None: it leaves its range."""
    with np.errstate(over="ignore"):
        scaled = (array * np.float64(factor)).astype(np.float32)
    return scaled if np.isfinite(scaled).all() else None


def _is_constant(value: ir.Value | None) -> bool:
    """Whether a tensor is a constant, or one that is dequantised."""
    reading = None if value is None else value.producer()
    if is_kind(reading, "DequantizeLinear"):
        value = reading.inputs[0]
    return array_of(value) is not None


def _is_bias(value: ir.Value | None) -> bool:
    """Whether a tensor is a constant with one number for each channel, or one for all."""
    shape = shape_of(value)
    return _is_constant(value) and shape is not None and all(size == 1 for size in shape[:-1])


def _add_behind(editor: Editor, node: ir.Node, beta: float) -> None:
    """Add C in an operator of its own, such as a layer takes for a residual."""
    addend, result = node.inputs[2], node.outputs[0]
    stem = result.name or node.name or "sum"
    if beta != 1:
        factor = editor.constant(f"{stem}_beta", np.array(beta, np.float32))
        addend = editor.before(node, "Mul", [addend, factor], stem=f"{stem}_addend", like=addend)
    node.resize_inputs(2)
    node.attributes.pop("beta", None)
    users = list(result.uses())
    total = editor.after(node, "Add", [result, addend], stem=f"{stem}_sum", like=result)
    for user, index in users:
        user.replace_input_with(index, total)
    if result.is_graph_output():
        outputs = editor.graph.outputs
        outputs[list(outputs).index(result)] = total
        result.name = editor.name(f"{stem}_product")
        total.name = stem
