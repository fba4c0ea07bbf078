# SPDX-License-Identifier: Apache-2.0
"""`OperatorCall`: a user's operator between int8 tensors, and the layers that may compute it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.lower.qgraph import (
    UNBOUNDED,
    Bounds,
    Lookup,
    Pair,
    QAdd,
    QConv,
    QMultiply,
    QPool,
    QRescale,
)

Array = npt.NDArray[Any]

_STEPS: Final = 256


@dataclass(frozen=True, kw_only=True)
class QuantisedTensor:
    """An int8 tensor of the model: real value = scale * (element - zero_point)."""

    shape: tuple[int, ...]
    scale: float
    zero_point: int


@dataclass(frozen=True, kw_only=True, eq=False)
class OperatorCall:
    """A node of an operator of yours, whose `Operator.lower` says what computes it.

    Each method makes one layer. Its result is rounded once to the output's scale, half to even.

    Attributes:
        attributes: of the node, with the defaults of the operator's meaning.
        inputs: in the order of the node: of an int8 tensor its ``shape``, ``scale`` and
            ``zero_point`` (real value = scale * (element - zero_point)), of a constant its
            elements, None for what the node leaves out.
        output: as the inputs.

    Example:
        >>> import numpy as np
        >>> import tilewright as tw
        >>> class Blur(tw.Operator):
        ...     domain = "com.example"
        ...     meaning = '''Blur (x, w) => (y) {
        ...         y = Conv <pads = [1, 1, 1, 1], group = 8> (x, w)
        ...     }'''
        ...     def lower(self, call: tw.OperatorCall):
        ...         row, channels = np.array([1, 2, 1]), call.output.shape[1]
        ...         weights = np.broadcast_to(np.outer(row, row), (channels, 1, 3, 3))
        ...         return call.convolution(weights, 1 / 16, pads=(1, 1, 1, 1), groups=channels)
    """

    attributes: Mapping[str, Any]
    inputs: tuple[QuantisedTensor | Array | None, ...]
    output: QuantisedTensor

    @property
    def tensors(self) -> tuple[QuantisedTensor, ...]:
        """The inputs that are no constants."""
        return tuple(each for each in self.inputs if isinstance(each, QuantisedTensor))

    def convolution(
        self,
        weights: npt.ArrayLike,
        weight_scales: float | Sequence[float],
        bias: npt.ArrayLike = 0.0,
        *,
        stride: Pair = (1, 1),
        pads: tuple[int, int, int, int] = (0, 0, 0, 0),
        dilation: Pair = (1, 1),
        groups: int = 1,
        bounds: Bounds = UNBOUNDED,
    ) -> QConv:
        """A convolution of the one tensor (N, C, H, W).

        Args:
            weights: int8, (O, C/groups, KH, KW).
            weight_scales: real value of a step of the weights, one for all or one per output.
            bias: real values, one for all or one per output.
            stride: rows, columns.
            pads: top, left, bottom, right.
            dilation: rows, columns.
            groups: C for a depthwise convolution.
            bounds: lowest and highest real result; None: none.

        Raises:
            WorkloadError: the weights are not of this form.
        """
        array = np.asarray(weights)
        if array.ndim != 4 or not _is_int8(array):
            raise WorkloadError(
                "must be int8 of four axes",
                field="weights",
                value=f"{array.dtype} of shape {array.shape}",
                remedy="give whole numbers from -128 to 127, (O, C/groups, KH, KW)",
            )
        outputs = len(array)
        return QConv(
            **self._names(1),
            bounds=bounds,
            weights=np.ascontiguousarray(array, dtype=np.int8),
            weight_scales=np.array(np.broadcast_to(weight_scales, outputs), dtype=np.float64),
            bias=np.array(np.broadcast_to(bias, outputs), dtype=np.float64),
            stride=stride,
            pads=pads,
            dilation=dilation,
            groups=groups,
        )

    def pool(
        self,
        kernel: Pair,
        stride: Pair,
        *,
        maximum: bool,
        pads: tuple[int, int, int, int] = (0, 0, 0, 0),
        bounds: Bounds = UNBOUNDED,
    ) -> QPool:
        """Maxima or averages of windows of the one tensor; padding counts as elements of 0."""
        return QPool(
            **self._names(1),
            bounds=bounds,
            maximum=maximum,
            kernel=kernel,
            stride=stride,
            pads=pads,
        )

    def add(self, *, bounds: Bounds = UNBOUNDED) -> QAdd:
        """The sum of two tensors of one shape."""
        return QAdd(**self._names(2), bounds=bounds)

    def multiply(self, *, bounds: Bounds = UNBOUNDED) -> QMultiply:
        """The product of two tensors, of which one may be (N, C, 1, 1)."""
        return QMultiply(**self._names(2), bounds=bounds)

    def table(self, entries: npt.ArrayLike) -> QRescale:
        """A look-up of each element of the one tensor, with integers of your own.

        Args:
            entries: int8, (256,): results for the elements -128 to 127.

        Raises:
            WorkloadError: the entries are not of this form.
        """
        array, names = np.asarray(entries), self._names(1)
        if array.shape != (_STEPS,) or not _is_int8(array):
            raise WorkloadError(
                "must be 256 int8 numbers",
                field="entries",
                value=f"{array.dtype} of shape {array.shape}",
                remedy="give whole numbers from -128 to 127, one per element of int8",
            )
        data = self.tensors[0]
        found = Lookup(scale=data.scale, zero_point=data.zero_point, entries=array.astype(np.int8))
        return QRescale(**names, lookup=found)

    def _names(self, count: int) -> dict[str, Any]:
        """The placeholders of a unit's operator (`divide.relax_units.OffloadUnit`)."""
        if len(self.tensors) != count:
            raise WorkloadError(
                f"must have {count} inputs that are no constants, for such a layer",
                field="inputs",
                value=len(self.tensors),
                remedy="make another layer, or return None",
            )
        return placeholders(count)


def placeholders(count: int) -> dict[str, Any]:
    """Name, inputs and output of an operator whose tensors are not known by name yet."""
    return {
        "name": "unit",
        "inputs": tuple(f"in{index}" for index in range(count)),
        "output": "out",
    }


def _is_int8(array: Array) -> bool:
    if array.dtype.kind not in "iu" or not array.size:
        return False
    return bool(array.min() >= -128 and array.max() <= 127)
