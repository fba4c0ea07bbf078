# SPDX-License-Identifier: Apache-2.0
"""Random members of every operator of TensorFlow Lite that is read: a file, and data for it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from support.networks.tflite_files import TfliteFile

FUSED = {"NONE": 0, "RELU": 1, "RELU_N1_TO_1": 2, "RELU6": 3}
SAME, VALID = 0, 1


@dataclass(frozen=True)
class Member:
    """A file, what goes in, and how far a result may be off.

    Attributes:
        source: what the file was written from.
        steps: of int8 that it may be off.
    """

    file: bytes
    source: TfliteFile
    inputs: tuple[np.ndarray, ...]
    steps: int


class Draw:
    """Draws the parts of one file, between int8 or float tensors."""

    def __init__(self, rng: np.random.Generator, dtype: str) -> None:
        self.rng, self.dtype, self.file = rng, dtype, TfliteFile()
        self.inputs: list[int] = []
        self.arrays: list[np.ndarray] = []
        self.outputs: list[int] = []
        self.steps = 1

    @property
    def quantised(self) -> bool:
        return self.dtype != "float32"

    def size(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def image(self, channels: int = 0, least: int = 3) -> tuple[int, int, int, int]:
        return 1, self.size(least, 7), self.size(least, 7), channels or self.size(1, 6)

    def codes(self, shape: Sequence[int]) -> np.ndarray:
        limits = np.iinfo(self.dtype if self.quantised else "int8")
        return self.rng.integers(limits.min, limits.max + 1, shape).astype(limits.dtype)

    def scale(self) -> float:
        return float(self.rng.integers(20, 80)) / 1024

    def zero(self) -> int:
        return self.size(-20, 20) + (128 if self.dtype == "uint8" else 0)

    def like(self, scale: float | None = None, zero: int | None = None) -> dict:
        if not self.quantised:
            return {}
        return {"scale": scale or self.scale(), "zero": self.zero() if zero is None else zero}

    def data(self, shape: Sequence[int], positive: bool = False, **like) -> int:
        """An input of the network."""
        like = like or self.like()
        if positive and self.quantised:
            like["zero"] = int(np.iinfo(self.dtype).min)
        index = self.file.tensor(shape, self.dtype, **like)
        array = self.codes(shape)
        if not self.quantised:
            array = array.astype(np.float32) / 32
            array = np.abs(array) + np.float32(0.25) if positive else array
        self.inputs.append(index)
        self.arrays.append(array)
        return index

    def parameters(self, index: int) -> dict:
        """Scale and zero point of a tensor."""
        found = self.file.tensors[index]
        return {name: found[name] for name in ("scale", "zero") if name in found}

    def constant(self, shape: Sequence[int], **like) -> int:
        """A constant of the network's type."""
        array = self.codes(shape)
        if not self.quantised:
            return self.file.constant(array.astype(np.float32) / 32)
        return self.file.constant(array, **(like or self.like()))

    def whole(self, values: object) -> int:
        return self.file.constant(np.array(values, np.int32))

    def out(self, shape: Sequence[int], dtype: str = "", **like) -> int:
        dtype = dtype or self.dtype
        if dtype == self.dtype:
            like = like or self.like()
        index = self.file.tensor([int(size) for size in shape], dtype, **like)
        self.outputs.append(index)
        return index

    def fused(self) -> int:
        return FUSED[str(self.rng.choice(list(FUSED)))]

    def member(self) -> Member:
        file = self.file.written(self.inputs, self.outputs)
        return Member(file, self.file, tuple(self.arrays), self.steps)


Make = Callable[[Draw], None]


