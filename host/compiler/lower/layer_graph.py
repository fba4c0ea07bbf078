# SPDX-License-Identifier: Apache-2.0
"""`LayerGraph`: a region as layers in execution order, each one workload on parts of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tilewright.host.compiler.lower.channels import Lying
from tilewright.host.compiler.lower.qgraph import QTensor
from tilewright.host.lowering.gathers import Pixels
from tilewright.host.network.layout import Spread, TokenPacking
from tilewright.host.network.requant import RequantParams
from tilewright.host.network.row_functions import RowFunction
from tilewright.host.network.workload import Workload

Int8Array = npt.NDArray[np.int8]


@dataclass(frozen=True, kw_only=True)
class ChannelSlice:
    """Channels and pixels of a tensor, from some on; how many follows from the layer's workload."""

    tensor: str
    channel: int = 0
    pixel: int = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Layer:
    """One program's worth of work: a workload on parts of tensors.

    Attributes:
        weights: constant, of the workload's weight shape; a part of a tensor whose first pixels are
            the output channels (`QMatmul`); None for kinds without weights.
        weight_packing: how tokens lie in such a part, if a pixel is not one of them.
        factor: the tensor that a pair (`Kind.pairs`) computes of with `data`.
        mask: of rows, the tensor of one pixel that is added to all of them.
        spread: the pixels of `output` that it writes, if not all (transposed convolution).
        rows: what it computes of the channels of each pixel, if the workload is of rows.
        pixels: of `data`, for each pixel of `output`, if the workload moves pixels.
    """

    name: str  # label
    workload: Workload  # what is computed
    data: ChannelSlice | Int8Array  # the input, or constant data of the workload's input shape
    weights: ChannelSlice | Int8Array | None
    weight_packing: TokenPacking | None = None
    output: ChannelSlice  # where the result goes
    residual: ChannelSlice | None = None  # what is added to it
    factor: ChannelSlice | None = None
    mask: ChannelSlice | None = None
    requant: RequantParams  # parameters of the epilogue
    pad_value: int = 0  # int8 that stands for 0 in `data`
    factor_zero: int = 0  # int8 that stands for 0 in it
    spread: Spread | None = None
    operators: tuple[str, ...] = ()  # names of the operators of the model that it computes
    rows: RowFunction | None = None
    pixels: Pixels | None = None

    def reads(self) -> tuple[str, ...]:
        """Tensors that it reads."""
        data = (self.data.tensor,) if isinstance(self.data, ChannelSlice) else ()
        return tuple(dict.fromkeys((*data, *self.reads_beside_data())))

    def reads_beside_data(self) -> tuple[str, ...]:
        """Tensors that it reads as another operand than its data, which may be the same."""
        parts = (self.weights, self.residual, self.factor, self.mask)
        return tuple(dict.fromkeys(p.tensor for p in parts if isinstance(p, ChannelSlice)))


@dataclass(frozen=True, kw_only=True, eq=False)
class LayerGraph:
    """A region as layers in execution order.

    Attributes:
        inputs, outputs: tensor names.
        constants: the elements of tensors that the region holds itself, int8 NCHW.
        aliases: a tensor that is another tensor with an equal memory layout.
        lies: tensors of the model that are channels of another one.
        rows: of tensors that have more, how many are the model's.
    """

    name: str  # label
    tensors: Mapping[str, QTensor]  # by name. Tensors of `aliases` have the bytes of another one
    layers: tuple[Layer, ...]  # in an order in which every input is complete
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, Int8Array] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    lies: Mapping[str, Lying] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)

    def storage(self, tensor: str) -> str:
        """The tensor whose bytes a tensor has."""
        while tensor in self.aliases:
            tensor = self.aliases[tensor]
        return tensor
