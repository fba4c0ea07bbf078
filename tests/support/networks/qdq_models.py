# SPDX-License-Identifier: Apache-2.0
"""Random quantised networks as ONNX files, whose tensors saturate.

A float network is drawn, run once, and written down with QuantizeLinear and DequantizeLinear around
each operator. Ranges are drawn from what the values need and less than that, so that many tensors
clip, at either end: as int8 and uint8, symmetric and not, with the zero point at an end of the
range, which is how ONNX Runtime's quantiser writes a ReLU. Neighbours have unlike scales; some
tensors are quantised twice.
"""

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper
from support.networks.qdq_runs import run_all
from support.networks.small_models import Model

TABLES = ("Sigmoid", "Tanh", "HardSwish", "LeakyRelu", "Elu")
KINDS = ("conv", "conv", "depthwise", "dense", "residual", "residual", "concat", "concat", "split",
         "pool", "average", "table", "multiply", "norm", "joined", "joined", "transposed",
         "clip", "far", "nearest", "pair", "padded", "stepped", "moved", "reduced", "constant",
         "softmax", "norms", "attended", "matrices", "tiled", "divided", "chosen",
         "affine")  # fmt: skip
SIDES = 300
"""Most pixels of what others read."""


@dataclass(frozen=True, kw_only=True)
class Op:
    """An operator of the float network: its kind, inputs by number, attributes and weights."""

    kind: str
    inputs: tuple[int, ...]
    attributes: dict
    weights: tuple[np.ndarray, ...] = ()
    slot: int = 0
    """Which output of the operator is meant."""


