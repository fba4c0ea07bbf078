# SPDX-License-Identifier: Apache-2.0
"""What moves elements in TensorFlow Lite as ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tilewright.host.compiler.read.tflite.file import Operation
from tilewright.host.compiler.read.tflite.graph import PLACES, TO_FIRST, Step

_LAST: Final = 2**62
"""Behind the end of every axis."""

_SPREADING: Final = "export the convolution with a dilation"


def reshape(step: Step) -> None:
    """RESHAPE: the sizes are an input, or stand in the operator."""
    shape = step.shape(0)
    given = step.whole(1) if step.has(1) else list(step.option("NewShape", ()))
    stored, before = step.result().stored, step.tensor(0).stored
    if stored and before and tuple(given) == stored and stored[0] == before[0] != shape[0]:
        given = [shape[0], *given[1:]]  # the batch is another one than the file's
    if given.count(-1) == 1:
        rest = int(np.prod([size for size in given if size != -1]))
        given[given.index(-1)] = int(np.prod(shape)) // max(rest, 1)
    if min(given, default=1) < 1 or np.prod(given) != np.prod(shape):
        step.refuse("must keep the number of elements", [*shape, "->", *given])
    _reshaped(step, given)


def squeeze(step: Step) -> None:
    """SQUEEZE: axes of size 1 vanish."""
    shape = step.shape(0)
    named = {step.axis(each, len(shape)) for each in step.option("SqueezeDims", ())}
    axes = named or {axis for axis, size in enumerate(shape) if size == 1}
    if any(shape[axis] != 1 for axis in axes):
        step.refuse("must squeeze axes of size 1", list(shape))
    _reshaped(step, [size for axis, size in enumerate(shape) if axis not in axes])


def expand_axis(step: Step) -> None:
    """EXPAND_DIMS: a new axis of size 1."""
    shape = list(step.shape(0))
    shape.insert(step.axis(step.whole(1)[0], len(shape) + 1), 1)
    _reshaped(step, shape)


def _reshaped(step: Step, shape: Sequence[int]) -> None:
    if step.is_first(0) and tuple(shape) == step.shape(0):
        step.give(step.real(0, first=True), first=True)
    else:
        step.give(step.graph.reshaped(step.real(0), shape))


def transpose(step: Step) -> None:
    """TRANSPOSE by a constant order."""
    order, rank = step.whole(1), len(step.shape(0))
    if sorted(order) != list(range(rank)):
        step.refuse("must be an order of the axes", order)
    if step.is_first(0):
        places = [PLACES[axis] for axis in order]
        step.give(step.graph.transposed(step.real(0, first=True), places))
    else:
        step.give(step.graph.transposed(step.real(0), order))


def join(step: Step) -> None:
    """CONCATENATION along an axis."""
    places = range(len(step.operation.inputs))
    rank = len(step.shape(0))
    first = step.is_first(*places) and not any(len(step.shape(p)) != rank for p in places)
    axis = step.axis(step.option("Axis"), rank)
    values = [step.real(place, first=first) for place in places]
    value = step.add("Concat", *values, axis=PLACES[axis] if first else axis)
    step.give(step.activated(value), first=first)


def pack(step: Step) -> None:
    """PACK: tensors become places of a new axis."""
    axis = step.axis(step.option("Axis"), len(step.shape(0)) + 1)
    parts = []
    for place in range(len(step.operation.inputs)):
        shape = list(step.shape(place))
        shape.insert(axis, 1)
        parts.append(step.graph.reshaped(step.real(place), shape))
    step.give(step.add("Concat", *parts, axis=axis))


def unpack(step: Step) -> None:
    """UNPACK: places of an axis become tensors."""
    shape = step.shape(0)
    axis = step.axis(step.option("Axis"), len(shape))
    count = len(step.operation.outputs)
    if shape[axis] != count:
        step.refuse(f"must have {shape[axis]} outputs", count)
    rest = [size for i, size in enumerate(shape) if i != axis]
    for place, part in enumerate(_parts(step, 0, [1] * count, axis, first=False)):
        step.give(step.graph.reshaped(part, rest), place)


def split(step: Step) -> None:
    """SPLIT into equal parts; the axis is input 0."""
    shape, count = step.shape(1), len(step.operation.outputs)
    axis = step.axis(step.whole(0)[0], len(shape))
    if shape[axis] % max(count, 1):
        step.refuse(f"must be divisible by {count}", shape[axis])
    _split(step, 1, [shape[axis] // count] * count, axis)


def split_sizes(step: Step) -> None:
    """SPLIT_V into parts of constant sizes."""
    shape, sizes = step.shape(0), step.whole(1)
    axis = step.axis(step.whole(2)[0], len(shape))
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = shape[axis] - sum(sizes) - 1
    if min(sizes) < 1 or sum(sizes) != shape[axis] or len(sizes) != len(step.operation.outputs):
        step.refuse(f"must have sizes that sum to {shape[axis]}", sizes)
    _split(step, 0, sizes, axis)


def _split(step: Step, place: int, sizes: Sequence[int], axis: int) -> None:
    first = step.is_first(place)
    for number, part in enumerate(_parts(step, place, sizes, axis, first=first)):
        step.give(part, number, first=first)


def _parts(step: Step, place: int, sizes: Sequence[int], axis: int, *, first: bool) -> list[str]:
    value = step.real(place, first=first)
    if len(sizes) == 1:
        return [value]
    where = PLACES[axis] if first else axis
    return step.graph.add_several("Split", [value, step.numbers(sizes)], len(sizes), axis=where)


def cut(step: Step) -> None:
    """SLICE: begins and sizes; a size of -1 is all that is left."""
    shape, begins, sizes = step.shape(0), step.whole(1), step.whole(2)
    if not len(shape) == len(begins) == len(sizes):
        step.refuse(f"must have {len(shape)} begins and sizes", [len(begins), len(sizes)])
    ends = [e if s == -1 else b + s for e, b, s in zip(shape, begins, sizes, strict=True)]
    if any(not 0 <= b < e <= n for b, e, n in zip(begins, ends, shape, strict=True)):
        step.refuse("must lie inside the tensor", [*begins, "to", *ends])
    first = step.is_first(0)
    step.give(_sliced(step, begins, ends, [1] * len(shape), first=first), first=first)


def cut_strided(step: Step) -> None:
    """STRIDED_SLICE: places with steps, and single places."""
    shape = step.shape(0)
    begins, ends, strides = (step.whole(place) for place in (1, 2, 3))
    unlike = [n for n in ("EllipsisMask", "NewAxisMask", "Offset") if step.option(n)]
    if unlike or not len(begins) == len(ends) == len(strides) <= len(shape) or 0 in strides:
        step.refuse("must have begins, ends and steps for each axis", unlike or strides)
    masks = [step.option(f"{name}Mask") for name in ("Begin", "End", "ShrinkAxis")]
    rest = []
    for axis, size in enumerate(shape):
        if axis >= len(begins):
            begins.append(0)
            ends.append(size)
            strides.append(1)
            rest.append(size)
            continue
        open_begin, open_end, single = (bool(mask >> axis & 1) for mask in masks)
        back = strides[axis] < 0
        if single:
            begins[axis] = step.axis(begins[axis], size)
            ends[axis], strides[axis] = begins[axis] + 1, 1
            continue
        begins[axis] = (_LAST if back else 0) if open_begin else begins[axis]
        ends[axis] = (-_LAST if back else _LAST) if open_end else ends[axis]
        rest.append(len(range(*slice(
            None if open_begin else begins[axis], None if open_end else ends[axis], strides[axis]
        ).indices(size))))  # fmt: skip
    shrinks = len(rest) < len(shape)
    first = step.is_first(0) and not shrinks
    value = _sliced(step, begins, ends, strides, first=first)
    step.give(step.graph.reshaped(value, rest) if shrinks else value, first=first)


def _sliced(
    step: Step, begins: list[int], ends: list[int], strides: list[int], *, first: bool
) -> str:
    axes = [PLACES[axis] if first else axis for axis in range(len(begins))]
    numbers = [step.numbers(each) for each in (begins, ends, axes, strides)]
    return step.add("Slice", step.real(0, first=first), *numbers)


def gather(step: Step) -> None:
    """GATHER of places along an axis."""
    if step.option("BatchDims"):
        step.refuse("must gather without axes of a batch", step.option("BatchDims"))
    shape = step.shape(0)
    axis = step.axis(step.option("Axis"), len(shape))
    places = step.graph.constants.get(step.raw(1))
    if places is not None and not (places.min() >= 0 and places.max() < shape[axis]):
        step.refuse(f"must gather places from 0 to {shape[axis] - 1}", int(places.max()))
    step.give(step.add("Gather", step.real(0), step.raw(1), axis=axis))


def pad(step: Step) -> None:
    """PAD and PADV2: with zeros, or with a constant number."""
    first = step.is_first(0)
    pads = _padding(step, first=first)
    value = step.real(0, first=first)
    inputs = [value, step.numbers(pads)]
    if step.has(2):
        number = step.graph.reshaped(step.real(2), ())
        inputs.append(number)
    step.give(step.add("Pad", *inputs), first=first)


def mirror(step: Step) -> None:
    """MIRROR_PAD: the border is read backwards, without its edge or with it."""
    shape, pads = step.shape(0), _padding(step, first=False)
    rank, edge = len(shape), int(step.option("Mode") == 1)
    first = step.is_first(0)
    value = step.real(0, first=first)
    for axis, size in enumerate(shape):
        before, behind = pads[axis], pads[axis + rank]
        if max(before, behind) > size - 1 + edge:
            step.refuse("must mirror what the tensor holds", [before, behind])
        if before or behind:
            places = [
                *(i - edge for i in range(before, 0, -1)),
                *range(size),
                *(size - 2 + edge - i for i in range(behind)),
            ]
            where = PLACES[axis] if first else axis
            value = step.add("Gather", value, step.numbers(places), axis=where)
    step.give(value, first=first)


def _padding(step: Step, *, first: bool) -> list[int]:
    shape, given = step.shape(0), step.known(1)
    if given.shape != (len(shape), 2) or given.dtype.kind not in "iu" or given.min() < 0:
        step.refuse(f"must have {len(shape)} pairs of whole numbers", list(given.shape))
    pairs = given[list(TO_FIRST)] if first else given
    return [int(each) for each in pairs.T.reshape(-1)]


def repeat(step: Step) -> None:
    """TILE."""
    step.give(step.add("Tile", step.real(0), step.numbers(step.whole(1))))


def broadcast(step: Step) -> None:
    """BROADCAST_TO."""
    step.give(step.add("Expand", step.real(0), step.numbers(step.whole(1))))


def resize_bilinear(step: Step) -> None:
    """RESIZE_BILINEAR."""
    _resize(step, mode="linear", coordinate_transformation_mode=_coordinates(step))


def resize_nearest(step: Step) -> None:
    """RESIZE_NEAREST_NEIGHBOR: between pixel centres, the pixel in which the place lies."""
    coordinates = _coordinates(step)
    rounding = "floor" if coordinates == "asymmetric" else "round_prefer_ceil"
    _resize(step, coordinate_transformation_mode=coordinates, nearest_mode=rounding)


def _coordinates(step: Step) -> str:
    if step.option("AlignCorners"):
        return "align_corners"
    return "half_pixel" if step.option("HalfPixelCenters") else "asymmetric"


def _resize(step: Step, **attributes: str) -> None:
    batch, _, _, channels = step.shape(0, 4)
    sizes = step.whole(1)
    if len(sizes) != 2 or min(sizes) < 1:
        step.refuse("must have two sizes above 0", sizes)
    whole = step.numbers([batch, channels, *sizes])
    step.give(step.add("Resize", step.real(0, first=True), "", "", whole, **attributes), first=True)


def depth_to_space(step: Step) -> None:
    """DEPTH_TO_SPACE: channels become pixels."""
    value = step.real(0, first=True)
    step.give(step.add("DepthToSpace", value, blocksize=step.option("BlockSize")), first=True)


def space_to_depth(step: Step) -> None:
    """SPACE_TO_DEPTH: pixels become channels."""
    value = step.real(0, first=True)
    step.give(step.add("SpaceToDepth", value, blocksize=step.option("BlockSize")), first=True)


def spread(step: Step) -> None:
    """SPACE_TO_BATCH_ND in front of a convolution, which is dilated by the blocks then."""
    block, pads = step.whole(1), step.known(2)
    inner, back = _reader(step, step.operation.outputs[0]), None
    if inner is not None:
        back = _reader(step, inner.outputs[0])
    if (
        inner is None
        or back is None
        or inner.kind not in ("CONV_2D", "DEPTHWISE_CONV_2D")
        or back.kind != "BATCH_TO_SPACE_ND"
        or inner.inputs[0] != step.operation.outputs[0]
        or len(back.inputs) != 3
        or len(step.shape(0)) != 4
    ):
        step.refuse(
            "must stand in front of a convolution whose result is put back", None, _SPREADING
        )
    options = inner.options
    plain = options.get("Padding") == 1 and all(
        options.get(name, 1) == 1
        for name in ("StrideH", "StrideW", "DilationHFactor", "DilationWFactor")
    )
    given = [step.source.tensors[back.inputs[place]].data for place in (1, 2)]
    if (
        not plain
        or given[0] is None
        or given[1] is None
        or len(block) != 2
        or given[0].tolist() != block
        or not given[1].shape == pads.shape == (2, 2)
        or (pads - given[1]).min() < 0
        or min(block) < 1
    ):
        step.refuse(
            "must be put back with the same blocks, and at most its padding", block, _SPREADING
        )
    index, inside = step.operation.outputs[0], inner.outputs[0]
    first = step.is_first(0)
    step.give(step.real(0, first=first), first=first)
    step.held.spread[index] = (
        (block[0], block[1]),
        [int(each) for each in (pads - given[1]).T.reshape(-1)],
    )
    step.held.unlike |= {index, inside}


def put_back(step: Step) -> None:
    """BATCH_TO_SPACE_ND behind such a convolution: nothing is left to do."""
    if step.index(0) not in step.held.unlike:
        step.refuse(
            "must stand behind a convolution of pixels spread over a batch", None, _SPREADING
        )
    first = step.is_first(0)
    step.give(step.real(0, first=first), first=first)


def _reader(step: Step, index: int) -> Operation | None:
    """The only operator that reads a tensor, if there is one."""
    readers = [each for each in step.source.operations if index in each.inputs]
    if len(readers) != 1 or index in step.source.outputs:
        return None
    return readers[0]