def window(draw: Draw, size: int, reach: int, stride: int, padding: int) -> int:
    """Places of a window along an axis."""
    return -(-size // stride) if padding == SAME else (size - reach) // stride + 1


def layer(draw: Draw, data: int, weights_shape, channels: int, axis: int, products: int):
    """Weights and bias, with the scale of the result."""
    outputs = weights_shape[axis]
    if not draw.quantised:
        weights = draw.constant(weights_shape)
        return [weights, draw.constant([outputs])], {}
    rng, stated = draw.rng, draw.parameters(data)
    several = draw.dtype == "int8" and bool(rng.integers(2))
    scales = rng.integers(5, 40, outputs if several else 1) / 4096
    zero = 0 if draw.dtype == "int8" else draw.zero()
    array = draw.codes(weights_shape)
    if draw.dtype == "int8":
        array = np.maximum(array, -127)
    weights = draw.file.constant(array, scale=scales, zero=zero, axis=axis if several else 0)
    bias = draw.file.constant(
        rng.integers(-3000, 3000, outputs).astype(np.int32),
        scale=np.float32(stated["scale"]) * scales.astype(np.float32),
    )
    scale = float(stated["scale"] * scales.mean() * 73 * 73 * products**0.5 / 60)
    return [weights, bias], draw.like(scale)


def convolution(draw: Draw, groups: bool = False) -> None:
    stride, padding = draw.size(1, 2), draw.size(0, 1)
    kernel = (draw.size(1, 3), draw.size(1, 3))
    dilation = draw.size(1, 2) if stride == 1 else 1
    group = draw.size(2, 3) if groups else 1
    inside, outputs = draw.size(1, 4), draw.size(1, 3) * group
    batch, rows, columns, _ = shape = draw.image(inside * group, 5)
    data = draw.data(shape)
    reach = [(k - 1) * dilation + 1 for k in kernel]
    weights, like = layer(
        draw, data, (outputs, *kernel, inside), outputs, 0, kernel[0] * kernel[1] * inside
    )
    sizes = [
        window(draw, n, r, stride, padding) for n, r in zip((rows, columns), reach, strict=True)
    ]
    draw.file.add(
        "CONV_2D", [data, *weights], [draw.out((batch, *sizes, outputs), **like)], "Conv2DOptions",
        Padding=padding, StrideW=stride, StrideH=stride, FusedActivationFunction=draw.fused(),
        DilationWFactor=dilation, DilationHFactor=dilation,
    )  # fmt: skip


def depthwise(draw: Draw) -> None:
    stride, padding, multiplier = draw.size(1, 2), draw.size(0, 1), draw.size(1, 2)
    kernel = (draw.size(1, 3), draw.size(1, 3))
    batch, rows, columns, channels = shape = draw.image(least=4)
    data = draw.data(shape)
    outputs = channels * multiplier
    weights, like = layer(draw, data, (1, *kernel, outputs), outputs, 3, kernel[0] * kernel[1])
    sizes = [
        window(draw, n, k, stride, padding) for n, k in zip((rows, columns), kernel, strict=True)
    ]
    draw.file.add(
        "DEPTHWISE_CONV_2D", [data, *weights], [draw.out((batch, *sizes, outputs), **like)],
        "DepthwiseConv2DOptions", Padding=padding, StrideW=stride, StrideH=stride,
        DepthMultiplier=multiplier, FusedActivationFunction=draw.fused(),
        DilationWFactor=1, DilationHFactor=1,
    )  # fmt: skip


def dilated(draw: Draw) -> None:
    """A convolution of pixels spread over the batch, as old exports write a dilation."""
    block, kernel, channels = 2, 3, draw.size(1, 4)
    _, rows, columns, _ = shape = (1, 2 * draw.size(3, 4), 2 * draw.size(3, 4), channels)
    data = draw.data(shape)
    same = bool(draw.size(0, 1))
    pads = [[2, 2], [2, 2]] if same else [[0, 0], [0, 0]]
    spread = [size // block + (2 if same else 0) for size in (rows, columns)]
    weights, like = layer(draw, data, (3, kernel, kernel, channels), 3, 0, 9 * channels)
    inner = [size - kernel + 1 for size in spread]
    like = like or draw.like()
    spreading = draw.file.tensor((4, *spread, channels), draw.dtype, **draw.parameters(data))
    convolved = draw.file.tensor((4, *inner, 3), draw.dtype, **like)
    blocks = draw.whole([block, block])
    draw.file.add("SPACE_TO_BATCH_ND", [data, blocks, draw.whole(pads)], [spreading])
    draw.file.add(
        "CONV_2D", [spreading, *weights], [convolved], "Conv2DOptions",
        Padding=VALID, StrideW=1, StrideH=1, DilationWFactor=1, DilationHFactor=1,
    )  # fmt: skip
    result = draw.out((1, *(block * size for size in inner), 3), **like)
    crops = draw.whole([[0, 0], [0, 0]])
    draw.file.add("BATCH_TO_SPACE_ND", [convolved, blocks, crops], [result])


def transposed_convolution(draw: Draw) -> None:
    stride, padding, kernel = draw.size(1, 3), draw.size(0, 1), draw.size(2, 4)
    batch, rows, columns, inside = shape = draw.image()
    data, outputs = draw.data(shape), draw.size(1, 4)
    weights, like = layer(
        draw, data, (outputs, kernel, kernel, inside), outputs, 0, kernel * inside
    )
    sizes = [
        n * stride if padding == SAME else (n - 1) * stride + max(kernel, stride)
        for n in (rows, columns)
    ]
    result = draw.out((batch, *sizes, outputs), **like)
    draw.file.add(
        "TRANSPOSE_CONV", [draw.whole([batch, *sizes, outputs]), weights[0], data, weights[1]],
        [result], "TransposeConvOptions", Padding=padding, StrideW=stride, StrideH=stride,
    )  # fmt: skip


def dense(draw: Draw) -> None:
    inside, outputs, keeps = draw.size(2, 9), draw.size(1, 6), bool(draw.size(0, 1))
    shape = (draw.size(1, 3), draw.size(1, 3), inside) if keeps else (draw.size(1, 3), inside)
    data = draw.data(shape)
    weights, like = layer(draw, data, (outputs, inside), outputs, 0, inside)
    if draw.size(0, 1):
        weights[1] = -1
    draw.file.add(
        "FULLY_CONNECTED", [data, *weights], [draw.out((*shape[:-1], outputs), **like)],
        "FullyConnectedOptions", FusedActivationFunction=draw.fused(), KeepNumDims=keeps,
    )  # fmt: skip


def product(draw: Draw) -> None:
    batch, rows, inside, columns = (draw.size(1, 4) for _ in range(4))
    turned = [draw.size(0, 1) for _ in range(2)]
    shapes = [(batch, rows, inside), (batch, inside, columns)]
    factors = [
        draw.data((s[0], *s[1:][::-1]) if t else s) for s, t in zip(shapes, turned, strict=True)
    ]
    like = {}
    if draw.quantised:
        scales = [draw.parameters(each)["scale"] for each in factors]
        like = draw.like(scales[0] * scales[1] * 73 * inside**0.5)
    draw.file.add(
        "BATCH_MATMUL", factors, [draw.out((batch, rows, columns), **like)], "BatchMatMulOptions",
        AdjX=bool(turned[0]), AdjY=bool(turned[1]),
    )  # fmt: skip


def pool(kind: str) -> Make:
    def make(draw: Draw) -> None:
        batch, rows, columns, channels = shape = draw.image()
        stride, padding = draw.size(1, 2), draw.size(0, 1)
        kernel = (draw.size(1, 3), draw.size(1, 3))
        data = draw.data(shape)
        sizes = [
            window(draw, n, k, stride, padding)
            for n, k in zip((rows, columns), kernel, strict=True)
        ]
        draw.file.add(
            kind, [data], [draw.out((batch, *sizes, channels), **draw.parameters(data))],
            "Pool2DOptions", Padding=padding, StrideW=stride, StrideH=stride,
            FilterWidth=kernel[1], FilterHeight=kernel[0], FusedActivationFunction=draw.fused(),
        )  # fmt: skip

    return make


def reduction(kind: str) -> Make:
    def make(draw: Draw) -> None:
        shape, keeps = draw.image(), bool(draw.size(0, 1))
        axes = sorted(draw.rng.choice([1, 2, 3], draw.size(1, 2), replace=False).tolist())
        data = draw.data(shape)
        rest = [1 if i in axes else n for i, n in enumerate(shape) if keeps or i not in axes]
        like = draw.parameters(data)
        if kind == "SUM" and draw.quantised:
            like["scale"] *= float(np.prod([shape[i] for i in axes]) ** 0.5) * 2
        result = draw.out(rest, **like)
        draw.file.add(kind, [data, draw.whole(axes)], [result], "ReducerOptions", KeepDims=keeps)

    return make


def of_one(
    kind: str, table: str = "", positive: bool = False, out: dict | None = None, **options
) -> Make:
    def make(draw: Draw) -> None:
        shape = draw.image()
        data = draw.data(shape, positive)
        like = (out or {}) if draw.quantised else {}
        draw.file.add(kind, [data], [draw.out(shape, **like)], table, **options)

    return make


def same_scale(kind: str) -> Make:
    def make(draw: Draw) -> None:
        shape = draw.image()
        data = draw.data(shape)
        draw.file.add(kind, [data], [draw.out(shape, **draw.parameters(data))])

    return make


def of_two(kind: str, table: str = "", same: bool = False) -> Make:
    def make(draw: Draw) -> None:
        shape = draw.image()
        other = [shape, (1, 1, 1, shape[3]), (shape[3],)][draw.size(0, 2)]
        first = draw.data(shape)
        like = draw.parameters(first) if same else draw.like()
        positive = kind == "DIV"
        constant = draw.size(0, 1) and not positive
        second = draw.constant(other, **like) if constant else draw.data(other, positive, **like)
        if kind == "MUL" and draw.quantised:
            like = draw.like(like["scale"] * draw.parameters(first)["scale"] * 90)
        elif draw.quantised and not same:
            like = draw.like(2 * max(like["scale"], draw.parameters(first)["scale"]))
        options = {"FusedActivationFunction": draw.fused()} if table else {}
        draw.file.add(kind, [first, second], [draw.out(shape, **like)], table, **options)

    return make


def squared_difference(draw: Draw) -> None:
    shape = draw.image()
    data = [draw.data(shape), draw.data(shape)]
    like = {}
    if draw.quantised:
        like = draw.like(max(draw.parameters(each)["scale"] for each in data) ** 2 * 250)
    draw.file.add("SQUARED_DIFFERENCE", data, [draw.out(shape, **like)])


def prelu(draw: Draw) -> None:
    shape = draw.image()
    data, slopes = draw.data(shape), draw.constant((1, 1, shape[3]), **draw.like(1 / 128))
    draw.file.add("PRELU", [data, slopes], [draw.out(shape, **draw.parameters(data))])


def moved(make_move: Callable[[Draw, int, tuple[int, ...]], None]) -> Make:
    def make(draw: Draw) -> None:
        draw.steps = 0
        shape = draw.image()
        make_move(draw, draw.data(shape), shape)

    return make


def move(draw, kind, inputs, shape, table="", **options) -> None:
    place = next(i for i in inputs if i in draw.inputs)
    result = draw.out(shape, **draw.parameters(place))
    draw.file.add(kind, inputs, [result], table, **options)


def padded(kind: str) -> Make:
    def make(draw: Draw, data: int, shape) -> None:
        pads = draw.rng.integers(0, 2, (4, 2))
        pads[0] = 0
        if kind == "MIRROR_PAD":
            pads = np.minimum(pads, np.array(shape)[:, None] - 1)
        after = np.array(shape) + pads.sum(axis=1)
        inputs, options = [data, draw.whole(pads)], {}
        if kind == "PADV2":
            inputs.append(draw.constant([1], **draw.parameters(data)))
        if kind == "MIRROR_PAD":
            options = {"table": "MirrorPadOptions", "Mode": draw.size(0, 1)}
        move(draw, kind, inputs, after.tolist(), **options)

    return moved(make)


def reshape(draw: Draw, data: int, shape) -> None:
    after = [shape[0], shape[1] * shape[2], shape[3]]
    given = [shape[0], -1, shape[3]] if draw.size(0, 1) else after
    move(draw, "RESHAPE", [data, draw.whole(given)], after, "ReshapeOptions", NewShape=given)


def transpose(draw: Draw, data: int, shape) -> None:
    order = draw.rng.permutation(4)
    move(draw, "TRANSPOSE", [data, draw.whole(order)], [shape[i] for i in order])


def squeeze(draw: Draw, data: int, shape) -> None:
    move(draw, "SQUEEZE", [data], shape[1:], "SqueezeOptions", SqueezeDims=[0])


def expand(draw: Draw, data: int, shape) -> None:
    axis = draw.size(-1, 2)
    after = list(shape)
    after.insert(axis if axis >= 0 else 4, 1)
    move(draw, "EXPAND_DIMS", [data, draw.whole(axis)], after, "ExpandDimsOptions")


def join(draw: Draw, data: int, shape) -> None:
    axis = draw.size(1, 3)
    other = [draw.size(1, 4) if i == axis else n for i, n in enumerate(shape)]
    second = draw.data(other, **draw.parameters(data))
    after = [n + other[axis] if i == axis else n for i, n in enumerate(shape)]
    move(
        draw, "CONCATENATION", [data, second], after, "ConcatenationOptions", Axis=axis - 4
    )  # fmt: skip


def pack(draw: Draw, data: int, shape) -> None:
    second, axis = draw.data(shape, **draw.parameters(data)), draw.size(0, 3)
    after = [*shape[:axis], 2, *shape[axis:]]
    move(draw, "PACK", [data, second], after, "PackOptions", ValuesCount=2, Axis=axis)


def unpack(draw: Draw, data: int, shape) -> None:
    axis = draw.size(1, 3)
    rest = [n for i, n in enumerate(shape) if i != axis]
    parts = [draw.out(rest, **draw.parameters(data)) for _ in range(shape[axis])]
    draw.file.add("UNPACK", [data], parts, "UnpackOptions", Num=shape[axis], Axis=axis)


def split(draw: Draw) -> None:
    draw.steps, axis = 0, draw.size(1, 3)
    shape = [2 * n if i == axis else n for i, n in enumerate(draw.image())]
    data = draw.data(shape)
    part = [n // 2 if i == axis else n for i, n in enumerate(shape)]
    parts = [draw.out(part, **draw.parameters(data)) for _ in range(2)]
    draw.file.add("SPLIT", [draw.whole(axis), data], parts, "SplitOptions", NumSplits=2)


def split_sizes(draw: Draw, data: int, shape) -> None:
    axis = draw.size(1, 2)
    sizes = [1, shape[axis] - 1]
    parts = [
        draw.out([k if i == axis else n for i, n in enumerate(shape)], **draw.parameters(data))
        for k in sizes
    ]
    draw.file.add(
        "SPLIT_V", [data, draw.whole(sizes), draw.whole(axis)], parts, "SplitVOptions", NumSplits=2
    )


def cut(draw: Draw, data: int, shape) -> None:
    begins = [draw.size(0, n - 1) for n in shape]
    sizes = [draw.size(1, n - b) for n, b in zip(shape, begins, strict=True)]
    given = [
        -1 if draw.size(0, 1) and b + s == n else s
        for n, b, s in zip(shape, begins, sizes, strict=True)
    ]
    move(draw, "SLICE", [data, draw.whole(begins), draw.whole(given)], sizes, "SliceOptions")


def cut_strided(draw: Draw, data: int, shape) -> None:
    begins, ends = [0, 1, -1, 0], [1, shape[1], -shape[2] - 1, 1]
    strides, shrinks = [1, 2, -1, 1], draw.size(0, 1)
    after = [1, len(range(1, shape[1], 2)), shape[2]]
    after += [] if shrinks else [shape[3]]
    move(
        draw, "STRIDED_SLICE", [data, *map(draw.whole, (begins, ends, strides))], after,
        "StridedSliceOptions", BeginMask=1, EndMask=4 if shrinks else 12,
        ShrinkAxisMask=8 if shrinks else 0,
    )  # fmt: skip


def gather(draw: Draw, data: int, shape) -> None:
    axis = draw.size(1, 3)
    places = draw.rng.integers(0, shape[axis], 3)
    after = [3 if i == axis else n for i, n in enumerate(shape)]
    move(draw, "GATHER", [data, draw.whole(places)], after, "GatherOptions", Axis=axis)


def tile(draw: Draw, data: int, shape) -> None:
    times = [1, 2, 1, 2]
    after = [n * t for n, t in zip(shape, times, strict=True)]
    move(draw, "TILE", [data, draw.whole(times)], after, "TileOptions")


def rearranged(kind: str, table: str) -> Make:
    def make(draw: Draw) -> None:
        draw.steps = 0
        batch, rows, columns, channels = draw.image()
        many, few = (batch, rows, columns, 4 * channels), (batch, 2 * rows, 2 * columns, channels)
        before, after = (many, few) if kind == "DEPTH_TO_SPACE" else (few, many)
        move(draw, kind, [draw.data(before)], after, table, BlockSize=2)

    return make


def resize(kind: str, table: str, exact: bool) -> Make:
    def make(draw: Draw, data: int, shape) -> None:
        draw.steps = 0 if exact else 1
        sizes, mode = (draw.size(4, 9), draw.size(4, 9)), draw.size(0, 2)
        after = (shape[0], *sizes, shape[3])
        move(
            draw, kind, [data, draw.whole(sizes)], after, table, AlignCorners=mode == 1,
            HalfPixelCenters=mode == 2,
        )  # fmt: skip

    return moved(make)


def quantise(draw: Draw) -> None:
    shape = draw.image()
    data = draw.data(shape)
    like = {"scale": draw.scale(), "zero": draw.zero() % 100}
    draw.file.add("QUANTIZE", [data], [draw.out(shape, "int8", **like)], "QuantizeOptions")


def dequantise(draw: Draw) -> None:
    shape = draw.image()
    data = draw.data(shape)
    draw.file.add("DEQUANTIZE", [data], [draw.out(shape, "float32")], "DequantizeOptions")


def cast(draw: Draw) -> None:
    shape = draw.image()
    draw.file.add(
        "CAST", [draw.data(shape)], [draw.out(shape, "int32")], "CastOptions",
        InDataType=0, OutDataType=2,
    )  # fmt: skip


def place_of_largest(kind: str) -> Make:
    def make(draw: Draw) -> None:
        shape, axis = draw.image(), draw.size(1, 3)
        rest = [n for i, n in enumerate(shape) if i != axis]
        table = "ArgMaxOptions" if kind == "ARG_MAX" else "ArgMinOptions"
        draw.file.add(
            kind,
            [draw.data(shape), draw.whole([axis])],
            [draw.out(rest, "int32")],
            table,
            OutputType=2,
        )

    return make


SOFT = {"scale": 1 / 256, "zero": -128}
ROUND = {"scale": 1 / 128, "zero": 0}
LOGARITHM = {"scale": 1 / 16, "zero": 127}

BOTH = ("float32", "int8")

MEMBERS: dict[str, tuple[Make, Sequence[str]]] = {
    name: (make, types[0] if types else BOTH)
    for name, make, *types in [
        ("conv", convolution, ("float32", "int8", "uint8")),
        ("grouped", lambda draw: convolution(draw, groups=True)),
        ("depthwise", depthwise, ("float32", "int8", "uint8")),
        ("dilated", dilated),
        ("transposed-conv", transposed_convolution),
        ("dense", dense, ("float32", "int8", "uint8")),
        ("product", product),
        ("average-pool", pool("AVERAGE_POOL_2D"), ("float32", "int8", "uint8")),
        ("max-pool", pool("MAX_POOL_2D"), ("float32", "int8", "uint8")),
        ("mean", reduction("MEAN")),
        ("sum", reduction("SUM")),
        ("reduce-max", reduction("REDUCE_MAX")),
        ("reduce-min", reduction("REDUCE_MIN")),
        ("add", of_two("ADD", "AddOptions"), ("float32", "int8", "uint8")),
        ("sub", of_two("SUB", "SubOptions")),
        ("mul", of_two("MUL", "MulOptions")),
        ("div", of_two("DIV", "DivOptions"), ("float32",)),
        ("maximum", of_two("MAXIMUM", same=True)),
        ("minimum", of_two("MINIMUM", same=True)),
        ("squared-difference", squared_difference),
        ("prelu", prelu),
        ("pad", padded("PAD")),
        ("padv2", padded("PADV2")),
        ("mirror-pad", padded("MIRROR_PAD")),
        ("reshape", moved(reshape)),
        ("transpose", moved(transpose)),
        ("squeeze", moved(squeeze)),
        ("expand-dims", moved(expand)),
        ("concatenation", moved(join)),
        ("pack", moved(pack)),
        ("unpack", moved(unpack)),
        ("split", split),
        ("split-v", moved(split_sizes)),
        ("slice", moved(cut)),
        ("strided-slice", moved(cut_strided)),
        ("gather", moved(gather)),
        ("tile", moved(tile), ("float32",)),
        ("depth-to-space", rearranged("DEPTH_TO_SPACE", "DepthToSpaceOptions")),
        ("space-to-depth", rearranged("SPACE_TO_DEPTH", "SpaceToDepthOptions")),
        ("bilinear", resize("RESIZE_BILINEAR", "ResizeBilinearOptions", False)),
        ("nearest", resize("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions", True),),
        ("softmax", of_one("SOFTMAX", "SoftmaxOptions", out=SOFT, Beta=1.0)),
        ("log-softmax", of_one("LOG_SOFTMAX", "LogSoftmaxOptions", out=LOGARITHM)),
        ("logistic", of_one("LOGISTIC", out=SOFT)),
        ("tanh", of_one("TANH", out=ROUND)),
        ("relu", of_one("RELU")),
        ("relu6", of_one("RELU6")),
        ("relu-n1-to-1", of_one("RELU_N1_TO_1")),
        ("leaky-relu", of_one("LEAKY_RELU", "LeakyReluOptions", Alpha=0.125)),
        ("hard-swish", of_one("HARD_SWISH")),
        ("elu", of_one("ELU")),
        ("gelu", of_one("GELU", "GeluOptions", Approximate=False)),
        ("gelu-tanh", of_one("GELU", "GeluOptions", Approximate=True)),
        ("exp", of_one("EXP")),
        ("sqrt", of_one("SQRT", positive=True), ("float32",)),
        ("rsqrt", of_one("RSQRT", positive=True), ("float32",)),
        ("abs", of_one("ABS")),
        ("neg", of_one("NEG"), ("float32",)),
        ("square", of_one("SQUARE"), ("float32",)),
        ("quantize", quantise, ("float32", "int8", "uint8")),
        ("dequantize", dequantise, ("int8", "uint8")),
        ("cast", cast, ("float32",)),
        ("arg-max", place_of_largest("ARG_MAX")),
        ("arg-min", place_of_largest("ARG_MIN")),
    ]
}  # fmt: skip

NAMES = tuple(f"{name}-{dtype}" for name, (_, types) in MEMBERS.items() for dtype in types)


def drawn(name: str, rng: np.random.Generator) -> Member:
    """A random member of a name of `NAMES`, or a small network."""
    if name == "network":
        return network(rng)
    kind, _, dtype = name.rpartition("-")
    draw = Draw(rng, dtype)
    MEMBERS[kind][0](draw)
    return draw.member()


class Blocks(Draw):
    """Draws layers one behind the other."""

    def made(self, kind: str, inputs: Sequence[int], after, like: dict, table="", **options) -> int:
        result = self.file.tensor(after, "int8", **like)
        self.file.add(kind, inputs, [result], table, **options)
        return result

    def kept(self, kind: str, inputs: Sequence[int], after, table="", **options) -> int:
        """What has the scale of its first input."""
        return self.made(kind, inputs, after, self.parameters(inputs[0]), table, **options)

    def convolved(self, data: int, outputs=8, kernel=3, stride=1, fused=0, padding=SAME) -> int:
        before = self.file.tensors[data]["shape"]
        shape = (outputs, kernel, kernel, before[3])
        weights, like = layer(self, data, shape, outputs, 0, kernel * kernel * before[3])
        like["zero"] = -128 if fused else like["zero"]
        lost = 0 if padding == SAME else kernel - 1
        after = (1, *(-(-(size - lost) // stride) for size in before[1:3]), outputs)
        return self.made(
            "CONV_2D", [data, *weights], after, like, "Conv2DOptions", Padding=padding,
            StrideW=stride, StrideH=stride, FusedActivationFunction=fused,
        )  # fmt: skip

    def depthwise(self, data: int, stride=1, fused=3, padding=SAME) -> int:
        _, rows, columns, channels = self.file.tensors[data]["shape"]
        weights, like = layer(self, data, (1, 3, 3, channels), channels, 3, 9)
        lost = 0 if padding == SAME else 2
        after = (1, *(-(-(size - lost) // stride) for size in (rows, columns)), channels)
        return self.made(
            "DEPTHWISE_CONV_2D", [data, *weights], after, like, "DepthwiseConv2DOptions",
            Padding=padding, StrideW=stride, StrideH=stride, DepthMultiplier=1,
            FusedActivationFunction=fused,
        )  # fmt: skip

    def done(self, result: int) -> Member:
        self.outputs, self.steps = [result], 4  # a step of a layer moves the sums of the next
        return self.member()


def network(rng: np.random.Generator) -> Member:
    """A small int8 classifier: convolutions, a residual sum, a join, pools, a flattened image."""
    draw = Blocks(rng, "int8")
    side, channels = 2 * draw.size(3, 5), draw.size(2, 8)
    data = draw.data((1, side, side, draw.size(1, 4)))
    first = draw.convolved(data, channels, fused=FUSED["RELU"])
    second = draw.convolved(first, channels)
    like = draw.like(2 * max(draw.parameters(each)["scale"] for each in (first, second)), -128)
    inner, half = (1, side, side, channels), (1, side // 2, side // 2)
    added = draw.made("ADD", [first, second], inner, like, "AddOptions", FusedActivationFunction=1)
    pooled = draw.kept(
        "MAX_POOL_2D", [added], (*half, channels), "Pool2DOptions",
        Padding=VALID, StrideW=2, StrideH=2, FilterWidth=2, FilterHeight=2,
    )  # fmt: skip
    halved = draw.convolved(added, channels, stride=2, fused=FUSED["RELU6"])
    draw.file.tensors[halved].update(like)
    after, table = (*half, 2 * channels), "ConcatenationOptions"
    joined = draw.kept("CONCATENATION", [pooled, halved], after, table, Axis=3)
    if draw.size(0, 1):
        flat = int(np.prod(after))
        rows = draw.kept("RESHAPE", [joined, draw.whole([1, flat])], (1, flat), "ReshapeOptions")
    else:
        flat, inputs = 2 * channels, [joined, draw.whole([1, 2])]
        rows = draw.kept("MEAN", inputs, (1, flat), "ReducerOptions", KeepDims=False)
    weights, like = layer(draw, rows, (5, flat), 5, 0, flat)
    inputs = [rows, *weights]
    return draw.done(draw.made("FULLY_CONNECTED", inputs, (1, 5), like, "FullyConnectedOptions"))
