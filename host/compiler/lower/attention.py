# SPDX-License-Identifier: Apache-2.0
"""The layers of a product of two activations that sums over channels: attention.

One factor is GEMM's input. The other one is loaded as weights: its tokens are output channels. So
it must lie as weights do: tiles of ``block_out`` tokens by ``block_in`` channels. An activation
does if its tokens are a multiple of block_out, its channels one of the stored block, and if
block_in is not the smaller one. Any other is copied first, once:

- tokens that are missing in the last block are never written. They are output channels without
  multipliers, which are 0 whatever their products are. `room` spares such a copy where it can;
- channels that are missing in the last block are 0, so that they add nothing;
- where block_out is R times block_in, R tokens become a pixel (`TokenPacking`).

Scores times values sum over tokens. So values are turned first: identity times values as weights.

Attention head by head: products and softmax of several heads as one operator for each head.

The channels of a head are selected, and the results joined. So heads begin at blocks of channels in
memory, wherever they do in the model, and nothing is copied where both agree (`channels`). A mask
serves all heads.

The layers of a product inside windows: attention that sees the tokens of its window alone.

Tokens of windows follow each other as the pixels of one tensor. Each window is a product of its
own, on its pixels. As in `attention`, one factor is loaded as weights, whose tokens are output
channels, in whole tiles. Where windows have another number of tokens, the last tile has tokens of
the next window, which are output channels without multipliers. So the tensor has room for a whole
tile behind its last window; that is a copy, which `room` spares where it can. Where a window does
not begin at a beat of the bus, all windows are moved apart instead, to where tiles begin.

Values are turned window by window: identity times a window's values as weights. The tokens of a
window are then channels that begin at a block.

Factors with zero points are multiplied as codes: ``(a - p)(b - q)`` is ``ab - qa - pb + pq``. So
the depth is that of ``a`` by ``b``, of ``a`` by the constant -q, and of the constant -p by ``b``,
one after another: exact, at two or three times the products.

The layers that exchange channels and pixels: identity times the tensor as weights.

GEMM sums over the channels of its weights, and the pixels of a tensor that is loaded as weights are
output channels. An identity of all channels would be zeros mostly. So some blocks of channels at a
time are multiplied by an identity of their own, and fill the pixels of the result that they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.host.compiler.lower.epilogue import COPY_WEIGHT, epilogue, operator_epilogue
from tilewright.host.compiler.lower.gathers import gather_layer
from tilewright.host.compiler.lower.layer_graph import ChannelSlice, Layer
from tilewright.host.compiler.lower.qgraph import (
    UNBOUNDED,
    QConcat,
    QGather,
    QGraph,
    QMatmul,
    QOperator,
    QSelect,
    QSoftmax,
    QTensor,
    QTurn,
    Shape,
)
from tilewright.host.compiler.lower.workloads import label_of, refused, workload_on
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.layout import Spread, TokenPacking, blocks_of, output_block
from tilewright.host.network.requant import RequantParams
from tilewright.host.network.workload import Kind, dense


def split_heads(graph: QGraph) -> tuple[QGraph, Mapping[str, str]]:
    """One operator for each head."""
    tensors = dict(graph.tensors)
    operators: list[QOperator] = []
    origins: dict[str, str] = {}
    chosen: dict[tuple[str, int], list[str]] = {}
    for operator in graph.operators:
        if not isinstance(operator, QMatmul | QSoftmax) or operator.heads == 1:
            operators.append(operator)
            continue
        heads = operator.heads
        shared = operator.inputs[1:] if isinstance(operator, QSoftmax) else ()
        divided = operator.inputs[: len(operator.inputs) - len(shared)]
        added: list[QOperator] = []
        for source in dict.fromkeys(divided):
            if (source, heads) not in chosen:
                parts = _selections(tensors, source, heads)
                added += parts
                chosen[source, heads] = [part.output for part in parts]
        results = _cut(tensors, operator.output, heads, "head")
        for head, result in enumerate(results):
            inputs = (*(chosen[source, heads][head] for source in divided), *shared)
            name = f"{operator.name}/{head}"
            alone = replace(operator, name=name, inputs=inputs, output=result, heads=1)
            if isinstance(alone, QSoftmax) and alone.addend is not None:
                share = alone.addend.shape[1] // heads
                rows = alone.addend[:, head * share : (head + 1) * share]
                alone = replace(alone, addend=rows)
            added.append(alone)
        name = f"{operator.name}/joined"
        added.append(QConcat(name=name, inputs=tuple(results), output=operator.output))
        origins |= {new.name: operator.name for new in added}
        operators += added
    return replace(graph, tensors=tensors, operators=tuple(operators)), origins


def _selections(tensors: dict[str, QTensor], source: str, heads: int) -> list[QSelect]:
    """The channels of each head of a tensor."""
    share = tensors[source].shape[1] // heads
    return [
        QSelect(
            name=part,
            inputs=(source,),
            output=part,
            channels=tuple(range(head * share, (head + 1) * share)),
        )
        for head, part in enumerate(_cut(tensors, source, heads, f"of {heads}"))
    ]


def _cut(tensors: dict[str, QTensor], name: str, heads: int, label: str) -> list[str]:
    """New tensors for the heads of one."""
    whole = tensors[name]
    n, channels, rows, columns = whole.shape
    names = [f"{name}/{label}/{head}" for head in range(heads)]
    for part in names:
        tensors[part] = replace(whole, name=part, shape=(n, channels // heads, rows, columns))
    return names


Weights = tuple[ChannelSlice, TokenPacking | None]
"""Where weights lie, and how their tokens are packed."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ProductLayers:
    """The layers of a product.

    Attributes:
        rooms: those that are copies with more rows, and no other difference.
    """

    layers: list[Layer] = field(default_factory=list)  # in order
    tensors: dict[str, QTensor] = field(default_factory=dict)  # between them, by name
    rooms: set[str] = field(default_factory=set)


