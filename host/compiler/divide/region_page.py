# SPDX-License-Identifier: Apache-2.0
"""A region's `QGraph` under construction: units, and the moves that bring them their data.

A tensor lies in a normal form (`tensor_layouts`), or it is elements of tensors that do
(`index_maps`). Moves compose: nothing is moved before a reader wants it, and then as that reader
wants it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import inf, prod
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from tilewright.host.compiler.divide import general_units, index_maps, stacked_units
from tilewright.host.compiler.divide import tensor_layouts as layouts
from tilewright.host.compiler.divide.index_maps import IndexMap
from tilewright.host.compiler.divide.placed_units import placed, placed_product, row_layouts
from tilewright.host.compiler.divide.placement import Price, WhyNot
from tilewright.host.compiler.divide.region_tensors import RegionTensors
from tilewright.host.compiler.divide.relax_calls import MAX_RANK, Refusal, constant
from tilewright.host.compiler.divide.relax_general import MASKED_MEAN
from tilewright.host.compiler.divide.relax_graph import RelaxStep
from tilewright.host.compiler.divide.relax_units import OffloadUnit
from tilewright.host.compiler.divide.tensor_layouts import TensorLayout
from tilewright.host.compiler.lower.fuse import is_dense, with_image_as_kernel
from tilewright.host.compiler.lower.own_call import QuantisedTensor
from tilewright.host.compiler.lower.qgraph import (
    UNBOUNDED,
    Bounds,
    QConv,
    QGraph,
    QLayerNorm,
    QMatmul,
    QOperator,
    QRescale,
    QReshape,
    QSoftmax,
    QTensor,
)

Expr = Any
Var = Any
Result = TypeVar("Result")
Form = Callable[[Sequence[int]], TensorLayout]
Int8Array = npt.NDArray[np.int8]
Lying = tuple[str, TensorLayout]
"""A tensor's name, and how the model's tensor lies in it."""


_MUCH_LESS: Final = 0.7
"""Of the price of the way with fewest moves: bounds of small layers tell no finer differences."""


@dataclass(frozen=True, kw_only=True)
class PageRules:
    """What holds for every region.

    Attributes:
        name_of: the name of the tensor in an int8 variable.
        forms: what tensors of rank 4 are, if no images.
        turns: channels and pixels are exchanged where that is needed.
        why_not: judges dense layers whose kernel is a whole image.
        price: seconds of an operator, by which ways to lay a product are compared.
        apart: heads of a product count as windows where that is cheaper, if it is alone.
    """

    name_of: Callable[[Var], str]
    forms: Mapping[Var, Form]
    turns: bool
    why_not: WhyNot | None
    price: Price | None
    apart: bool


class RegionPage(RegionTensors):
    """A `QGraph` under construction.

    Attributes:
        lies: where variables lie that lie in a normal form.
        maps: the others, by their elements.
        cheaper_apart: a product alone would be cheaper if its heads counted as windows, or not.
        of_step: the operator that a step stands for.
        moves_of: the operators that move data for a step, or compute a part of it.
    """

    def __init__(self, rules: PageRules) -> None:
        super().__init__(turns=rules.turns)
        self._rules = rules
        self._images: dict[str, str] = {}
        """By flattened tensor, the image that it is."""
        self.lies: dict[Var, Lying] = {}
        self.maps: dict[Var, IndexMap] = {}
        self.cheaper_apart = False
        self.of_step: dict[int, QOperator] = {}
        self.moves_of: dict[int, tuple[QOperator, ...]] = {}

    def knows(self, var: Var) -> bool:
        """Whether a variable is in the region."""
        return var in self.lies or var in self.maps

    def enter(self, var: Var, tensor: QuantisedTensor, layout: TensorLayout) -> None:
        """Make a variable known."""
        name = self.tensor(self._rules.name_of(var), tensor, layout, tensor.shape)
        self.lies[var] = (name, layout)

    def hold(self, var: Expr, tensor: QuantisedTensor, layout: TensorLayout) -> None:
        """Make a constant known."""
        self.lies[var] = (self.tensor("constant", tensor, layout, tensor.shape), layout)
        self._constants[self.lies[var][0]] = layouts.in_normal_form(constant(var), layout)

    def add(self, step: RelaxStep, unit: OffloadUnit, label: str) -> None:
        """Append a unit; a move only makes its result known by its elements."""
        self.noting(step, lambda step, page: page._add(step, unit, label))

    def noting(self, step: RelaxStep, work: Callable[[RelaxStep, RegionPage], Result]) -> Result:
        """What some work returns, whose operators are for a step."""
        before = len(self._operators)
        result = work(step, self)
        own = self.of_step.get(step.index)
        self.moves_of[step.index] = self.moves_of.get(step.index, ()) + tuple(
            each
            for each in self._operators[before:]
            if each is not own and not isinstance(each, QReshape)
        )
        return result

    def _add(self, step: RelaxStep, unit: OffloadUnit, label: str) -> None:
        if unit.moves_only and unit.data[0] in self.lies:
            name, layout = self.lies[unit.data[0]]
            order: layouts.Order | None = layout.order
            if unit.axes:
                order = layouts.permuted(layout.order, unit.inputs[0].shape, unit.axes)
            if order is not None:
                self.lies[step.var] = (name, replace(layout, order=order))
                return
        if unit.moves_only or unit.kind == "general":
            general_units.compute(self, step, unit, label)
        elif unit.kind in ("rescale", "table") and unit.data[0] in self.maps:
            self._push(step, unit, label)
        else:
            self._place_or_compute(step, unit, label)

    def _place_or_compute(self, step: RelaxStep, unit: OffloadUnit, label: str) -> None:
        """A unit as a layer on data that lie as it takes them; or in its general form."""
        general = unit.general
        if general is not None and general.operator == MASKED_MEAN:
            general_units.compute(self, step, unit, label)
            return
        known = dict(self.tensors), list(self._operators), dict(self._known)
        try:
            self._place(step, unit, label)
        except Refusal as refusal:
            self.tensors, self._operators, self._known = known
            self.lies.pop(step.var, None)
            if general is not None:
                general_units.compute(self, step, unit, label)
                return
            try:
                stacked_units.compute(self, step, unit, label)
            except Refusal:
                raise refusal from None

    def _place(self, step: RelaxStep, unit: OffloadUnit, label: str) -> None:
        operator, needed, output = self._placed(unit)
        dense = is_dense(operator)
        sources = tuple(
            self.source(var, want, tensor, flattens=dense)
            for var, want, tensor in zip(unit.data, needed, unit.inputs, strict=True)
        )
        self.enter(step.var, unit.output, output)
        written = self.append(operator, label, sources, self.lies[step.var][0])
        self.of_step[step.index] = written
        if isinstance(written, QConv) and dense and sources[0] in self._images:
            self._require_kernel(written, self.tensors[self._images[sources[0]]])

    def _placed(
        self, unit: OffloadUnit
    ) -> tuple[QOperator, tuple[TensorLayout, ...], TensorLayout]:
        """A unit on data that lie as they do; or on data that are moved to how they would enter."""
        if isinstance(unit.operator, QMatmul):
            return self._placed_product(unit.operator, unit)
        have = [self.lies[var][1] for var in unit.data if var in self.lies]
        lying: list[TensorLayout] = []
        for var, tensor in zip(unit.data, unit.inputs, strict=True):
            if isinstance(unit.operator, QSoftmax | QLayerNorm) and not lying:
                lying.append(self._rows_lie(unit, var))
            elif var in self.lies:
                lying.append(self.lies[var][1])
            elif unit.elementwise and have:
                lying.append(have[0])
            else:
                lying.append(self.cheapest(self.maps[var], self._choices(unit, var, tensor.shape)))
        try:
            return placed(unit, lying)
        except Refusal:
            natural = [
                self._choices(unit, var, tensor.shape)[0]
                for var, tensor in zip(unit.data, unit.inputs, strict=True)
            ]
            if natural == lying:
                raise
            return placed(unit, natural)

    def _rows_lie(self, unit: OffloadUnit, var: Var) -> TensorLayout:
        """How the data of a function of rows lie, or are to be moved."""
        shape = unit.inputs[0].shape
        lies = self.lies[var][1] if var in self.lies else None
        if lies is not None and lies.shape[0] > 1:
            return lies
        choices = row_layouts(unit, layouts.along(shape, 0) if lies is None else lies)
        same = [each for each in choices if lies is not None and each.order == lies.order]
        return same[0] if same else self.cheapest(self.map_of(var, shape), choices)

    def _placed_product(
        self, operator: QMatmul, unit: OffloadUnit
    ) -> tuple[QOperator, tuple[TensorLayout, ...], TensorLayout]:
        """A product of factors that are moved least; its heads may count as windows for that."""
        a, b = (tensor.shape for tensor in unit.inputs)
        one_image = len(a) == MAX_RANK and a[0] == 1 < a[1] == b[1]
        refusal: Refusal | None = None
        ways = []
        for heads_apart, by_rows in product((False, True) if one_image else (False,), (0, 1)):
            try:
                found = [
                    self._factor_lies(unit, 0, heads_apart=heads_apart),
                    self._factor_lies(unit, 1, heads_apart=heads_apart, choice=by_rows),
                ]
                placed = placed_product(
                    operator, unit, [layout for _, layout in found], heads_apart=heads_apart
                )
            except Refusal as each:
                refusal = refusal or each
            else:
                price = self._price_of(unit, placed, [moves for moves, _ in found])
                ways.append((price, placed, heads_apart))
        if not ways:
            assert refusal is not None
            raise refusal
        fewest = min(ways, key=lambda way: (way[0][0] == inf, way[0][1]))
        cheapest = min(ways, key=lambda way: way[0])
        other = cheapest[2] != fewest[2] and cheapest[0][0] < _MUCH_LESS * fewest[0][0]
        self.cheaper_apart |= other
        if other and not self._rules.apart:  # alone, heads are copied apart: not so in place
            cheapest = min((way for way in ways if way[2] == fewest[2]), key=lambda way: way[0])
        return (cheapest if cheapest[0][0] < _MUCH_LESS * fewest[0][0] else fewest)[1]

    def _price_of(
        self,
        unit: OffloadUnit,
        placed: tuple[QOperator, tuple[TensorLayout, ...], TensorLayout],
        moves: Sequence[int],
    ) -> tuple[float, int]:
        """What a product in these layouts costs with so many moves of its factors; and the moves.

        What the accelerator refuses costs infinitely much.
        """
        price = self._rules.price
        if price is None:
            return 0.0, sum(moves)
        operator, needed, output = placed
        a, b, y = (
            QTensor(name=name, shape=lies.shape, scale=each.scale, zero_point=each.zero_point)
            for name, lies, each in zip(
                "aby", (*needed, output), (*unit.inputs, unit.output), strict=True
            )
        )
        copy = QRescale(name="copy", inputs=("a",), output="y")
        total = price(replace(operator, name="product", inputs=("a", "b"), output="y"), (a, b, y))
        for count, factor in zip(moves, (a, b), strict=True):
            source, result = replace(factor, name="a"), replace(factor, name="y", scale=1.0)
            total += count * price(copy, (source, result)) if count else 0.0
        return total, sum(moves)

    def _factor_lies(
        self, unit: OffloadUnit, index: int, *, heads_apart: bool, choice: int = 0
    ) -> tuple[int, TensorLayout]:
        """How a factor lies for a product, by features or rows, and how many moves that takes."""
        var, shape = unit.data[index], unit.inputs[index].shape
        lies = self.lies[var][1] if var in self.lies else None
        # What is alone, or a map, has its batch, that of windows, among its pixels.
        windows = heads_apart or (shape[0] > 1 and (lies is None or lies.shape[0] == 1))
        parted = (shape[1], 1, *shape[2:]) if heads_apart else shape
        forms = (
            (layouts.window_heads, layouts.window_rows)
            if windows
            else (layouts.heads, layouts.rows)
        )
        wanted = forms[choice](parted)
        if lies is not None and (lies.shape[0] != 1 or lies.order == wanted.order):
            return 0, lies
        return self.cost(self.map_of(var, shape), wanted), wanted

    def _choices(self, unit: OffloadUnit, var: Var, shape: Sequence[int]) -> list[TensorLayout]:
        """How a tensor may be given to a unit, the likeliest first."""
        forms = [self._rules.forms.get(var, layouts.image), layouts.image, layouts.sequence]
        found = [layouts.natural(shape, form) for form in forms]
        if shape[0] > 1 and (unit.kind == "dense" or unit.elementwise):
            found.insert(0, layouts.tokens(shape))
            found += [layouts.stacked(shape)] if len(shape) == MAX_RANK else []
        return [each for each in found if each is not None]

    def _push(self, step: RelaxStep, unit: OffloadUnit, label: str) -> None:
        """What works element by element works before the moves, if they leave little out."""
        data, var = self.maps[unit.data[0]], unit.data[0]
        source = data.alone
        if source is None or source.values is not None or source.size > 2 * data.places.size:
            layout = self.cheapest(data, self._choices(unit, var, unit.inputs[0].shape))
            self.lies[var] = (self.made(data, layout, unit.inputs[0]), layout)
            del self.maps[var]
            self._place(step, unit, label)
            return
        shape = self.tensors[source.name].shape
        name = self.tensor(self._rules.name_of(step.var), unit.output, layouts.image(shape), shape)
        self.of_step[step.index] = self.append(unit.operator, label, (source.name,), name)
        sources = (source._replace(name=name),)
        self.maps[step.var] = IndexMap(sources=sources, places=data.places)

    def _require_kernel(self, dense: QConv, image: QTensor) -> None:
        """Refuse a dense layer on a flattened image that is too large to be its kernel."""
        whole = with_image_as_kernel(dense, image)
        tensors = (image, self.tensors[dense.output])
        why_not = self._rules.why_not
        lacks = None if why_not is None else why_not(whole, tensors)
        if lacks is not None:
            size = " x ".join(map(str, image.shape[2:]))
            raise Refusal(f"a dense layer on the flattened image has a kernel of {size}: {lacks}")

    # -- where data lie ----------------------------------------------------------------------

    def map_of(self, var: Var, shape: Sequence[int]) -> IndexMap:
        """A variable by its elements."""
        if var in self.maps:
            return self.maps[var]
        name, layout = self.lies[var]
        if layout.shape[0] != 1 or not index_maps.size_is_followed(shape):
            raise Refusal("its data move, and they are of several images or too many")
        return IndexMap(
            sources=(self._source_of(name),), places=layouts.places(layout).reshape(shape)
        )

    def rescaled(
        self, var: Var, tensor: QuantisedTensor, like: QuantisedTensor, bounds: Bounds = UNBOUNDED
    ) -> IndexMap:
        """A variable by its elements, at another scale and within bounds."""
        data = self.map_of(var, tensor.shape)
        if (tensor.scale, tensor.zero_point) == (like.scale, like.zero_point):
            return data if bounds == UNBOUNDED else self._scaled(data, like, bounds)
        return self._scaled(data, like, bounds)

    def source(
        self, var: Var, want: TensorLayout, tensor: QuantisedTensor, *, flattens: bool = False
    ) -> str:
        """The name of the tensor that holds a variable as a reader wants it."""
        if var in self.maps:
            return self.made(self.maps[var], want, tensor)
        return self.reshaped(*self.lies[var], want, tensor.shape, flattens=flattens)

    def reshaped(
        self,
        name: str,
        layout: TensorLayout,
        needed: TensorLayout,
        model_shape: tuple[int, ...],
        *,
        flattens: bool = False,
    ) -> str:
        """The tensor that holds another's elements in another shape or order.

        Args:
            name: of the other one.
            layout: its layout.
            needed: the layout of the result.
            model_shape: the shape that the model gives it.
            flattens: its reader takes a whole image for the channels of a pixel.
        """
        if layout.order != needed.order:
            channels = layouts.channels_of(layout, needed)
            if channels is None:
                if layout.shape[0] != 1 or not index_maps.size_is_followed(model_shape):
                    raise Refusal("its data lie in an order that it does not take")
                data = self.map_of_layout(name, layout, model_shape)
                return self.made(data, needed, self.tensors[name])
            name = self.chosen(name, channels)
        if layout.shape == needed.shape:
            return name
        whole = needed.shape == (layout.shape[0], prod(layout.shape[1:]), 1, 1)
        if layout.shape[:2] != needed.shape[:2] and not (flattens and whole):
            if layout.shape[0] != 1 or not index_maps.size_is_followed(model_shape):
                raise Refusal(
                    "a change of shape in front of it makes pixels channels, or channels pixels"
                )
            data = self.map_of_layout(name, layout, model_shape)
            return self.made(data, needed, self.tensors[name])
        stem = self.shaped(name, needed.shape, model_shape)
        if flattens and whole:
            self._images[stem] = name
        return stem

    def leaving(self, var: Var, tensor: QuantisedTensor, choices: Sequence[TensorLayout]) -> str:
        """A tensor that holds a variable in one of the ways in which it can leave the region."""
        data = self.map_of(var, tensor.shape)
        layout = self.cheapest(data, choices)
        name = self.made(data, layout, tensor)
        if name in self._constants:
            raise Refusal("it is constant")
        own = self.tensor(self.name_of(var), tensor, layout, tensor.shape)
        self.append(QReshape(name="", inputs=(), output=""), own, (name,), own)
        return own

    def name_of(self, var: Var) -> str:
        """The name of the tensor in an int8 variable."""
        return self._rules.name_of(var)

    def graph(
        self,
        name: str,
        inputs: Sequence[Var],
        results: Sequence[str],
        any_strides: frozenset[str],
    ) -> QGraph:
        """The finished graph, with these tensors as its outputs."""
        arguments = tuple(self.lies[var][0] for var in inputs)
        return QGraph(
            name=name,
            tensors=self.tensors,
            operators=tuple(self._operators),
            inputs=arguments,
            outputs=tuple(results),
            model_shapes={
                tensor: self.model_shapes[tensor]
                for tensor in (*arguments, *results)
                if self.model_shapes[tensor] != self.tensors[tensor].shape
            },
            any_strides=any_strides,
            constants=self._constants,
        )
