# SPDX-License-Identifier: Apache-2.0
"""Small networks of the forms of ConvNeXt and Swin, with random weights."""

import numpy as np
import onnx
from support.networks.small_models import Model

END = 2**63 - 1


class Vision(Model):
    """A model with the parts of both."""

    def dense(self, x: str, width: int, outputs: int) -> str:
        """A dense layer along the last axis."""
        bias = self.constant(self.rng.normal(0, 0.1, outputs).astype(np.float32))
        return self.add("Add", self.add("MatMul", x, self.weights(width, outputs)), bias)

    def norm(self, x: str, width: int) -> str:
        """Layer normalisation along the last axis."""
        gamma, beta = self.rng.normal(1, 0.2, width), self.rng.normal(0, 0.2, width)
        parts = (self.constant(part.astype(np.float32)) for part in (gamma, beta))
        return self.add("LayerNormalization", x, *parts, axis=-1)

    def reshape(self, x: str, *shape: int) -> str:
        return self.add("Reshape", x, self.constant(np.array(shape)))

    def feed_forward(self, x: str, width: int) -> str:
        return self.dense(self.add("Relu", self.dense(x, width, 2 * width)), 2 * width, width)

    def slice(self, x: str, start: int, end: int, axis: int, step: int = 1) -> str:
        bounds = (self.constant(np.array([value])) for value in (start, end, axis, step))
        return self.add("Slice", x, *bounds)

    def classifier(self, x: str, width: int, outputs: int) -> str:
        weights, bias = self.weights(width, outputs), self.weights(outputs)
        return self.add("Gemm", x, weights, bias)


def convnext(rng: np.random.Generator) -> onnx.ModelProto:
    """(1, 3, 12, 12) -> (1, 5): a stem, and two blocks with layer scale."""
    model = Vision(rng, opset=20)

    def channel_norm(x: str, width: int) -> str:
        turned = model.add("Transpose", x, perm=[0, 2, 3, 1])
        return model.add("Transpose", model.norm(turned, width), perm=[0, 3, 1, 2])

    def block(x: str, width: int) -> str:
        weights, bias = model.weights(width, 1, 3, 3), model.weights(width)
        y = model.add("Conv", x, weights, bias, group=width, pads=[1, 1, 1, 1])
        y = model.norm(model.add("Transpose", y, perm=[0, 2, 3, 1]), width)
        scale = model.constant(rng.uniform(0.2, 0.8, width).astype(np.float32))
        y = model.add("Mul", scale, model.feed_forward(y, width))
        return model.add("Add", x, model.add("Transpose", y, perm=[0, 3, 1, 2]))

    x = model.add("Conv", model.input(1, 3, 12, 12), model.weights(8, 3, 2, 2), strides=[2, 2])
    x = channel_norm(block(channel_norm(x, 8), 8), 8)
    x = block(model.add("Conv", x, model.weights(12, 8, 2, 2), strides=[2, 2]), 12)
    y = model.norm(model.add("Flatten", model.add("GlobalAveragePool", x)), 12)
    return model.proto(model.classifier(y, 12, 5))


def swin(
    rng: np.random.Generator,
    *,
    side: int = 6,
    window: int = 3,
    width: int = 8,
    turned_first: bool = False,
) -> onnx.ModelProto:
    """(1, 3, 2 side, 2 side) -> (1, 5): blocks without and with shifted windows, merged patches.

    Queries, keys and values are taken apart before or behind a permutation of five axes.
    """
    model = Vision(rng, opset=20)
    count, tokens, heads = side // window, window * window, 2
    windows = count * count

    def roll(x: str, shift: int) -> str:
        for axis in (1, 2):
            parts = model.slice(x, shift, END, axis), model.slice(x, 0, shift, axis)
            x = model.add("Concat", *parts, axis=axis)
        return x

    def turned(x: str, *shape: int) -> str:
        return model.add("Transpose", model.reshape(x, *shape), perm=[0, 1, 3, 2, 4, 5])

    def mask(shift: int) -> np.ndarray:
        line = np.repeat([0, 1, 2], [side - window, window - shift, shift])
        area = line[:, None] * 3 + line
        flat = area.reshape(count, window, count, window).swapaxes(1, 2).reshape(windows, tokens)
        apart = flat[:, None, :, None] != flat[:, None, None, :]
        return (apart * -100.0).astype(np.float32)

    def attention(x: str, shift: int) -> str:
        cut = model.reshape(model.dense(x, width, 3 * width), windows, tokens, 3, heads, -1)
        if turned_first:
            cut = model.add("Transpose", cut, perm=[2, 0, 3, 1, 4])
            parts = [model.slice(cut, i, i + 1, 0) for i in range(3)]
            query, key, value = (model.add("Squeeze", part, np.array([0])) for part in parts)
            key = model.add("Transpose", key, perm=[0, 1, 3, 2])
        else:
            places = [model.constant(np.array(i)) for i in range(3)]
            parts = [model.add("Gather", cut, place, axis=2) for place in places]
            query, value = (model.add("Transpose", parts[i], perm=[0, 2, 1, 3]) for i in (0, 2))
            key = model.add("Transpose", parts[1], perm=[0, 2, 3, 1])
        scores = model.add("MatMul", query, key)
        scores = model.add("Mul", scores, model.constant(np.float32(0.5)))
        bias = rng.normal(0, 0.3, (heads, tokens, tokens)).astype(np.float32)
        scores = model.add("Add", scores, model.constant(bias))
        if shift:
            scores = model.reshape(scores, 1, windows, heads, tokens, tokens)
            scores = model.add("Add", scores, model.constant(mask(shift)[None]))
            scores = model.reshape(scores, windows, heads, tokens, tokens)
        y = model.add("MatMul", model.add("Softmax", scores, axis=-1), value)
        y = model.reshape(model.add("Transpose", y, perm=[0, 2, 1, 3]), windows, tokens, width)
        return model.dense(y, width, width)

    def block(x: str, shift: int) -> str:
        y = model.norm(x, width)
        y = roll(y, shift) if shift else y
        y = turned(y, 1, count, window, count, window, width)
        y = attention(model.reshape(y, windows, tokens, width), shift)
        y = turned(y, 1, count, count, window, window, width)
        y = model.reshape(y, 1, side, side, width)
        y = model.add("Add", x, roll(y, side - shift) if shift else y)
        return model.add("Add", y, model.feed_forward(model.norm(y, width), width))

    data = model.input(1, 3, 2 * side, 2 * side)
    x = model.add("Conv", data, model.weights(width, 3, 2, 2), strides=[2, 2])
    x = model.norm(model.add("Transpose", x, perm=[0, 2, 3, 1]), width)
    x = block(block(x, 0), 1)
    corners = [
        model.slice(model.slice(x, row, END, 1, 2), column, END, 2, 2)
        for column in (0, 1)
        for row in (0, 1)
    ]
    x = model.norm(model.add("Concat", *corners, axis=3), 4 * width)
    x = model.norm(model.add("MatMul", x, model.weights(4 * width, 12)), 12)
    y = model.add("ReduceMean", x, model.constant(np.array([1, 2])), keepdims=0)
    return model.proto(model.classifier(y, 12, 5))