def product_layers(
    hw: HwConfig,
    operator: QMatmul,
    factors: tuple[QTensor, QTensor],
    result: QTensor,
    part_of: Callable[[str], ChannelSlice],
) -> ProductLayers:
    """The layers of a product of one head."""
    terms, (a, b) = Terms.of(factors), (replace(factor, zero_point=0) for factor in factors)
    if hw.batch != 1:
        raise refused(operator, "a tensor is a weight operand only where the array's batch is 1")
    if a.shape[0] != 1:
        raise refused(operator, "products of activations need a batch of 1")
    depth, tokens = a.shape[1:3]
    count, b_depth = (b.shape[2], b.shape[1])[:: 1 if operator.b_rows_are_outputs else -1]
    if b_depth != depth or result.shape != (1, count, tokens, 1):
        raise refused(operator, "the shapes of the factors do not match")
    made = WeightFactor(hw, operator)
    if operator.b_rows_are_outputs:
        weights, packing = made.as_weights(*made.rows(part_of(b.name), b, terms.b), count)
    else:
        weights, packing = made.turned(part_of(b.name), b, terms.b)
    data, summed = made.data(part_of(a.name), a, terms.a)
    made.append(
        name=operator.name,
        workload=dense(label_of(operator.name), tokens, summed.shape[1], count),
        requant=terms.requant(operator, a.scale * b.scale, depth, result),
        data=data,
        weights=weights,
        weight_packing=packing,
        output=part_of(result.name),
    )
    return made.found


