# SPDX-License-Identifier: Apache-2.0
"""Computations of any form (`relax_general`) as operators of a region.

- A move makes its result known by its elements (`index_maps`): nothing is computed.
- Two tensors, or a tensor and a constant, meet as one of them lies; what is broadcast is moved. A
  constant with a number a channel is weights and bias of a depthwise convolution, another a tensor.
- One of two tensors, where constants say, is the sum of both times constants of 0 and 1.
- A reduction is a convolution with weights of 1 over the channels that it reduces, and a pool over
  the pixels. A maximum over channels is a pool behind an exchange.
- A mean that leaves padding out is the mean with padding times a constant for each pixel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tilewright.host.compiler.divide import index_maps
from tilewright.host.compiler.divide import tensor_layouts as layouts
from tilewright.host.compiler.divide.index_maps import IndexMap, Places, Source
from tilewright.host.compiler.divide.placed_units import simplest
from tilewright.host.compiler.divide.relax_calls import MAX_RANK, Refusal
from tilewright.host.compiler.divide.relax_general import CHOICE, MASKED_MEAN, PAIRS, Operand
from tilewright.host.compiler.divide.tensor_layouts import TensorLayout
from tilewright.host.compiler.lower.epilogue import COPY_WEIGHT
from tilewright.host.compiler.lower.own_call import QuantisedTensor, placeholders
from tilewright.host.compiler.lower.qgraph import (
    UNBOUNDED,
    Bounds,
    QAdd,
    QConv,
    QExtreme,
    QMultiply,
    QOperator,
    QPool,
    QRescale,
    compose,
)

if TYPE_CHECKING:
    from tilewright.host.compiler.divide.region_page import RegionPage
    from tilewright.host.compiler.divide.relax_graph import RelaxStep
    from tilewright.host.compiler.divide.relax_units import OffloadUnit

Array = npt.NDArray[Any]

_STEPS: Final = 127
_EXACT: Final = 1e-3
"""Steps by which an element of a grid may miss it."""
_WHOLE: Final = 64
"""Pixels of an image that a convolution reduces as a whole, with one rounding."""


def compute(page: RegionPage, step: RelaxStep, unit: OffloadUnit, label: str) -> None:
    """Append a unit's operators to a region.

    Raises:
        Refusal: the accelerator does not compute it.
    """
    if unit.general is None:
        raise Refusal("it moves parts of axes that lie apart")
    if not index_maps.size_is_followed(unit.output.shape):
        raise Refusal("it is too large for its elements to be followed one by one")
    work = _Work(page, step, unit, label)
    operator = unit.general.operator
    if not operator:
        work.move()
        return
    if operator == MASKED_MEAN:
        work.masked_mean()
    elif operator == CHOICE:
        work.choose()
    elif operator in PAIRS:
        work.pair()
    else:
        work.reduce()
    if unit.general.after is not None:
        data = page.map_of(step.var, unit.general.shape)
        page.lies.pop(step.var, None)
        page.maps[step.var] = data.with_places(unit.general.after([data.places]))


class _Reduction(NamedTuple):
    """Which channels and pixels of a tensor each result is of."""

    channels: Places  # (kept, reduced)
    pixels: Places  # (kept, reduced)
    result: Places  # of the model's shape: kept channel * kept pixels + kept pixel


class _Work:
    def __init__(self, page: RegionPage, step: RelaxStep, unit: OffloadUnit, label: str) -> None:
        self.page, self.step, self.unit, self.label = page, step, unit, label
        assert unit.general is not None
        self.found = unit.general
        self.bounds = unit.operator.bounds
        self.output = replace(unit.output, shape=self.found.shape)

    # -- moves -------------------------------------------------------------------------------

    def move(self) -> None:
        (operand,), output = self.found.operands, self.output
        assert isinstance(operand, Operand)
        pairs = zip(self.unit.data, self.unit.inputs, strict=True)
        leaves = [self.page.rescaled(var, each, output, self.bounds) for var, each in pairs]
        low, high = self.bounds
        fills = [np.clip(c, -np.inf if low is None else low, np.inf if high is None else high)
                 for c in operand.constants]  # fmt: skip
        constants = [_constant(_codes(each, output)) for each in fills]
        self.page.maps[self.step.var] = index_maps.joined([*leaves, *constants], operand.arrange)

    def _tensors(self) -> list[tuple[IndexMap, QuantisedTensor] | Array]:
        """The operands: elements of tensors of one scale, or real numbers."""
        found: list[tuple[IndexMap, QuantisedTensor] | Array] = []
        first = 0
        for operand in self.found.operands:
            if not isinstance(operand, Operand):
                found.append(operand)
                continue
            last = first + len(operand.leaves)
            variables, inputs = self.unit.data[first:last], self.unit.inputs[first:last]
            first = last
            if len({(each.scale, each.zero_point) for each in inputs}) > 1:
                raise Refusal("it joins tensors of several scales without rounding them to one")
            maps = [self.page.map_of(v, i.shape) for v, i in zip(variables, inputs, strict=True)]
            maps += [_constant(_codes(each, inputs[0])) for each in operand.constants]
            found.append((index_maps.joined(maps, operand.arrange), inputs[0]))
        return found

    # -- two tensors -------------------------------------------------------------------------

    def pair(self) -> None:
        operator, operands = self.found.operator, self._tensors()
        if operator == "divide":
            divisor = operands[1]
            if isinstance(divisor, tuple) or not divisor.all():
                raise Refusal("it divides by a tensor, whose reciprocal has no scale in the model")
            operator, operands = "multiply", [operands[0], 1 / divisor]
        wide = self._broadcast(operands)
        constants = [each for each in wide if not isinstance(each, tuple)]
        offset = np.broadcast_to(self.found.offset, self.output.shape)
        if constants and not np.isfinite(constants[0]).all():
            raise Refusal("its constant is not finite")
        tensors = [each for each in wide if isinstance(each, tuple)]
        coarse = bool(constants) and self._is_coarse(operator, wide)
        by_channel = [*constants, offset] if coarse or offset.any() else []
        layout = self._layout([data for data, _ in tensors], by_channel)
        if not constants:
            if offset.any():
                raise Refusal("it adds a constant to a product of two tensors")
            self._two(operator, layout, tensors)
            return
        ((data, tensor),) = tensors
        name = self.page.made(data, layout, tensor)
        values, offset = (_lying(each, layout) for each in (constants[0], offset))
        first = isinstance(wide[0], tuple)
        self._one(operator, layout, name, values, offset, first=first, coarse=coarse)

    def _is_coarse(
        self, operator: str, operands: Sequence[tuple[IndexMap, QuantisedTensor] | Array]
    ) -> bool:
        """Whether int8 steps of an operator's constant can make more than a step of its result."""
        if operator in ("maximum", "minimum"):
            return False
        ((_, tensor),) = (each for each in operands if isinstance(each, tuple))
        (values,) = (each for each in operands if not isinstance(each, tuple))
        scale, zero_point = _int8_grid(values)
        held = _codes(values, replace(tensor, scale=scale, zero_point=zero_point))
        off = float(np.abs(values - scale * (held.astype(np.int64) - zero_point)).max(initial=0.0))
        if operator == "multiply":
            off *= tensor.scale * max(128 + tensor.zero_point, 127 - tensor.zero_point)
        return off > self.output.scale

    def choose(self) -> None:
        page, output = self.page, self.output
        condition, *pair = self._broadcast(self._tensors())
        assert isinstance(condition, np.ndarray)
        layout = self._layout([each[0] for each in pair if isinstance(each, tuple)])
        names = []
        for each, share in zip(pair, (condition, 1 - condition), strict=True):
            shares = _lying(share, layout)
            if not isinstance(each, tuple):
                chosen = np.where(shares != 0, _lying(each, layout), 0.0)
                names.append(self._constant(output, _codes(chosen, output), layout))
                continue
            mask = QuantisedTensor(shape=output.shape, scale=1.0, zero_point=0)
            factors = (
                page.made(each[0], layout, each[1]),
                self._constant(mask, _codes(shares, mask), layout),
            )
            part = page.tensor(f"{self.label}_part", output, layout, output.shape)
            page.append(QMultiply(**placeholders(2)), part, factors, part)
            names.append(part)
        self._finish(QAdd(**placeholders(2)), layout, *names)

    def _broadcast(
        self, operands: Sequence[tuple[IndexMap, QuantisedTensor] | Array]
    ) -> list[tuple[IndexMap, QuantisedTensor] | Array]:
        """Operands of the result's shape."""
        shape = self.output.shape
        return [
            (each[0].with_places(np.broadcast_to(each[0].places, shape)), each[1])
            if isinstance(each, tuple)
            else np.broadcast_to(each, shape)
            for each in operands
        ]

    def _layout(self, data: Sequence[IndexMap], by_channel: Sequence[Array] = ()) -> TensorLayout:
        """How the result lies: as an operand that is one tensor as it stands, or at least cost.

        Constants of `by_channel` are one number for each channel.
        """
        shape, unit = self.output.shape, self.unit
        plain = [
            self.page.lies[var][1]
            for var, tensor in zip(unit.data, unit.inputs, strict=True)
            if var in self.page.lies and tensor.shape == shape and self._is_plain(var)
        ]
        if plain and _is_of_channels(by_channel, simplest(plain)):
            chosen = simplest(plain)
            if chosen.shape[0] != 1:
                raise Refusal("it is of several images")
            return chosen
        choices = [layouts.natural(shape), layouts.natural(shape, layouts.sequence)]
        choices.append(layouts.tokens(shape))
        if len(shape) == MAX_RANK:
            choices += [layouts.stacked(shape), layouts.heads(shape), layouts.rows(shape)]
        choices += [layouts.along(shape, axis) for axis in range(len(shape)) if len(by_channel)]
        fits = [each for each in choices if each is not None and each.shape[0] == 1]
        fits = [each for each in fits if _is_of_channels(by_channel, each)]
        if not fits:
            raise Refusal(
                "numbers that it adds to products, or its constant, which int8 is too coarse for, "
                "are not those of channels"
            )
        return min(fits, key=lambda layout: self._cost(data, layout))

    def _is_plain(self, var: Any) -> bool:
        return any(
            isinstance(operand, Operand) and operand.plain and operand.leaves[0].args[0] == var
            for operand in self.found.operands
        )

    def _cost(self, data: Sequence[IndexMap], layout: TensorLayout) -> float:
        try:
            return sum(self.page.cost(each, layout) for each in data)
        except Refusal:
            return np.inf

    def _two(
        self,
        operator: str,
        layout: TensorLayout,
        operands: Sequence[tuple[IndexMap, QuantisedTensor]],
    ) -> None:
        page, output = self.page, self.output
        if operator in ("maximum", "minimum"):
            names = [page.made(data, layout, tensor) for data, tensor in operands]
            if len({(tensor.scale, tensor.zero_point) for _, tensor in operands}) > 1:
                names = [page.at_scale(name, output) for name in names]
            made: QOperator = QExtreme(**placeholders(2), maximum=operator == "maximum")
        elif operator == "multiply":
            names = [page.factor(data, layout, tensor) for data, tensor in operands]
            shapes = [page.tensors[name].shape for name in names]
            if layout.shape not in shapes:
                names[0] = page.made(operands[0][0], layout, operands[0][1])
            made = QMultiply(**placeholders(2))
        else:
            names = [page.made(data, layout, tensor) for data, tensor in operands]
            made = QAdd(**placeholders(2), subtracts=operator == "subtract")
        self._finish(made, layout, *names)

    def _one(
        self,
        operator: str,
        layout: TensorLayout,
        name: str,
        values: Array,
        offset: Array,
        *,
        first: bool,
        coarse: bool,
    ) -> None:
        """A tensor and a constant (channels, pixels), and which is first; what a product has added.

        That is one number, or one for each channel, as is the constant then, and one that is too
        coarse as int8.
        """
        by_channel = (values == values[:, :1]).all()
        output = self.output
        if operator in ("maximum", "minimum"):
            bound = float(values.flat[0])
            if (values == bound).all():
                least = (bound, None) if operator == "maximum" else (None, bound)
                self.bounds = compose(least, self.bounds)
                self._finish(QRescale(**placeholders(1)), layout, name)
                return
            constant = self._constant(output, _codes(values, output), layout)
            name = self.page.at_scale(name, output)
            made: QOperator = QExtreme(**placeholders(2), maximum=operator == "maximum")
            self._finish(made, layout, name, constant)
            return
        step = self.page.tensors[name].scale / COPY_WEIGHT  # of numbers that are added
        if by_channel and (operator == "multiply" or step <= output.scale):
            ones = np.ones(len(values))
            column = values[:, 0]
            if operator == "multiply":
                if (offset != 0).any() and step * np.abs(column).max() > output.scale:
                    raise Refusal("what it adds is finer than a step of what it adds it to")
                self._finish(_affine(column, offset[:, 0]), layout, name)
            else:
                sign = -1.0 if operator == "subtract" else 1.0
                factor, share = (1.0, sign) if first else (sign, 1.0)
                self._finish(_affine(factor * ones, share * column), layout, name)
            return
        if coarse:
            raise Refusal("its constant is too wide for int8, and too fine for its other operand")
        scale, zero_point = _int8_grid(values)
        tensor = QuantisedTensor(shape=output.shape, scale=scale, zero_point=zero_point)
        constant = self._constant(tensor, _codes(values, tensor), layout)
        names = (name, constant) if first else (constant, name)
        made = QAdd(**placeholders(2), subtracts=operator == "subtract")
        self._finish(QMultiply(**placeholders(2)) if operator == "multiply" else made, layout,
                     *names)  # fmt: skip

    def _constant(
        self, like: QuantisedTensor, codes: npt.NDArray[np.int8], layout: TensorLayout
    ) -> str:
        """A constant tensor of a layout."""
        return self.page.constant(like, codes.reshape(layout.shape))

    def _finish(self, operator: QOperator, layout: TensorLayout, *names: str) -> None:
        """The operator that computes the unit's result."""
        self.page.enter(self.step.var, self.output, layout)
        made = replace(operator, bounds=self.bounds)
        written = self.page.append(made, self.label, names, self.page.lies[self.step.var][0])
        self.page.of_step[self.step.index] = written

    # -- means that leave padding out --------------------------------------------------------

    def masked_mean(self) -> None:
        shares, output = self.found.operands[1], self.output
        assert isinstance(shares, np.ndarray)
        layout, shape = layouts.image(output.shape), output.shape
        if shape[0] != 1:
            raise Refusal("its average leaves out the padding, and it is of several images")
        source = self.page.source(
            self.unit.data[0], layouts.image(self.unit.inputs[0].shape), self.unit.inputs[0]
        )
        whole = self.page.tensor(f"{self.label}_whole", output, layout, shape)
        pool = replace(self.unit.operator, bounds=UNBOUNDED)
        self.page.append(pool, whole, (source,), whole)
        tensor = QuantisedTensor(shape=shape, scale=_share_scale(shares), zero_point=0)
        wide = np.broadcast_to(shares, shape).reshape(shape[1], -1)
        constant = self._constant(tensor, _codes(wide, tensor), layout)
        self._finish(QMultiply(**placeholders(2)), layout, whole, constant)

    # -- reductions --------------------------------------------------------------------------

    def reduce(self) -> None:
        (operand,) = self._tensors()
        assert isinstance(operand, tuple)
        data, tensor = operand
        found = _reduction(data, self.found.axes)
        if found is None:
            shape = data.places.shape
            natural = (layouts.natural(shape), layouts.natural(shape, layouts.sequence),
                       layouts.tokens(shape))  # fmt: skip
            layout = self.page.cheapest(data, [each for each in natural if each is not None])
            data = self.page.map_of_layout(self.page.made(data, layout, tensor), layout, shape)
            found = _reduction(data, self.found.axes)
        if found is None:
            raise Refusal("it reduces parts of axes that lie apart")
        name = data.sources[0].name
        channels, pixels = found.channels.shape[1], found.pixels.shape[1]
        if self.found.operator == "max":
            result = self._maximum(name, tensor, found)
        elif channels > 1 and len(found.pixels) == 1 and 1 < pixels <= _WHOLE:
            result = self._summed(name, found, last=True, whole=True)
        elif channels == 1 or (pixels > 1 and pixels < channels):
            mid = self._pooled(name, tensor, found, last=channels == 1)
            result = mid if channels == 1 else self._summed(mid, found, last=True)
        else:
            mid = self._summed(name, found, last=pixels == 1)
            result = mid if pixels == 1 else self._pooled(mid, tensor, found, last=True)
        kept = len(found.channels), len(found.pixels)
        source = Source(result, *kept)
        self.page.maps[self.step.var] = IndexMap(
            sources=(source,), places=found.result.reshape(self.output.shape)
        )

    def _maximum(self, name: str, tensor: QuantisedTensor, found: _Reduction) -> str:
        """Over pixels; then over channels: of halves that overlap, until one is left."""
        left = found.channels
        if found.pixels.shape[1] > 1 or left.shape[1] == 1:
            name = self._pooled(name, tensor, found, last=left.shape[1] == 1)
        while left.shape[1] > 1:
            half = -(-left.shape[1] // 2)
            parts = [
                self.page.chosen(name, tuple(part.reshape(-1).tolist()))
                for part in (left[:, :half], left[:, -half:])
            ]
            left = np.arange(len(left) * half).reshape(len(left), half)
            shape = (1, left.size, *self.page.tensors[name].shape[2:])
            last = half == 1
            extreme = QExtreme(**placeholders(2), maximum=True)
            like = self.output if last else tensor
            name = self._stage(extreme, parts, shape, like, last=last)
        return name

    def _pooled(self, name: str, tensor: QuantisedTensor, found: _Reduction, *, last: bool) -> str:
        """The mean, sum or maximum over pixels."""
        kept, reduced = found.pixels.shape
        channels, *sides = self.page.tensors[name].shape[1:]
        places = np.arange(kept * reduced)
        if kept == 1:
            kernel = (sides[0], sides[1])
        elif np.array_equal(found.pixels.reshape(-1), places):
            name, kernel = self.page.shaped(name, (1, channels, kept, reduced)), (1, reduced)
        elif np.array_equal(found.pixels.T.reshape(-1), places):
            name, kernel = self.page.shaped(name, (1, channels, reduced, kept)), (reduced, 1)
        else:
            source = Source(name, channels, places.size)
            wanted = np.arange(channels)[:, None] * places.size + found.pixels.reshape(-1)
            name = self.page.laid((source,), wanted, (kept, reduced), tensor)
            kernel = (1, reduced)
        rows, columns = self.page.tensors[name].shape[2:]
        shape = (1, channels, rows // kernel[0], columns // kernel[1])
        total = reduced * found.channels.shape[1] if self.found.operator == "sum" and last else 1
        pool = QPool(
            **placeholders(1),
            maximum=self.found.operator == "max",
            kernel=kernel,
            stride=kernel,
            factor=float(total),
        )
        return self._stage(pool, [name], shape, self.output if last else tensor, last=last)

    def _summed(self, name: str, found: _Reduction, *, last: bool, whole: bool = False) -> str:
        """The mean or sum over channels: a product with a matrix of ones; or over a whole image."""
        kept, reduced = found.channels.shape
        _, channels, *sides = self.page.tensors[name].shape
        kernel = tuple(sides) if whole else (1, 1)
        weights = np.zeros((kept, channels, *kernel), np.int8)
        weights[np.arange(kept)[:, None], found.channels] = 1
        total = reduced * found.pixels.shape[1] if self.found.operator == "sum" and last else 1
        if whole:
            reduced, sides = reduced * found.pixels.shape[1], [1, 1]
        conv = QConv(
            **placeholders(1),
            weights=weights,
            weight_scales=np.full(kept, total / reduced),
            bias=np.zeros(kept),
        )
        like = self.output if last else self.page.tensors[name]
        return self._stage(conv, [name], (1, kept, sides[0], sides[1]), like, last=last)

    def _stage(
        self,
        operator: QOperator,
        sources: Sequence[str],
        shape: tuple[int, ...],
        like: Any,
        *,
        last: bool,
    ) -> str:
        """An operator of a reduction; the last one writes the result."""
        stem = self.page.name_of(self.step.var) if last else f"{self.label}_part"
        name = self.page.tensor(stem, like, layouts.image(shape), shape)
        bounds: Bounds = self.bounds if last else UNBOUNDED
        label = self.label if last else name
        written = self.page.append(replace(operator, bounds=bounds), label, tuple(sources), name)
        if last:
            self.page.of_step[self.step.index] = written
        return name


def _reduction(data: IndexMap, axes: Sequence[int]) -> _Reduction | None:
    """A reduction by the channels and pixels of one tensor; None: its elements are others."""
    source = data.alone
    if source is None or source.values is not None or data.places.size != source.size:
        return None
    if (np.bincount(data.places.reshape(-1), minlength=source.size) != 1).any():
        return None
    channel, pixel = np.divmod(data.places, source.pixels)
    sizes: list[int] = []
    reduces: list[bool] = []
    by_channel: list[bool] = []
    for axis in range(data.places.ndim):
        parts = _parts(channel, pixel, axis)
        if parts is None:
            return None
        sizes += [size for size, _ in parts]
        by_channel += [of_channels for _, of_channels in parts]
        reduces += [axis in axes] * len(parts)
    return _grouped(channel.reshape(sizes), pixel.reshape(sizes), reduces, by_channel, data, axes)


def _parts(channel: Places, pixel: Places, axis: int) -> list[tuple[int, bool]] | None:
    """An axis as factors, outermost first, each with whether it is of channels, or of pixels."""
    size = channel.shape[axis]
    channels, pixels = (np.moveaxis(each, axis, 0).reshape(size, -1) for each in (channel, pixel))
    found: list[tuple[int, bool]] = []
    while len(channels) > 1:
        of_channels = bool((channels[1] != channels[0]).any())
        fixed = pixels if of_channels else channels
        others = np.flatnonzero((fixed != fixed[0]).any(axis=1))
        inner = int(others[0]) if others.size else len(fixed)
        if inner == 1 or len(fixed) % inner:
            return None
        found.insert(0, (inner, of_channels))
        channels, pixels = channels[::inner], pixels[::inner]
    return found


def _grouped(
    channel: Places,
    pixel: Places,
    reduces: Sequence[bool],
    by_channel: Sequence[bool],
    data: IndexMap,
    axes: Sequence[int],
) -> _Reduction | None:
    """The axes, of which each is of channels or of pixels, in the order of their purposes."""
    groups = {
        purpose: [
            axis
            for axis, each in enumerate(zip(by_channel, reduces, strict=True))
            if each == purpose
        ]
        for purpose in ((True, False), (True, True), (False, False), (False, True))
    }
    order = [axis for group in groups.values() for axis in group]
    sizes = [prod(channel.shape[axis] for axis in group) for group in groups.values()]
    channels, pixels = (each.transpose(order).reshape(sizes) for each in (channel, pixel))
    if (channels != channels[:, :, :1, :1]).any() or (pixels != pixels[:1, :1]).any():
        return None
    numbers = np.empty(channels.shape, np.int64)
    numbers[...] = (np.arange(sizes[0])[:, None] * sizes[2] + np.arange(sizes[2]))[:, None, :, None]
    flat = np.empty(data.places.size, np.int64)
    places = channels * data.sources[0].pixels + pixels
    flat[places.reshape(-1)] = numbers.reshape(-1)
    cut = tuple(slice(0, 1) if axis in axes else slice(None) for axis in range(data.places.ndim))
    return _Reduction(channels[:, :, 0, 0], pixels[0, 0], flat[data.places[cut]])


def _affine(factors: Array, offsets: Array) -> QConv:
    """A factor and an offset for each channel: a depthwise convolution of one pixel."""
    sizes = np.where(factors == 0, 1.0, np.abs(factors))
    return QConv(
        **placeholders(1),
        weights=(np.sign(factors) * COPY_WEIGHT).astype(np.int8)[:, None, None, None],
        weight_scales=sizes / COPY_WEIGHT,
        bias=offsets.astype(np.float64),
        groups=len(factors),
    )


def _constant(codes: npt.NDArray[np.int8]) -> IndexMap:
    """Constant elements, of the shape of their codes."""
    values = codes.reshape(1, -1)
    places = np.arange(codes.size).reshape(codes.shape)
    return IndexMap(sources=(Source("", 1, codes.size, values),), places=places)


def _codes(values: Array, tensor: QuantisedTensor) -> npt.NDArray[np.int8]:
    """Real numbers as int8 of a tensor."""
    steps = np.rint(values / tensor.scale) + tensor.zero_point
    return np.asarray(np.clip(steps, -128, 127).astype(np.int8))


def _lying(values: Array, layout: TensorLayout) -> Array:
    """Numbers of the model's shape as (channels, pixels) of a normal form."""
    return layouts.in_normal_form(np.ascontiguousarray(values), layout).reshape(layout.shape[1], -1)


def _is_of_channels(constants: Sequence[Array], layout: TensorLayout) -> bool:
    """Whether constants are one number for each channel."""
    lying = (_lying(each, layout) for each in constants)
    return all((each == each[:, :1]).all() for each in lying)


def _int8_grid(values: Array) -> tuple[float, int]:
    """A scale and a zero point for a constant: those that it has, or those of its range."""
    known = np.unique(np.append(values, 0.0))
    least = float(np.diff(known).min(initial=np.inf))
    steps = known / least if np.isfinite(least) else np.zeros(1)
    if np.abs(steps - np.rint(steps)).max() < _EXACT and np.ptp(steps) <= 2 * _STEPS + 1:
        return (least if np.isfinite(least) else 1.0), int(-128 - np.rint(steps[0]))
    scale = float(np.ptp(known)) / (2 * _STEPS + 1)
    return scale, int(-128 - np.rint(known[0] / scale))


def _share_scale(shares: Array) -> float:
    """A scale of which ratios of whole numbers are whole steps, if they fit."""
    for steps in range(1, _STEPS + 1):
        whole = shares * steps
        if np.abs(whole - np.rint(whole)).max() < 1e-9 and whole.max() <= _STEPS:
            return 1 / steps
    return float(1 / np.floor(_STEPS / shares.max()))
