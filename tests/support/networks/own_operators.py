# SPDX-License-Identifier: Apache-2.0
"""Operators that a user might write: one of each form."""

import numpy as np

import tilewright as tw


class Squareplus(tw.Operator):
    """(x + sqrt(x*x + b)) / 2: a table."""

    domain = "com.example"
    meaning = """Squareplus <b: float = 4.0> (x) => (y) {
        square = Mul (x, x)
        offset = Constant <value_float: float = @b> ()
        sum = Add (square, offset)
        root = Sqrt (sum)
        twice = Add (x, root)
        two = Constant <value = float {2.0}> ()
        y = Div (twice, two)
    }"""

    def value(self, x, b):
        return (x + np.sqrt(x * x + b)) / 2


class Blur(tw.Operator):
    """A 3x3 binomial filter, each channel for itself: a layer with exact weights."""

    domain = "com.example"
    meaning = """Blur (x, w) => (y) {
        y = Conv <pads = [1, 1, 1, 1], group = 8> (x, w)
    }"""

    def lower(self, call):
        channels = call.output.shape[1]
        return call.convolution(BINOMIAL, 1 / 16, pads=(1, 1, 1, 1), groups=channels)


BINOMIAL = np.broadcast_to(np.outer([1, 2, 1], [1, 2, 1]), (8, 1, 3, 3))


class Middle(tw.Operator):
    """(a + b) / 2, bounded below: a sum at another scale."""

    domain = "com.example"
    meaning = """Middle (a, b) => (y) {
        sum = Add (a, b)
        y = Relu (sum)
    }"""

    def lower(self, call):
        return call.add(bounds=(0.0, None))


class Steps(tw.Operator):
    """Rounded to whole numbers: a table with integers of its own."""

    domain = "com.example"
    meaning = """Steps (x) => (y) {
        y = Round (x)
    }"""

    def lower(self, call):
        (data,), output = call.tensors, call.output
        real = (np.arange(-128, 128) - data.zero_point) * data.scale
        steps = np.rint(np.rint(real) / output.scale) + output.zero_point
        return call.table(np.clip(steps, -128, 127).astype(int))


class Tripled(tw.Operator):
    """Nothing but its meaning."""

    domain = "com.example"
    meaning = """Tripled (x) => (y) {
        double = Add (x, x)
        y = Add (double, x)
    }"""
