# SPDX-License-Identifier: Apache-2.0
"""`LoopNest`: the loops of one layer, K C Y X R S, and which tensor each loop indexes.

``Y`` and ``X`` count *output* rows and columns. MAESTRO's files count input rows there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Final

from tilewright.host.common.errors import WorkloadError
from tilewright.host.common.str_enum import StrEnum
from tilewright.host.network.workload import Kind, Workload

DIMENSIONS: Final = ("K", "C", "Y", "X", "R", "S")
"""Loops of a nest, in the order of every array here: output channel, input channel, output row,
output column, kernel row, kernel column."""

MAX_SIZE: Final = 1 << 20
"""Longest loop; products of two of them stay exact in the cost model's 64-bit integers."""


class NestKind(StrEnum):
    """Which loops index which tensor."""

    CONV = "conv"
    """Weights K C R S, inputs C Y X R S, outputs K Y X. A dense layer is one with R = S = 1."""
    DEPTHWISE = "depthwise"
    """As `CONV`, but ``C`` counts groups and indexes the outputs, too; ``K`` is the channel
    multiplier."""


class Tensor(StrEnum):
    """Tensors of a nest, in the order of every array here."""

    WEIGHTS = "weights"
    INPUTS = "inputs"
    OUTPUTS = "outputs"


RELEVANT: Final = {
    NestKind.CONV: {Tensor.WEIGHTS: "KCRS", Tensor.INPUTS: "CYXRS", Tensor.OUTPUTS: "KYX"},
    NestKind.DEPTHWISE: {Tensor.WEIGHTS: "KCRS", Tensor.INPUTS: "CYXRS", Tensor.OUTPUTS: "KCYX"},
}
"""Loops that index a tensor. The others reuse it (weights, inputs) or add to it (outputs)."""


@dataclass(frozen=True, kw_only=True)
class LoopNest:
    """The multiply-accumulate loops of one layer.

    Padding counts as input: a 3x3 layer of 56 output rows reads 58 input rows.

    Attributes:
        stride_y, stride_x: input rows and columns between outputs.

    Example:
        >>> nest = LoopNest(name="stem", sizes=(64, 3, 112, 112, 7, 7), stride_y=2, stride_x=2)
        >>> nest.macs, nest.elements(Tensor.INPUTS)
        (118013952, 157323)
    """

    name: str  # label
    kind: NestKind = NestKind.CONV  # which loops index which tensor
    sizes: tuple[int, int, int, int, int, int]  # iterations per loop, in the order of `DIMENSIONS`
    stride_y: int = 1
    stride_x: int = 1
    count: int = field(default=1, compare=False)  # occurrences in the network

    def __post_init__(self) -> None:
        """Validate."""
        if len(self.sizes) != len(DIMENSIONS):
            raise WorkloadError(
                f"must have {len(DIMENSIONS)} sizes, {' '.join(DIMENSIONS)}",
                field=f"{self.name}.sizes",
                value=self.sizes,
            )
        named = zip(DIMENSIONS, self.sizes, strict=True)
        for name, value in (
            *named,
            ("stride_y", self.stride_y),
            ("stride_x", self.stride_x),
            ("count", self.count),
        ):
            if type(value) is not int or not 1 <= value <= MAX_SIZE:
                raise WorkloadError(
                    f"must be an integer from 1 to {MAX_SIZE}",
                    field=f"{self.name}.{name}",
                    value=value,
                    remedy="give the layer's own sizes; batches and groups go into its count",
                )
        if not isinstance(self.kind, NestKind):
            raise WorkloadError(
                f"must be one of {', '.join(NestKind)}", field=f"{self.name}.kind", value=self.kind
            )

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one occurrence."""
        return prod(self.sizes)

    def to_row(self) -> dict[str, Any]:
        """Plain values that describe the layer in a JSON document."""
        return {
            "layer": self.name,
            "count": self.count,
            "kind": self.kind.value,
            "sizes": list(self.sizes),
            "strides": [self.stride_y, self.stride_x],
        }

    def elements(self, tensor: Tensor) -> int:
        """Distinct elements of a tensor that the nest touches: the least possible traffic."""
        k, c, y, x, r, s = self.sizes
        if tensor is Tensor.WEIGHTS:
            return k * c * r * s
        if tensor is Tensor.OUTPUTS:
            return k * y * x * (c if self.kind is NestKind.DEPTHWISE else 1)
        return c * window(y, r, self.stride_y) * window(x, s, self.stride_x)


def window(outputs: int, kernel: int, stride: int) -> int:
    """Distinct input rows that ``outputs`` neighbouring rows need from ``kernel`` taps."""
    return (outputs - 1) * min(stride, kernel) + kernel


def nest_of(workload: Workload) -> LoopNest:
    """The loop nest of a convolution, depthwise or dense workload."""
    if not workload.kind.weighs:
        raise WorkloadError(
            f"a {workload.kind} workload has no multiply-accumulate loops",
            field=f"{workload.name}.kind",
        )
    if (workload.dilation_h, workload.dilation_w) != (1, 1):
        raise WorkloadError(
            "a mapping describes kernels without dilation",
            field=f"{workload.name}.dilation",
            value=(workload.dilation_h, workload.dilation_w),
            remedy="leave the layer out (--layers)",
        )
    depthwise = workload.kind is Kind.DEPTHWISE
    return LoopNest(
        name=workload.name,
        kind=NestKind.DEPTHWISE if depthwise else NestKind.CONV,
        sizes=(
            1 if depthwise else workload.channels_out,
            workload.channels_in,
            workload.out_height,
            workload.out_width,
            workload.kernel_h,
            workload.kernel_w,
        ),
        stride_y=workload.stride_h,
        stride_x=workload.stride_w,
        count=workload.count * workload.n,
    )


def nests_of(workloads: Iterable[Workload]) -> list[LoopNest]:
    """Nests of convolutions and dense layers, equal ones once with their counts added."""
    found: dict[LoopNest, LoopNest] = {}
    for workload in workloads:
        if workload.kind.weighs:
            nest = nest_of(workload)
            key = replace(nest, name="")
            first = found.get(key)
            found[key] = nest if first is None else replace(first, count=first.count + nest.count)
    return list(found.values())
