# SPDX-License-Identifier: Apache-2.0
"""Random quantised graphs."""

from dataclasses import replace

import numpy as np
from support.networks.qgraph_floats import apply, dequantised, quantised

from tilewright.host.compiler.lower import qgraph

ACTIVATIONS = (qgraph.UNBOUNDED, (0.0, None), (0.0, 6.0), (-1.0, 1.5))

LARGEST_KERNEL = 12
"""Side of the last global pool or dense layer: its taps fit the scratchpads of any test."""


class GraphMaker:
    """Appends operators to a graph; every tensor's scale suits the values that reach it."""

    def __init__(self, rng, shape, *, zero_points=False):
        self.rng = rng
        self.zero_points = zero_points
        self.tensors = {}
        self.operators = []
        self.values = {}
        self.inputs = []
        self.input(shape)

    def _tensor(self, name, shape, spread):
        scale = float(spread) / 100 if spread > 1e-6 else 0.01
        zero = int(self.rng.integers(-20, 20)) if self.zero_points else 0
        self.tensors[name] = qgraph.QTensor(name=name, shape=shape, scale=scale, zero_point=zero)
        return name

    def input(self, shape):
        name = f"x{len(self.inputs)}"
        self._tensor(name, shape, 3.0)
        self.inputs.append(name)
        self.values[name] = self.rng.integers(-128, 128, shape, dtype=np.int8)
        return name

    def shape(self, name):
        return self.tensors[name].shape

    def _append(self, operator, shape=None):
        known = {**self.tensors, operator.output: None}
        if shape is None:
            real = apply(operator, [dequantised(self.tensors[n], self.values[n]) for n in
                                    operator.inputs])  # fmt: skip
            shape, spread = real.shape, np.abs(real).max()
            self._tensor(operator.output, shape, spread * self.rng.uniform(0.6, 1.1) or 1.0)
            self.values[operator.output] = quantised(self.tensors[operator.output], real)
        assert operator.output in known
        self.operators.append(operator)
        return operator.output

    def _names(self, kind):
        number = len(self.operators)
        return f"{kind}{number}", f"t{number}"

    def conv(self, source, outputs, kernel=1, *, stride=1, pad=0, groups=1, dilation=1,
             residual=None, bounds=qgraph.UNBOUNDED):  # fmt: skip
        rng = self.rng
        depth = self.shape(source)[1] // groups
        kh, kw = (kernel, kernel) if isinstance(kernel, int) else kernel
        name, output = self._names("conv")
        weights = rng.integers(-127, 128, (outputs, depth, kh, kw), dtype=np.int8)
        if outputs > 2 and rng.random() < 0.2:
            weights[1] = 0
        inputs = (source,) if residual is None else (source, residual)
        return self._append(
            qgraph.QConv(
                name=name, inputs=inputs, output=output, bounds=bounds, weights=weights,
                weight_scales=rng.uniform(0.2, 1.5, outputs) / 74 / np.sqrt(depth * kh * kw),
                bias=rng.normal(size=outputs) * 0.5, stride=(stride, stride),
                pads=(pad, pad, pad, pad), groups=groups, dilation=(dilation, dilation),
            )
        )  # fmt: skip

    def transposed(self, source, outputs, kernel, stride, *, pad=0, output_padding=0, groups=1,
                   bounds=qgraph.UNBOUNDED):  # fmt: skip
        rng, depth = self.rng, self.shape(source)[1]
        name, output = self._names("transposed")
        share = (depth, outputs // groups, kernel, kernel)
        return self._append(
            qgraph.QConv(
                name=name, inputs=(source,), output=output, bounds=bounds, transposed=True,
                weights=rng.integers(-127, 128, share, dtype=np.int8), groups=groups,
                weight_scales=rng.uniform(0.2, 1.5, outputs) / 74 / np.sqrt(depth * kernel),
                bias=rng.normal(size=outputs) * 0.5, stride=(stride, stride),
                pads=(pad, pad, pad, pad), output_padding=(output_padding, output_padding),
            )
        )  # fmt: skip

    def pool(self, source, kernel, stride, *, maximum, pad=0):
        name, output = self._names("pool")
        return self._append(
            qgraph.QPool(
                name=name, inputs=(source,), output=output, maximum=maximum,
                kernel=(kernel, kernel), stride=(stride, stride), pads=(pad, pad, pad, pad),
            )
        )  # fmt: skip

    def shrunk(self, source, side):
        """Averages until no side is longer."""
        while self.shape(source)[2] > side:
            source = self.pool(source, 2, 2, maximum=False)
        return source

    def add(self, first, second, *, bounds=qgraph.UNBOUNDED):
        name, output = self._names("add")
        return self._append(
            qgraph.QAdd(name=name, inputs=(first, second), output=output, bounds=bounds)
        )

    def multiply(self, first, second, *, bounds=qgraph.UNBOUNDED):
        name, output = self._names("multiply")
        return self._append(
            qgraph.QMultiply(name=name, inputs=(first, second), output=output, bounds=bounds)
        )

    def gate(self, source, bounds):
        """Times a layer of it, of all its pixels or of their mean."""
        _, channels, side, _ = self.shape(source)
        mean = side <= LARGEST_KERNEL and self.rng.random() < 0.5
        pixels = self.pool(source, side, 1, maximum=False) if mean else source
        return self.multiply(self.conv(pixels, channels, 1), source, bounds=bounds)

    def concat(self, *sources):
        name, output = self._names("concat")
        return self._append(qgraph.QConcat(name=name, inputs=sources, output=output))

    def stack(self, *sources):
        name, output = self._names("stack")
        return self._append(qgraph.QStack(name=name, inputs=sources, output=output))

    def select(self, source, channels, *, exact=True):
        """Some channels; at the scale of the source, or at one of their own."""
        name, output = self._names("select")
        operator = qgraph.QSelect(
            name=name, inputs=(source,), output=output, channels=tuple(map(int, channels))
        )
        if not exact:
            return self._append(operator)
        tensor, values = self.tensors[source], self.values[source][:, operator.channels]
        self.tensors[output] = replace(tensor, name=output, shape=values.shape)
        self.values[output] = values
        return self._append(operator, values.shape)

    def rescale(self, source, bounds):
        name, output = self._names("rescale")
        return self._append(
            qgraph.QRescale(name=name, inputs=(source,), output=output, bounds=bounds)
        )

    def enlarge(self, source, factors, bounds=qgraph.UNBOUNDED):
        name, output = self._names("enlarge")
        return self._append(
            qgraph.QEnlarge(
                name=name, inputs=(source,), output=output, bounds=bounds, factors=factors
            )
        )

    def prelu(self, source, slopes, bounds=qgraph.UNBOUNDED):
        name, output = self._names("prelu")
        return self._append(
            qgraph.QPrelu(name=name, inputs=(source,), output=output, bounds=bounds, slopes=slopes)
        )

    def table(self, source):
        """Any function of the steps of a tensor."""
        name, output = self._names("table")
        tensor, entries = self.tensors[source], self.rng.integers(-128, 128, 256, dtype=np.int8)
        lookup = qgraph.Lookup(scale=tensor.scale, zero_point=tensor.zero_point, entries=entries)
        self._tensor(output, tensor.shape, 2.0)
        self.values[output] = entries[self.values[source].astype(int) + 128]
        return self._append(
            qgraph.QRescale(name=name, inputs=(source,), output=output, lookup=lookup), tensor.shape
        )

    def softmax(self, source, heads=1):
        name, output = self._names("softmax")
        return self._append(
            qgraph.QSoftmax(name=name, inputs=(source,), output=output, heads=heads)
        )

    def norm(self, source, bounds=qgraph.UNBOUNDED):
        name, output = self._names("norm")
        gamma, beta = self.rng.normal([[1], [0]], 0.4, (2, self.shape(source)[1]))
        epsilon = self.rng.choice([0.0, 4.0]) * self.tensors[source].scale ** 2
        norm = qgraph.QLayerNorm(
            name=name, inputs=(source,), output=output, bounds=bounds, gamma=gamma, beta=beta,
            epsilon=epsilon,
        )  # fmt: skip
        return self._append(norm)

    def reshape(self, source, *shape):
        name, output = self._names("reshape")
        self.tensors[output] = replace(self.tensors[source], name=output, shape=shape)
        self.values[output] = self.values[source].reshape(shape)
        return self._append(qgraph.QReshape(name=name, inputs=(source,), output=output), shape)

    def flatten(self, source):
        n, *rest = self.shape(source)
        return self.reshape(source, n, int(np.prod(rest)), 1, 1)

    def matmul(self, a, b, heads, *, b_rows_are_outputs, factor=1.0):
        name, output = self._names("matmul")
        return self._append(
            qgraph.QMatmul(
                name=name, inputs=(a, b), output=output, heads=heads,
                b_rows_are_outputs=b_rows_are_outputs, factor=factor,
            )
        )  # fmt: skip

    def graph(self, *outputs):
        return qgraph.QGraph(
            name="drawn",
            tensors=self.tensors,
            operators=tuple(self.operators),
            inputs=tuple(self.inputs),
            outputs=outputs,
        )

    def arguments(self):
        return {name: self.values[name] for name in self.inputs}


def draw_cnn(rng, block, *, zero_points=False):
    """A small network with every kind of operator that images use."""
    size = int(rng.integers(7, 15))
    maker = GraphMaker(rng, (1, int(rng.integers(1, 5)), size, size), zero_points=zero_points)
    act = lambda: ACTIVATIONS[rng.integers(len(ACTIVATIONS))]  # noqa: E731  (drawn each time)
    x = maker.conv("x0", int(rng.integers(3, 2 * block + 3)), int(rng.choice([3, 5, 7])),
                   stride=int(rng.integers(1, 3)), pad=int(rng.integers(0, 3)),
                   bounds=act())  # fmt: skip
    for _ in range(int(rng.integers(2, 5))):
        channels, side = maker.shape(x)[1], maker.shape(x)[2]
        kind = rng.choice(["conv", "residual", "shortcut", "depthwise", "groups", "concat", "max",
                           "average", "relu", "transposed", "gate"])  # fmt: skip
        if kind == "conv":
            x = maker.conv(x, int(rng.integers(1, 3 * block)), 3, pad=1,
                           dilation=1, bounds=act())  # fmt: skip
        elif kind == "residual":
            y = maker.conv(x, channels, 3, pad=1)
            x = maker.rescale(maker.add(y, x), act())
        elif kind == "shortcut":
            outputs = int(rng.integers(1, 2 * block))
            left = maker.conv(maker.conv(x, outputs, 3, pad=1, bounds=act()), outputs, 1)
            x = maker.add(left, maker.conv(x, outputs, 1), bounds=act())
        elif kind == "depthwise" and channels > 1:
            x = maker.conv(x, channels, 3, pad=1, groups=channels, bounds=act())
        elif kind == "groups":
            x = maker.conv(maker.conv(x, 4 * block, 1), 4 * block, 3, pad=1, groups=4)
        elif kind == "concat":
            left = maker.conv(x, block, 1, bounds=act())
            right = maker.conv(x, block + 1, 3, pad=1, bounds=act())
            middle = maker.conv(x, block, 1)
            x = maker.concat(left, maker.rescale(middle, (0.0, None)), right)
        elif kind == "transposed" and side < 12:
            kernel, stride = int(rng.integers(1, 5)), int(rng.integers(1, 4))
            x = maker.transposed(x, int(rng.integers(1, 2 * block)), kernel, stride,
                                 pad=int(rng.integers(0, kernel)) // 2,
                                 output_padding=int(rng.integers(0, stride)),
                                 bounds=act())  # fmt: skip
        elif kind == "max" and side > 3:
            x = maker.pool(x, 3, 2, maximum=True, pad=1)
        elif kind == "average" and side > 2:
            x = maker.pool(x, 2, 2, maximum=False)
        else:
            x = maker.gate(x, act()) if kind == "gate" else maker.rescale(x, (0.0, None))
    x = maker.shrunk(x, LARGEST_KERNEL)
    if rng.random() < 0.5:
        x = maker.pool(x, maker.shape(x)[2], 1, maximum=False)
    x = maker.conv(maker.flatten(x), int(rng.integers(2, 12)), 1)
    return maker.graph(x), maker.arguments()


CHANNEL_KINDS = (
    "add", "block", "concat", "concat", "conv", "depthwise", "enlarge", "pool", "relu", "select",
    "shuffle", "shuffle", "split", "stack",
)  # fmt: skip


def draw_channels(rng, block, *, zero_points=False):
    """A small network that splits, joins and shuffles channels at any channel."""
    size = int(rng.integers(4, 9))
    maker = GraphMaker(rng, (1, int(rng.integers(2, 3 * block)), size, size),
                       zero_points=zero_points)  # fmt: skip
    act = lambda: ACTIVATIONS[rng.integers(len(ACTIVATIONS))]  # noqa: E731  (drawn each time)
    found = ["x0", maker.conv("x0", int(rng.integers(2, 3 * block)), 3, pad=1, bounds=act())]
    for _ in range(int(rng.integers(3, 8))):
        x = found[int(rng.integers(max(len(found) - 3, 0), len(found)))]
        channels = maker.shape(x)[1]
        same = [y for y in found if maker.shape(y)[2:] == maker.shape(x)[2:]]
        equal = [y for y in same if maker.shape(y)[1] == channels]
        kind = rng.choice(CHANNEL_KINDS)
        if kind == "conv":
            kernel = int(rng.choice([1, 1, 3]))
            found.append(maker.conv(x, int(rng.integers(1, 3 * block)), kernel, pad=kernel // 2,
                                    bounds=act()))  # fmt: skip
        elif kind == "depthwise" and channels > 1:
            found.append(maker.conv(x, channels, 3, pad=1, groups=channels, bounds=act()))
        elif kind == "enlarge" and channels > 1 and maker.shape(x)[2] < 6:
            found.append(maker.transposed(x, channels, 2, 2, groups=channels))
        elif kind == "pool" and maker.shape(x)[2] > 2:
            found.append(maker.pool(x, 3, 1, maximum=bool(rng.integers(2)), pad=1))
        elif kind == "add":
            found.append(maker.add(x, str(rng.choice(equal)), bounds=act()))
        elif kind == "concat":
            found.append(maker.concat(*map(str, rng.choice(same, int(rng.integers(2, 4))))))
        elif kind == "stack" and maker.shape(x)[2] < 8:
            some = rng.choice(equal, int(rng.integers(2, 4)))
            found.append(maker.stack(*map(str, some)))
        elif kind in ("block", "relu"):
            x = maker.rescale(x, act())
            found.append(dense_block(maker, x, block + 1, act) if kind == "block" else x)
        elif kind == "shuffle" and channels % 2 == 0:
            found.append(maker.select(x, np.arange(channels).reshape(2, -1).T.reshape(-1)))
        elif kind == "split" and channels > 1:
            cut = int(rng.integers(1, channels))
            found += [maker.select(x, range(cut)), maker.select(x, range(cut, channels))]
        elif kind == "select":
            some = rng.integers(0, channels, int(rng.integers(1, channels + 1)))
            found.append(maker.select(x, some, exact=bool(rng.integers(2))))
    results = [y for y in found[2:] if rng.random() < 0.2]
    last = maker.conv(maker.concat(*found[-2:]) if maker.shape(found[-1])[2:] == maker.shape(
        found[-2])[2:] else found[-1], 3, 1)  # fmt: skip
    return maker.graph(*results, last), maker.arguments()


def dense_block(maker, x, growth, act):
    """Layers that read all channels so far by a factor and an offset each, and add some."""
    affine = lambda y: maker.conv(y, maker.shape(y)[1], groups=maker.shape(y)[1], bounds=act())  # noqa: E731  (short)
    x = maker.concat(x, maker.conv(x, growth, 1, bounds=act()))
    for _ in range(2):
        x = maker.concat(x, maker.conv(affine(x), growth, 3, pad=1))
    return affine(x)


def draw_attention(rng, block):
    """Queries, keys and values of some heads; the caller's softmax is left out."""
    heads, depth, tokens = (int(n) for n in rng.integers(1, (4, 2 * block + 1, 3 * block)))
    maker = GraphMaker(rng, (1, 2 * block + 1, tokens, 1))
    q, k, v = (maker.conv("x0", heads * depth, 1) for _ in range(3))
    scores = maker.matmul(q, k, heads, b_rows_are_outputs=True, factor=1 / np.sqrt(depth))
    context = maker.matmul(scores, v, heads, b_rows_are_outputs=False)
    return maker.graph(maker.conv(context, 5, 1)), maker.arguments()


FUNCTION_KINDS = (
    "add", "conv", "depthwise", "norm", "norm", "relu", "select", "shuffle", "softmax", "softmax",
    "table", "table", "table",
)  # fmt: skip


def draw_functions(rng, block, *, zero_points=False):
    """Tables, softmax and layer normalisation between joins and shuffles of channels."""
    images, channels, size = (int(n) for n in (rng.choice([1, 1, 2]), rng.integers(1, 3 * block),
                                               rng.integers(1, 6)))  # fmt: skip
    maker = GraphMaker(rng, (images, channels, size, size), zero_points=zero_points)
    act = lambda: ACTIVATIONS[rng.integers(len(ACTIVATIONS))]  # noqa: E731  (drawn each time)
    found = ["x0", maker.conv("x0", int(rng.integers(1, 3 * block)))]
    for _ in range(int(rng.integers(3, 8))):
        x = found[int(rng.integers(max(len(found) - 3, 0), len(found)))]
        channels = maker.shape(x)[1]
        kind = rng.choice([*FUNCTION_KINDS, *["concat"] * (2 if images == 1 else 0)])
        if kind == "conv":
            x = maker.conv(x, int(rng.integers(1, 3 * block)), bounds=act())
        elif kind == "depthwise" and channels > 1:
            x = maker.conv(x, channels, groups=channels, bounds=act())
        elif kind == "add":
            equal = [y for y in found if maker.shape(y) == maker.shape(x)]
            x = maker.add(x, str(rng.choice(equal)), bounds=act())
        elif kind == "concat":
            x = maker.concat(*map(str, rng.choice(found, int(rng.integers(2, 4)))))
        elif kind == "shuffle" and channels % 2 == 0:
            x = maker.select(x, np.arange(channels).reshape(2, -1).T.reshape(-1))
        elif kind == "select":
            some = rng.permutation(channels)[: int(rng.integers(1, channels + 1))]
            x = maker.select(x, some, exact=bool(rng.integers(2)))
        elif kind == "softmax":
            x = maker.softmax(x, heads=2 if images == 1 and channels % 2 == 0 else 1)
        elif kind == "norm":
            x = maker.norm(x, act())
        else:
            x = maker.rescale(x, act()) if kind == "relu" else maker.table(x)
        found.append(x)
    results = [y for y in found[2:-1] if rng.random() < 0.2]
    return maker.graph(*dict.fromkeys(results), maker.conv(found[-1], 3)), maker.arguments()
