# SPDX-License-Identifier: Apache-2.0
"""Squareplus, a smooth ReLU: (x + sqrt(x*x + b)) / 2."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import tilewright as tw

Float64 = npt.NDArray[np.float64]


class Squareplus(tw.Operator):
    """A table: `value` fills the accelerator's activation table, `meaning` serves the CPU."""

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

    def value(self, x: Float64, b: float) -> Float64:
        """Of real numbers, element by element."""
        return (x + np.sqrt(x * x + b)) / 2
