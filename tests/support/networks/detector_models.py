# SPDX-License-Identifier: Apache-2.0
"""A small detector of the form of YOLOv8 with its boxes decoded, with random weights."""

from collections.abc import Sequence

import numpy as np
import onnx
from support.networks.small_models import Model

SIDES = (4, 2, 1)
"""Of the images of the three levels."""


class Detector(Model):
    """A model with the parts of one."""

    def convolution(self, x: str, channels: int, outputs: int, **attributes: Sequence[int]) -> str:
        kernel = attributes.get("strides", [1])[0]
        weights = self.weights(outputs, channels, kernel, kernel)
        return self.add("Conv", x, weights, self.weights(outputs), **attributes)

    def reshape(self, x: str, *shape: int) -> str:
        return self.add("Reshape", x, self.constant(np.array(shape)))

    def split(self, x: str, *sizes: int, axis: int) -> list[str]:
        """Parts of some sizes along an axis."""
        parts = [f"part{len(self.nodes)}_{number}" for number in range(len(sizes))]
        inputs = [x, self.constant(np.array(sizes))]
        name = f"split{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node("Split", inputs, parts, name, axis=axis))
        return parts

    def levels(self, bins: int, classes: int) -> str:
        """(1, 3, 8, 8) -> (1, 4 * bins + classes, anchors): boxes and scores of three levels."""
        x = self.input(1, 3, 2 * SIDES[0], 2 * SIDES[0])
        channels, found = 3, []
        for side in SIDES:
            x = self.add("Relu", self.convolution(x, channels, 8, strides=[2, 2]))
            channels = 8
            parts = [self.convolution(x, 8, outputs) for outputs in (4 * bins, classes)]
            joined = self.add("Concat", *parts, axis=1)
            found.append(self.reshape(joined, 1, 4 * bins + classes, side * side))
        return self.add("Concat", *found, axis=2)

    def expectation(self, boxes: str, bins: int) -> str:
        """(1, 4 * bins, anchors) -> (1, 4, anchors): the mean of each distribution."""
        anchors = sum(side * side for side in SIDES)
        apart = self.reshape(boxes, 1, 4, bins, anchors)
        turned = self.add("Transpose", apart, perm=[0, 2, 1, 3])
        weights = np.arange(bins, dtype=np.float32).reshape(1, bins, 1, 1)
        mean = self.add("Conv", self.add("Softmax", turned, axis=1), self.constant(weights))
        return self.reshape(mean, 1, 4, anchors)

    def corners(self, distances: str) -> str:
        """Centre and size of each box, in pixels."""
        grids = [np.mgrid[:side, :side][::-1].reshape(2, -1) + 0.5 for side in SIDES]
        anchors = np.concatenate(grids, 1)[None].astype(np.float32)
        strides = np.repeat([2, 4, 8], [side * side for side in SIDES])[None].astype(np.float32)
        cuts = [self.constant(np.array([place])) for place in (0, 2, 4, 1)]
        near = self.add("Slice", distances, cuts[0], cuts[1], cuts[3])
        far = self.add("Slice", distances, cuts[1], cuts[2], cuts[3])
        first = self.add("Sub", self.constant(anchors), near)
        last = self.add("Add", self.constant(anchors), far)
        centre = self.add("Div", self.add("Add", first, last), self.constant(np.float32(2)))
        boxes = self.add("Concat", centre, self.add("Sub", last, first), axis=1)
        return self.add("Mul", boxes, self.constant(strides))


def heads(rng: np.random.Generator, *, channels: int, joined: bool) -> onnx.ModelProto:
    """(1, 3, 8, 8) -> heads of three levels as YOLOv5 has them, not decoded.

    Joined they are (1, channels, 21), otherwise three images.
    """
    model = Detector(rng)
    x, found, before = model.input(1, 3, 2 * SIDES[0], 2 * SIDES[0]), [], 3
    for side in SIDES:
        x = model.add("Relu", model.convolution(x, before, 8, strides=[2, 2]))
        before = 8
        head = model.convolution(x, 8, channels)
        found.append(model.reshape(head, 1, channels, side * side) if joined else head)
    return model.proto(*([model.add("Concat", *found, axis=2)] if joined else found))


def detector(rng: np.random.Generator, *, bins: int = 8, classes: int = 3) -> onnx.ModelProto:
    """(1, 3, 8, 8) -> (1, 4 + classes, 21): boxes in pixels and scores of all anchors."""
    model = Detector(rng)
    boxes, scores = model.split(model.levels(bins, classes), 4 * bins, classes, axis=1)
    decoded = model.corners(model.expectation(boxes, bins))
    return model.proto(model.add("Concat", decoded, model.add("Sigmoid", scores), axis=1))