class Drawing:
    """A float network under construction; tensor 0 is its input."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        side = int(rng.integers(5, 9))
        self.ops: list[Op] = []
        self.taken: set[int] = set()
        """Tensors that have all of their readers."""
        self.shapes: list[tuple[int, ...]] = [(1, int(rng.integers(2, 9)), side, side)]
        self.step(int(rng.integers(3, 8)), "conv")

    def add(self, kind, inputs, shape, weights=(), **attributes) -> int:
        self.ops.append(
            Op(kind=kind, inputs=tuple(inputs), attributes=attributes, weights=tuple(weights))
        )
        self.shapes.append(tuple(shape))
        return len(self.shapes) - 1

    def _normal(self, *shape, fan) -> np.ndarray:
        return (self.rng.normal(size=shape) / np.sqrt(fan)).astype(np.float32)

    def conv(self, x, channels, kernel=1, *, groups=1, stride=1) -> int:
        _, depth, h, w = self.shapes[x]
        fan = depth // groups * kernel * kernel
        weights = self._normal(channels, depth // groups, kernel, kernel, fan=fan)
        bias = self.rng.normal(size=channels).astype(np.float32) * np.float32(0.3)
        pad = kernel // 2
        size = [(n + 2 * pad - kernel) // stride + 1 for n in (h, w)]
        return self.add("Conv", [x], (1, channels, *size), (weights, bias), pads=[pad] * 4,
                        strides=[stride] * 2, group=groups)  # fmt: skip

    def step(self, count: int, first: str | None = None) -> None:
        """Append operators, most of them behind one of the last tensors."""
        rng = self.rng
        for number in range(count):
            free = [n for n in range(len(self.shapes)) if self._is_free(n)]
            kind = first if number == 0 and first else str(rng.choice(KINDS))
            getattr(self, f"_{kind}")(int(rng.choice(free[-4:])))

    def _is_free(self, x) -> bool:
        """Whether a tensor is an image of moderate size that may have more readers."""
        shape = self.shapes[x]
        small = len(shape) == 4 and shape[1] < 40 and shape[2] * shape[3] < SIDES
        return small and x not in self.taken

    def _same(self, x, *, channels=True) -> list[int]:
        axes = slice(0, None) if channels else slice(2, None)
        return [
            n
            for n, shape in enumerate(self.shapes)
            if shape[axes] == self.shapes[x][axes] and n not in self.taken
        ]

    def _conv(self, x) -> None:
        kernel = int(self.rng.choice([1, 1, 3]))
        self.conv(x, int(self.rng.integers(2, 13)), kernel)

    def _depthwise(self, x) -> None:
        channels = self.shapes[x][1]
        self.conv(x, channels, 3, groups=channels)

    def _norm(self, x) -> None:
        """A factor and an offset for each channel, as batch normalisation in dense blocks."""
        channels = self.shapes[x][1]
        self.conv(x, channels, 1, groups=channels)

    def _affine(self, x) -> None:
        """Batch normalisation of an image, or of what is none."""
        n, c, h, w = self.shapes[x]
        flat = self.rng.random() < 0.5
        y = self._shaped(x, [n, c, h * w]) if flat else x
        numbers = [self._normal(c, fan=9) for _ in range(4)]
        numbers[0], numbers[3] = 1 + numbers[0], 1 + np.abs(numbers[3])
        self.add("BatchNormalization", [y], self.shapes[y], numbers)
        if flat:
            self._shaped(len(self.shapes) - 1, [n, c, h, w])

    def _dense(self, x) -> None:
        self.conv(x, int(self.rng.integers(2, 13)))

    def _residual(self, x) -> None:
        channels = self.shapes[x][1]
        y = self.conv(x, channels, int(self.rng.choice([1, 3])))
        other = self.conv(x, channels) if self.rng.random() < 0.3 else int(
            self.rng.choice(self._same(y)))  # fmt: skip
        pair = [y, other] if self.rng.random() < 0.5 else [other, y]
        self.add("Add", pair, self.shapes[y])

    def _multiply(self, x) -> None:
        self.add("Mul", [x, int(self.rng.choice(self._same(x)))], self.shapes[x])

    def _concat(self, x) -> None:
        same = self._same(x, channels=False)
        parts = [x, *self.rng.choice(same, int(self.rng.integers(1, 3))).tolist()]
        if self.rng.random() < 0.5:
            parts[0] = self.conv(x, int(self.rng.integers(2, 7)))
        channels = sum(self.shapes[n][1] for n in parts)
        if channels < 40:
            self.add("Concat", parts, (1, channels, *self.shapes[x][2:]), axis=1)

    def _joined(self, x) -> None:
        """Layers side by side that only batch normalisation reads, as in dense blocks."""
        parts = [self.conv(x, int(self.rng.integers(2, 7))) for _ in range(2)]
        channels = sum(self.shapes[n][1] for n in parts)
        whole = self.add("Concat", parts, (1, channels, *self.shapes[x][2:]), axis=1)
        self._norm(whole)
        self.taken |= {*parts, whole}

    def _split(self, x) -> None:
        channels = self.shapes[x][1]
        start, end = sorted(self.rng.choice(channels + 1, 2, replace=False).tolist())
        self.add("Slice", [x], (1, end - start, *self.shapes[x][2:]),
                 [np.array([start]), np.array([end]), np.array([1])])  # fmt: skip

    def _pool(self, x) -> None:
        n, c, h, w = self.shapes[x]
        self.add("MaxPool", [x], (n, c, h, w), kernel_shape=[3, 3], pads=[1] * 4)

    def _average(self, x) -> None:
        n, c, h, w = self.shapes[x]
        if min(h, w) > 1:
            self.add("AveragePool", [x], (n, c, h - 1, w - 1), kernel_shape=[2, 2])

    def _table(self, x) -> None:
        """A function, sometimes on more axes than an image has."""
        n, c, h, w = self.shapes[x]
        more = [n, c, 1, h, w] if self.rng.random() < 0.5 else [n, *self._cut(c), h, w]
        y = self._shaped(x, more) if self.rng.random() < 0.2 else x
        self.add(str(self.rng.choice(TABLES)), [y], self.shapes[y])
        if y != x:
            self._shaped(len(self.shapes) - 1, [n, c, h, w])

    def _clip(self, x) -> None:
        self.add("Relu", [x], self.shapes[x])

    def _transposed(self, x) -> None:
        n, c, h, w = self.shapes[x]
        if h < 8:
            groups = int(self.rng.choice([each for each in range(1, c + 1) if c % each == 0]))
            share, side, step, gap = (int(self.rng.integers(1, most)) for most in (4, 4, 3, 3))
            sizes = [(each - 1) * step + gap * (side - 1) + 1 for each in (h, w)]
            weights = self._normal(c, share, side, side, fan=c)
            if share * groups < 40 and sizes[0] * sizes[1] < SIDES:
                self.add("ConvTranspose", [x], (n, share * groups, *sizes), [weights],
                         strides=[step] * 2, dilations=[gap] * 2, group=groups)  # fmt: skip

    def _far(self, x) -> None:
        """A convolution, or a maximum, whose window reaches beyond the image."""
        n, c, h, w = self.shapes[x]
        d = [int(self.rng.integers(1, 40)) for _ in range(2)]
        if self.rng.random() < 0.3:
            d = [min(step, 2) for step in d]
            size = [side + 4 - 2 * step for side, step in zip((h, w), d, strict=True)]
            if min(size) > 0:
                self.add("MaxPool", [x], (n, c, *size), kernel_shape=[3, 3], pads=[2] * 4,
                         dilations=d)  # fmt: skip
            return
        groups = c if self.rng.random() < 0.5 else 1
        channels = c if groups > 1 else int(self.rng.integers(2, 9))
        weights = self._normal(channels, c // groups, 3, 3, fan=3 * c // groups)
        self.add("Conv", [x], (n, channels, h, w), [weights], pads=[*d, *d], dilations=d,
                 group=groups)  # fmt: skip

    def _nearest(self, x) -> None:
        n, c, h, w = self.shapes[x]
        if h * w < 200:
            size = [int(self.rng.integers(1, 2 * side + 1)) for side in (h, w)]
            mode = str(self.rng.choice(["half_pixel", "asymmetric", "align_corners"]))
            empty = np.zeros(0, np.float32)
            self.add("Resize", [x], (n, c, *size), [empty, empty, np.array([n, c, *size])],
                     coordinate_transformation_mode=mode)  # fmt: skip

    def _pair(self, x) -> None:
        kind = str(self.rng.choice(["Sub", "Max", "Min"]))
        self.add(kind, [x, int(self.rng.choice(self._same(x)))], self.shapes[x])

    def _padded(self, x) -> None:
        n, c, h, w = self.shapes[x]
        pads = self.rng.integers(0, 3, 4)
        if h + w < 24:
            size = h + pads[0] + pads[2], w + pads[1] + pads[3]
            self.add("Pad", [x], (n, c, *map(int, size)),
                     [np.array([0, 0, *pads[:2], 0, 0, *pads[2:]])])  # fmt: skip

    def _stepped(self, x) -> None:
        n, c, h, w = self.shapes[x]
        first, step = int(self.rng.integers(2)), int(self.rng.choice([2, 3, -1]))
        if h > 3:
            start, end = (first, h) if step > 0 else (h - 1 - first, -h - 1)
            rows = len(range(start, end if step > 0 else -1, step))
            self.add("Slice", [x], (n, c, rows, w),
                     [np.array([each]) for each in (start, end, 2, step)])  # fmt: skip

    def _moved(self, x) -> None:
        """Axes are cut, permuted and joined: turned images, shuffled channels, windows."""
        n, *sides = self.shapes[x]
        cut = [part for side in sides for part in self._cut(side)]
        order = self.rng.permutation(len(cut))
        firsts = np.sort(self.rng.choice(range(1, len(cut)), 2, replace=False))
        shape = [int(np.prod(part)) for part in np.split(np.array(cut)[order], firsts)]
        if shape[0] < 40:
            y = self._shaped(x, [n, *cut])
            y = self.add("Transpose", [y], [n, *(cut[each] for each in order)],
                         perm=[0, *(int(each) + 1 for each in order)])  # fmt: skip
            self._shaped(y, [n, *shape])

    def _cut(self, side: int) -> list[int]:
        factors = [each for each in range(2, side) if side % each == 0]
        if not factors or self.rng.random() < 0.5:
            return [side]
        factor = int(self.rng.choice(factors))
        return [factor, side // factor]

    def _shaped(self, x, shape) -> int:
        return self.add("Reshape", [x], shape, [np.array(shape)])

    def _reduced(self, x) -> None:
        """What is made of some axes, for all of them: gates, centring, the largest."""
        shape = self.shapes[x]
        axes = [axis for axis in (1, 2, 3) if self.rng.random() < 0.5] or [2, 3]
        kept = [1 if axis in axes else side for axis, side in enumerate(shape)]
        kind = str(self.rng.choice(["Mean", "Mean", "Sum", "Max", "Min"]))
        y = self.add(f"Reduce{kind}", [x], kept, [np.array(axes)], keepdims=1)
        pair = [x, y] if self.rng.random() < 0.7 else [y, x]
        self.add(str(self.rng.choice(["Mul", "Add", "Sub", "Max"])), pair, shape)

    def _softmax(self, x) -> None:
        self.add("Softmax", [x], self.shapes[x], axis=int(self.rng.integers(1, 4)))

    def _norms(self, x) -> None:
        """Layer normalisation of the channels, or of the columns, of each pixel."""
        n, c, h, w = self.shapes[x]
        columns = self.rng.random() < 0.3
        y = x if columns else self._turned(self._shaped(x, [n, c, h * w]))
        size = self.shapes[y][-1]
        numbers = [1 + self._normal(size, fan=9), self._normal(size, fan=9)]
        y = self.add("LayerNormalization", [y], self.shapes[y], numbers, axis=-1)
        if not columns:
            self._shaped(self._turned(y), [n, c, h, w])

    def _turned(self, x) -> int:
        *outer, rows, columns = self.shapes[x]
        perm = [*range(len(outer)), len(outer) + 1, len(outer)]
        return self.add("Transpose", [x], [*outer, columns, rows], perm=perm)

    def _attended(self, x) -> None:
        """Attention of a tensor to itself, with heads or without."""
        n, c, h, w = self.shapes[x]
        heads = int(self.rng.choice([each for each in (1, 2, 3) if c % each == 0]))
        k = self._shaped(x, [n, heads, c // heads, h * w])
        q = self._turned(k)
        shape = (n, heads, h * w, h * w)
        y = self.add("MatMul", [q, k], shape)
        y = self.add("Mul", [y], shape, [np.float32((c // heads) ** -0.5)])
        y = self.add("Softmax", [y], shape, axis=-1)
        y = self.add("MatMul", [y, q], self.shapes[q])
        self._shaped(self._turned(y), [n, c, h, w])

    def _matrices(self, x) -> None:
        """Constant matrices, one for each channel, or one for all."""
        n, c, h, w = self.shapes[x]
        columns = int(self.rng.integers(2, 9))
        outer = ([c], [1, c], [])[int(self.rng.integers(3))]
        self.add("MatMul", [x], (n, c, h, columns), [self._normal(*outer, w, columns, fan=w)])

    def _tiled(self, x) -> None:
        axis = int(self.rng.integers(1, 4))
        times = [2 if each == axis else 1 for each in range(4)]
        shape = [side * each for side, each in zip(self.shapes[x], times, strict=True)]
        if shape[1] < 40 and shape[2] * shape[3] < SIDES:
            self.add("Tile", [x], shape, [np.array(times)])

    def _divided(self, x) -> None:
        """By a constant for each channel, far from 0."""
        shape = self.shapes[x]
        self.add("Div", [x], shape, [2 + np.abs(self._normal(shape[1], 1, 1, fan=1))])

    def _chosen(self, x) -> None:
        """Of two tensors, where constants say."""
        mask = self.rng.random(self.shapes[x][-int(self.rng.integers(1, 4)) :]) < 0.5
        self.add("Where", [x, int(self.rng.choice(self._same(x)))], self.shapes[x], [mask])

    def _constant(self, x) -> None:
        shape = [side if self.rng.random() < 0.5 else 1 for side in self.shapes[x][1:]]
        shape = [] if self.rng.random() < 0.2 else shape
        kind = str(self.rng.choice(["Add", "Mul", "Sub"]))
        self.add(kind, [x], self.shapes[x], [self._normal(*shape, fan=1)])

    def ends(self) -> list[int]:
        """Tensors that nobody reads."""
        read = {n for op in self.ops for n in op.inputs}
        return [n for n in range(1, len(self.shapes)) if n not in read]


def _range(rng, low: float, high: float) -> tuple[float, int, type]:
    """Scale, zero point and type of a tensor with values from low to high; often it is less."""
    low, high = min(low, 0.0), max(high, 0.0)
    largest = max(-low, high, 1e-3)
    tight = float(rng.choice([1.0, 1.0, 0.7, 0.4]))
    dtype = np.int8 if rng.random() < 0.6 else np.uint8
    first = int(np.iinfo(dtype).min)
    match str(rng.choice(["symmetric", "ends", "lowest", "highest", "any"])):
        case "symmetric":
            return largest * tight / 127, first + 128, dtype
        case "lowest":
            return max(high, largest / 8) * tight / 255, first, dtype
        case "highest":
            return max(-low, largest / 8) * tight / 255, first + 255, dtype
        case "any":
            return largest * tight / 127, first + int(rng.integers(256)), dtype
    scale = max(high - low, 1e-3) * tight / 255
    return scale, int(np.clip(first + np.rint(-low / scale), first, first + 255)), dtype


def float_model(rng: np.random.Generator) -> tuple[onnx.ModelProto, np.ndarray]:
    """A float network, and inputs for it, one behind another.

    What goes into a ReLU may leave, too.
    """
    drawing = Drawing(rng)
    model = Model(rng, opset=19)
    names = [model.input(*drawing.shapes[0])]
    leaving: list[str] = []
    for op in drawing.ops:
        constants = [model.constant(w) for w in op.weights]
        y = model.add(op.kind, *_arguments(op, names, constants), **op.attributes)
        names.append(model.add("Relu", y) if rng.random() < 0.4 else y)
        if y != names[-1] and rng.random() < 0.2:
            leaving.append(y)
    samples = rng.normal(size=(8, *drawing.shapes[0][1:])).astype(np.float32)
    return model.proto(*(names[n] for n in drawing.ends()), *leaving), samples


def quantised_model(rng: np.random.Generator) -> tuple[onnx.ModelProto, np.ndarray]:
    """A quantised network, and an input for it.

    All of its tensors are quantised, its results too: they are floats on the grid of an int8.
    """
    drawing = Drawing(rng)
    x = rng.normal(size=drawing.shapes[0]).astype(np.float32)
    values = _values(drawing, x)
    model = Model(rng, opset=19)
    names = [_rounded(model, rng, model.input(*drawing.shapes[0]), values[0])]
    for number, op in enumerate(drawing.ops, 1):
        y = _written(model, rng, op, names)
        if rng.random() < 0.15:
            y = model.add("Relu", y)
        elif rng.random() < 0.1:
            limits = np.quantile(values[number], [0.1, 0.8]).astype(np.float32)
            y = model.add("Clip", y, *map(model.constant, np.sort(limits)))
        for _ in range(2 if rng.random() < 0.25 else 1):
            y = _rounded(model, rng, y, values[number])
        names.append(y)
    ends = drawing.ends()
    if rng.random() < 0.2:  # a tensor in the middle leaves, too
        ends = sorted({*ends, int(rng.integers(1, len(names)))})
    return model.proto(*(names[n] for n in ends)), x


def _rounded(model: Model, rng, name: str, values: np.ndarray) -> str:
    return model.quantised(name, *_range(rng, float(values.min()), float(values.max())))


def _values(drawing: Drawing, x: np.ndarray) -> list[np.ndarray]:
    """What the float network computes."""
    model = Model(drawing.rng, opset=19)
    names = [model.input(*drawing.shapes[0])]
    for op in drawing.ops:
        constants = [model.constant(w) for w in op.weights]
        names.append(model.add(op.kind, *_arguments(op, names, constants), **op.attributes))
    found = run_all(model.proto(names[-1]), {"x": x})
    return [found[name] for name in names]


def _arguments(op: Op, names: list[str], constants: list[str]) -> list[str]:
    """What an operator reads, in its order: a condition stands first."""
    data = [names[number] for number in op.inputs]
    return [*constants, *data] if op.kind == "Where" else [*data, *constants]


def _written(model: Model, rng, op: Op, names: list[str]) -> str:
    """An operator with its weights as int8, per channel or not, and its bias as they are."""
    constants = [model.constant(w) for w in op.weights]
    if op.kind in ("Add", "Mul", "Sub", "Div", "MatMul") and constants:  # as quantisers leave them
        constants[0] = _dequantised(model, rng, op.weights[0], divides=op.kind == "Div")
    if op.kind.endswith("Normalization") and rng.random() < 0.5:
        constants[:2] = [_dequantised(model, rng, each) for each in op.weights[:2]]
    if op.kind in ("Conv", "ConvTranspose"):
        weights = op.weights[0]
        axis = 1 if op.kind == "ConvTranspose" else 0
        by_channel = bool(rng.integers(2))
        rest = tuple(a for a in range(4) if a != axis) if by_channel else (0, 1, 2, 3)
        scales = np.maximum(np.abs(weights).max(axis=rest) / 127, 1e-6).astype(np.float32)
        wide = np.expand_dims(scales, rest) if by_channel else scales
        steps = np.clip(np.rint(weights / wide), -127, 127).astype(np.int8)
        numbers = model.constant(scales), model.constant(np.zeros(scales.shape, np.int8))
        along = {"axis": axis} if by_channel else {}
        stored = model.constant(steps)
        if rng.random() < 0.3:  # as training leaves them: floats that each inference quantises
            floats = model.constant((steps * wide).astype(np.float32))
            stored = model.add("QuantizeLinear", floats, *numbers, **along)
        constants[0] = model.add("DequantizeLinear", stored, *numbers, **along)
    return model.add(op.kind, *_arguments(op, names, constants), **op.attributes)


def _dequantised(model: Model, rng, values: np.ndarray, *, divides: bool = False) -> str:
    """A constant as int8 or uint8 of one scale."""
    span = float(values.min()), float(values.max())
    scale, zero_point, dtype = _range(rng, *span) if not divides else (span[1] / 127, 0, np.int8)
    ends = np.iinfo(dtype)
    steps = np.clip(np.rint(values / scale) + zero_point, ends.min, ends.max).astype(dtype)
    numbers = np.float32(scale), dtype(zero_point)
    return model.add("DequantizeLinear", model.constant(steps), *numbers)


def dithered(model: onnx.ModelProto, rng: np.random.Generator) -> onnx.ModelProto:
    """The model with noise of half a step either way in front of each rounding."""
    noisy = onnx.ModelProto()
    noisy.CopyFrom(model)
    del noisy.graph.node[:]
    constants = {each.name for each in model.graph.initializer}
    typed = onnx.shape_inference.infer_shapes(model).graph
    shapes = {
        value.name: [d.dim_value for d in value.type.tensor_type.shape.dim]
        for value in (*typed.value_info, *typed.input, *typed.output)
    }
    scales = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    for node in model.graph.node:
        kept = noisy.graph.node.add()
        kept.CopyFrom(node)
        if node.op_type == "QuantizeLinear" and node.input[0] not in constants:
            noise = rng.uniform(-0.5, 0.5, shapes[node.input[0]]) * scales[node.input[1]]
            name = f"{node.output[0]}/noise"
            noisy.graph.initializer.append(numpy_helper.from_array(noise.astype(np.float32), name))
            kept.input[0] = f"{node.input[0]}/{node.output[0]}/noisy"
            added = onnx.helper.make_node("Add", [node.input[0], name], [kept.input[0]])
            noisy.graph.node.insert(len(noisy.graph.node) - 1, added)
    return noisy