@dataclass(frozen=True, kw_only=True)
class Codes:
    """By term what a factor is: a number, or its own codes (None).

    Attributes:
        turned: its codes are ``-1 - code``, so that 1 is added to no zero point but -128.
    """

    terms: tuple[int | None, ...] = (None,)
    turned: bool = False

    @property
    def plain(self) -> bool:
        """Whether the factor is taken as it is."""
        return self.terms == (None,) and not self.turned


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The products of codes, or of codes and a number, whose sum is a product of two factors."""

    a: Codes
    b: Codes
    rest: int  # what each product of two elements has besides

    @classmethod
    def of(cls, factors: tuple[QTensor, QTensor]) -> Terms:
        """Those of two factors with zero points: with turned codes, if they are fewer."""
        zeros = [factor.zero_point for factor in factors]
        found = [cls._of(zeros, turned=turned) for turned in (False, True)]
        return min(found, key=lambda each: len(each.a.terms))

    @classmethod
    def _of(cls, zeros: Sequence[int], *, turned: bool) -> Terms:
        p, q = (_digits(1 + zero if turned else -zero) for zero in zeros)
        return cls(
            a=Codes(terms=(None, *(None for _ in q), *p), turned=turned),
            b=Codes(terms=(None, *q, *(None for _ in p)), turned=turned),
            rest=sum(p) * sum(q),
        )

    def requant(self, operator: QMatmul, unit: float, depth: int, result: QTensor) -> RequantParams:
        """The epilogue of sums over so many pairs of codes, whose product is so large."""
        count = result.shape[1]
        return operator_epilogue(
            operator,
            result,
            units=np.full(count, unit * operator.factor),
            bias=np.full(count, depth * self.rest, float),
        )


def _digits(number: int) -> tuple[int, ...]:
    """int8 numbers that add up to one from -127 to 128; none for 0."""
    return (64, 64) if number == _NO_CODE else (number,) * (number != 0)


_NO_CODE: Final = 128


class WeightFactor:
    """A tensor that is loaded as weights, and the layers that bring it there."""

    def __init__(self, hw: HwConfig, operator: QOperator) -> None:
        self.found = ProductLayers()
        self._hw = hw
        self._operator = operator
        self._block = output_block(hw)
        self._ratio = max(1, hw.block_out // hw.block_in)

    def append(self, **values: Any) -> None:
        """A layer."""
        self.found.layers.append(Layer(operators=(self._operator.name,), **values))

    def _tensor(self, label: str, shape: Shape, like: QTensor) -> QTensor:
        name = f"{self._operator.name}/{label}"
        if name in self.found.tensors:
            name = f"{name}.{len(self.found.tensors)}"
        made = replace(like, name=name, shape=shape)
        self.found.tensors[name] = made
        return made

    def data(
        self, part: ChannelSlice, tensor: QTensor, codes: Codes
    ) -> tuple[ChannelSlice, QTensor]:
        """The factor that is GEMM's input, with the channels of each term behind each other."""
        return self._of_terms("a", part, tensor, codes, tensor.shape[1])

    def rows(
        self, part: ChannelSlice, tensor: QTensor, codes: Codes
    ) -> tuple[ChannelSlice, QTensor]:
        """The same of the one that is loaded as weights, with zeros behind each term's channels."""
        channels = tensor.shape[1]
        if not codes.plain and channels % self._block:
            part, _ = self._selected(part, tensor, tensor.shape[2], ratio=1)
            tensor = self.found.tensors[part.tensor]
        return self._of_terms("b", part, tensor, codes, channels)

    def _of_terms(
        self, factor: str, part: ChannelSlice, tensor: QTensor, codes: Codes, used: int
    ) -> tuple[ChannelSlice, QTensor]:
        if codes.plain:
            return part, tensor
        step = _whole(tensor.shape[1], self._block)
        shape = (1, len(codes.terms) * step, *tensor.shape[2:])
        whole = self._tensor(f"terms of {factor}", shape, tensor)
        for number, code in enumerate(codes.terms):
            place = ChannelSlice(tensor=whole.name, channel=number * step)
            if code is None:
                self._copy_codes(part, tensor, place, used, turned=codes.turned)
            else:
                self._fill(tensor, place, code, used)
        return ChannelSlice(tensor=whole.name), whole

    def _copy_codes(
        self,
        data: ChannelSlice | npt.NDArray[np.int8],
        tensor: QTensor,
        place: ChannelSlice,
        used: int,
        *,
        turned: bool = False,
    ) -> None:
        """So many channels, and 0 in those behind."""
        workload = workload_on(self._operator, tensor, kind=Kind.DEPTHWISE)
        weight = -COPY_WEIGHT if turned else COPY_WEIGHT
        self.append(
            name=f"{place.tensor}/{place.channel}",
            workload=workload,
            requant=_without(_codes(tensor, tensor.shape[1], COPY_WEIGHT, turned=turned), used),
            data=data,
            weights=np.full(workload.weight_shape, weight, dtype=np.int8),
            output=place,
        )

    def _fill(self, tensor: QTensor, place: ChannelSlice, code: int, used: int) -> None:
        self._copy_codes(np.full(tensor.shape, code, np.int8), tensor, place, used)

    def as_weights(
        self, part: ChannelSlice, tensor: QTensor, outputs: int, *, zeros: bool = False
    ) -> Weights:
        """Where a tensor lies as weights, and how its tokens are packed; a copy if it does not."""
        _, channels, tokens, _ = tensor.shape
        rows = _whole(outputs, self._hw.block_out)
        filled = zeros or channels % self._block == 0
        if self._ratio == 1 and filled and rows == tokens:
            return part, None
        if self._ratio == 1 and filled:
            return self._copied(part, tensor, rows), None
        return self._selected(part, tensor, rows, self._ratio)

    def _copied(self, part: ChannelSlice, tensor: QTensor, rows: int) -> ChannelSlice:
        """The same with room for more tokens."""
        _, channels, tokens, _ = tensor.shape
        copy = self._tensor("room", (1, channels, rows, 1), tensor)
        self.found.rooms.add(copy.name)
        workload = workload_on(self._operator, tensor, kind=Kind.DEPTHWISE)
        self.append(
            name=copy.name,
            workload=workload,
            requant=_unchanged(tensor, channels),
            data=part,
            weights=np.full(workload.weight_shape, COPY_WEIGHT, dtype=np.int8),
            output=ChannelSlice(tensor=copy.name),
            spread=_upper(tokens, rows),
        )
        return ChannelSlice(tensor=copy.name)

    def _selected(self, part: ChannelSlice, tensor: QTensor, rows: int, ratio: int) -> Weights:
        """The same with zeros in the last channels, and several tokens in each pixel."""
        _, channels, tokens, _ = tensor.shape
        step = self._hw.block_in if ratio > 1 else self._block
        packing = TokenPacking(tokens=ratio, channels=step)
        outputs, pixels = _whole(channels, step) * ratio, blocks_of(tokens, ratio)
        copy = self._tensor(f"packed/{channels}", (1, outputs, rows // ratio, 1), tensor)
        weights = np.zeros((outputs, channels, ratio, 1), dtype=np.int8)
        for token in range(ratio):
            every = np.arange(channels)
            weights[packing.place(every, token), every, token] = COPY_WEIGHT
        self.append(
            name=copy.name,
            workload=workload_on(
                self._operator,
                tensor,
                channels_out=outputs,
                kernel_h=ratio,
                stride_h=ratio,
                pad_bottom=pixels * ratio - tokens,
            ),
            requant=_unchanged(tensor, outputs),
            data=part,
            weights=weights,
            output=ChannelSlice(tensor=copy.name),
            spread=_upper(pixels, rows // ratio),
        )
        return ChannelSlice(tensor=copy.name), packing if ratio > 1 else None

    def turned(self, part: ChannelSlice, tensor: QTensor, codes: Codes) -> Weights:
        """Channels and tokens exchanged, as weights: identity times the tensor as weights.

        The result has the tokens of each term behind each other, with zeros in all of the last
        stored block of channels of each.
        """
        hw, (_, count, tokens, _) = self._hw, tensor.shape
        # Where stored blocks are no larger, their last one is computed in any case.
        whole = self._block > hw.block_out or not codes.plain
        outputs = _whole(tokens, self._block) if whole else tokens
        weights, packing = self.as_weights(part, tensor, outputs, zeros=True)
        rows = count if self._ratio > 1 else _whole(count, hw.block_out)
        turned = self._tensor("transposed", (1, len(codes.terms) * outputs, rows, 1), tensor)
        for number, code in enumerate(codes.terms):
            place = ChannelSlice(tensor=turned.name, channel=number * outputs)
            if code is not None:
                self._fill(replace(turned, shape=(1, outputs, rows, 1)), place, code, tokens)
                continue
            self.append(
                name=f"{turned.name}/{number}" if number else turned.name,
                workload=dense(label_of(self._operator.name), count, count, outputs),
                requant=_without(_codes(turned, outputs, 1, turned=codes.turned), tokens),
                data=_identity(count, turned=codes.turned),
                weights=weights,
                weight_packing=packing,
                output=place,
                spread=_upper(count, rows),
            )
        result = ChannelSlice(tensor=turned.name)
        if self._ratio == 1:
            return result, None
        return self._selected(result, turned, _whole(count, hw.block_out), self._ratio)


def _identity(count: int, *, turned: bool = False) -> npt.NDArray[np.int8]:
    """What a tensor as weights is multiplied by."""
    return np.eye(count, dtype=np.int8)[None, :, :, None] * np.int8(-1 if turned else 1)


def _codes(tensor: QTensor, channels: int, weight: int, *, turned: bool = False) -> RequantParams:
    """The epilogue of codes times a weight, or less it, as those codes or as turned ones."""
    return epilogue(
        units=np.full(channels, tensor.scale / weight),
        bias=np.zeros(channels),
        output=replace(tensor, zero_point=-1 if turned else 0),
        bounds=UNBOUNDED,
        where=tensor.name,
    )


def _whole(count: int, block: int) -> int:
    """A count, rounded up to blocks."""
    return blocks_of(count, block) * block


def _without(requant: RequantParams, first: int) -> RequantParams:
    """Parameters whose channels from one on are 0."""
    arrays = {name: getattr(requant, name).copy() for name in ("bias", "m1", "m2", "zero_point")}
    for array in arrays.values():
        array[first:] = 0
    return replace(requant, **arrays)


def _upper(rows: int, room: int) -> Spread | None:
    """The first rows of a tensor that has more."""
    return None if rows == room else Spread.of_rows(0, room)


def _unchanged(tensor: QTensor, channels: int) -> RequantParams:
    """The epilogue of a copy with `COPY_WEIGHT`; what has no weights becomes 0."""
    return epilogue(
        units=np.full(channels, tensor.scale / COPY_WEIGHT),
        bias=np.full(channels, -tensor.zero_point * COPY_WEIGHT, float),
        output=tensor,
        bounds=UNBOUNDED,
        where=tensor.name,
    )


PartOf = Callable[[str], ChannelSlice]


def window_product_layers(
    hw: HwConfig,
    operator: QMatmul,
    factors: tuple[QTensor, QTensor],
    result: QTensor,
    part_of: PartOf,
) -> ProductLayers:
    """The layers of a product of one head."""
    terms, (a, b) = Terms.of(factors), (replace(factor, zero_point=0) for factor in factors)
    if hw.batch != 1 or hw.block_in < hw.block_out:
        raise refused(
            operator, "products in windows need a batch of 1 and block_in at least block_out"
        )
    depth, tokens = a.shape[1], a.shape[2] // operator.windows
    inner = b.shape[2] // operator.windows
    count, b_depth = (inner, b.shape[1])[:: 1 if operator.b_rows_are_outputs else -1]
    shape = (1, count, a.shape[2], 1)
    if a.shape[0] != 1 or b.shape[0] != 1 or b_depth != depth or result.shape != shape:
        raise refused(operator, "the shapes of the factors do not match")
    made = _Windows(hw, operator)
    rows = terms.b if operator.b_rows_are_outputs else Codes()
    part, b = made.filled(*made.rows(part_of(b.name), b, rows))
    weights, step = made.windows_as_weights(part, b)
    parts = [replace(weights, pixel=weights.pixel + window * step) for window in made.numbers]
    if not operator.b_rows_are_outputs:
        parts = made.turned_windows(parts, b, terms.b)
    requant = terms.requant(operator, a.scale * b.scale, depth, result)
    data, summed = made.data(part_of(a.name), a, terms.a)
    for window, first in zip(made.numbers, parts, strict=True):
        made.append(
            name=f"{operator.name}/{window}",
            workload=dense(label_of(operator.name), tokens, summed.shape[1], count),
            requant=requant,
            data=replace(data, pixel=data.pixel + window * tokens),
            weights=first,
            output=part_of(result.name),
            spread=Spread.of_rows(window * tokens, result.shape[2]),
        )
    return made.found


class _Windows(WeightFactor):
    def __init__(self, hw: HwConfig, operator: QMatmul) -> None:
        super().__init__(hw, operator)
        self.numbers = range(operator.windows)

    def filled(self, part: ChannelSlice, tensor: QTensor) -> tuple[ChannelSlice, QTensor]:
        """A tensor whose last stored block has zeros behind its channels."""
        if tensor.shape[1] % self._block == 0:
            return part, tensor
        copy, _ = self._selected(part, tensor, tensor.shape[2], ratio=1)
        return copy, self.found.tensors[copy.tensor]

    def windows_as_weights(self, part: ChannelSlice, tensor: QTensor) -> tuple[ChannelSlice, int]:
        """Where each window of a tensor begins with whole tiles; tokens from window to window."""
        hw, stored = self._hw, self._block
        tokens = tensor.shape[2] // len(self.numbers)
        whole = blocks_of(tokens, stored) * stored  # values are turned in stored blocks
        if tokens * stored % min(hw.wgt_tile_bytes, hw.axi_bytes):
            return self._apart(part, tensor, whole), whole
        rows = blocks_of(tensor.shape[2] - tokens + whole, hw.block_out) * hw.block_out
        return (part if rows == tensor.shape[2] else self._copied(part, tensor, rows)), tokens

    def _apart(self, part: ChannelSlice, tensor: QTensor, step: int) -> ChannelSlice:
        """A copy whose windows begin at every so many tokens."""
        windows, pixels = len(self.numbers), tensor.shape[2]
        copy = self._tensor("apart", (1, tensor.shape[1], windows * step, 1), tensor)
        places = np.add.outer(np.arange(windows) * (pixels // windows), np.arange(step)).reshape(-1)
        move = QGather(
            name=copy.name,
            inputs=(tensor.name,),
            output=copy.name,
            pixels=np.minimum(places, pixels - 1),
        )
        target = ChannelSlice(tensor=copy.name)
        layer = gather_layer(move, tensor, copy, (part, target), self._hw.block_out)
        self.found.layers.append(replace(layer, operators=(self._operator.name,)))
        return target

    def turned_windows(
        self, parts: Sequence[ChannelSlice], tensor: QTensor, codes: Codes
    ) -> list[ChannelSlice]:
        """Channels and tokens of each window exchanged: identity times its tokens as weights."""
        count, tokens = tensor.shape[1], tensor.shape[2] // len(self.numbers)
        step = blocks_of(tokens, self._block) * self._block
        channels = step * len(codes.terms)
        turned = self._tensor("turned", (1, channels * len(parts), count, 1), tensor)
        found = [
            ChannelSlice(tensor=turned.name, channel=window * channels) for window in self.numbers
        ]
        for first, part in zip(found, parts, strict=True):
            for number, code in enumerate(codes.terms):
                place = replace(first, channel=first.channel + number * step)
                if code is not None:
                    self._fill(replace(turned, shape=(1, step, count, 1)), place, code, tokens)
                    continue
                self.append(
                    name=f"{turned.name}/{place.channel}",
                    workload=dense(label_of(self._operator.name), count, count, step),
                    # All of a stored block is computed: GEMM reads zeros behind the last token.
                    requant=_without(_codes(turned, step, 1, turned=codes.turned), tokens),
                    data=_identity(count, turned=codes.turned),
                    weights=part,
                    output=place,
                )
        return found


_BLOCKS: Final = 4
"""Blocks of channels of a layer: fewer make more layers, more multiply more zeros."""


def turn_layers(
    hw: HwConfig,
    operator: QTurn,
    data: QTensor,
    result: QTensor,
    part_of: Callable[[str], ChannelSlice],
) -> ProductLayers:
    """The layers of an exchange."""
    if hw.batch != 1:
        raise refused(operator, "a tensor is a weight operand only where the array's batch is 1")
    channels, pixels = data.shape[1], result.shape[1]
    rows = replace(data, shape=(1, channels, pixels, 1))
    factor = WeightFactor(hw, operator)
    weights, packing = factor.as_weights(part_of(data.name), rows, pixels, zeros=True)
    # Packed tokens are parts of blocks: those of all channels at once.
    step = channels if packing is not None else _BLOCKS * output_block(hw)
    requant = epilogue(
        units=np.full(pixels, data.scale),
        bias=np.full(pixels, -data.zero_point, float),
        output=result,
        bounds=UNBOUNDED,
        where=operator.name,
    )
    for first in range(0, channels, step):
        count = min(step, channels - first)
        factor.append(
            name=f"{operator.name}/{first}",
            workload=dense(label_of(operator.name), count, count, pixels),
            requant=requant,
            data=_identity(count),
            weights=replace(weights, channel=weights.channel + first),
            weight_packing=packing,
            output=part_of(result.name),
            spread=None if count == channels else Spread.of_rows(first, channels),
        )
    return factor.found
