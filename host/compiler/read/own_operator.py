# SPDX-License-Identifier: Apache-2.0
"""`Operator`: an operator that ONNX does not have, written by a user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from tilewright.host.compiler.lower.own_call import OperatorCall
    from tilewright.host.compiler.lower.qgraph import QOperator

Float64 = npt.NDArray[np.float64]


class Operator:
    """An operator of your own in ONNX files, which `compile` then takes.

    State `domain` and `meaning`. Define `value` or `lower` if the accelerator shall compute it in
    one layer. Without them the operator is replaced by its meaning, and each operator of that goes
    where it would go anyway.

    Attributes:
        domain: of the nodes in the file.
        meaning: what it computes of floats: a function of standard operators in ONNX's text form,
            whose name is the nodes' ``op_type``. ONNX Runtime calibrates with it, and the CPU
            computes it where the accelerator does not.

    Example:
        >>> import numpy as np
        >>> import tilewright as tw
        >>> class Cube(tw.Operator):
        ...     domain = "com.example"
        ...     meaning = '''Cube <gain: float = 1.0> (x) => (y) {
        ...         g = Constant <value_float: float = @gain> ()
        ...         square = Mul (x, x)
        ...         cube = Mul (square, x)
        ...         y = Mul (g, cube)
        ...     }'''
        ...     def value(self, x, gain):
        ...         return gain * x**3
    """

    domain: ClassVar[str] = ""
    meaning: ClassVar[str] = ""

    def value(self, x: Float64, **attributes: Any) -> Float64:
        """What it is of real numbers, element by element, for operators of one tensor.

        With an activation table (``activation_table: 1``) it is one look-up: an entry is this
        value for the real value of an int8 step, divided by the output's scale, rounded once, half
        to even, plus the zero point, saturated to int8.

        Args:
            x: float64, shape (256,).
            attributes: of the node, with the defaults of `meaning`.
        """
        raise NotImplementedError

    def lower(self, call: OperatorCall) -> QOperator | None:
        """The layer that computes it between int8 tensors; None: the CPU shall compute it.

        Its integers are those of the layer (``docs/explanation/networks.md``).

        Args:
            call: the node with the scales of its tensors; its methods make layers.
        """
        raise NotImplementedError
