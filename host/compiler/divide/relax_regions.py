# SPDX-License-Identifier: Apache-2.0
"""Regions: the largest convex sets of units, each written down as a `QGraph`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import relax

from tilewright.host.compiler.divide import tensor_layouts as layouts
from tilewright.host.compiler.divide.offload import convex_groups
from tilewright.host.compiler.divide.placed_units import placed
from tilewright.host.compiler.divide.placement import WhyNot
from tilewright.host.compiler.divide.relax_calls import (
    MAX_RANK,
    Refusal,
    constant,
    is_constant,
    operator_name,
    variables_of,
)
from tilewright.host.compiler.divide.relax_graph import RelaxStep, StepGraph
from tilewright.host.compiler.divide.relax_units import OffloadUnit
from tilewright.host.compiler.divide.tensor_layouts import TensorLayout
from tilewright.host.compiler.lower.fuse import is_dense, with_image_as_kernel
from tilewright.host.compiler.lower.own_call import QuantisedTensor
from tilewright.host.compiler.lower.qgraph import (
    QConv,
    QGather,
    QGraph,
    QOperator,
    QReshape,
    QSelect,
    QTensor,
    QTurn,
)

Expr = Any
Var = Any


@dataclass(frozen=True, kw_only=True, eq=False)
class RelaxRegion:
    """Units that run on the accelerator in one go.

    Attributes:
        steps: the units, in order; moves of data among them only if they are free.
        operators: of the graph, by the index of the step that each stands for.
        inputs, outputs: int8 variables of the Relax function, as in the graph.
    """

    steps: tuple[RelaxStep, ...]
    graph: QGraph  # the same for the back end
    operators: Mapping[int, QOperator]
    inputs: tuple[Var, ...]
    outputs: tuple[Var, ...]


class Misfit(Exception):  # noqa: N818  (control flow, not an error)
    """A step does not fit into a region with its neighbours."""

    def __init__(self, step: RelaxStep, reason: str) -> None:
        super().__init__(reason)
        self.step = step
        self.reason = reason


Form = Callable[[Sequence[int]], TensorLayout]


def forms_of_rank_4(graph: StepGraph) -> Mapping[Var, Form]:
    """Which tensors of rank 4 are no images: heads of attention, or channels last.

    Factors and results of products hold heads. Data and results of dense layers have their channels
    last; so have masks of softmax their tokens. What is added or rescaled lies as its neighbour.
    """
    found: dict[Var, Form] = {}
    linked: list[tuple[Var, ...]] = []
    for step in graph.steps:
        if step.unit is None:
            continue
        tensors = (*step.unit.data, step.var)
        if step.unit.kind == "product":
            found |= dict.fromkeys(tensors, layouts.heads)
        elif step.unit.kind == "dense":
            found = dict.fromkeys(tensors, layouts.sequence) | found
        elif step.unit.kind == "softmax":
            data, *masks = step.unit.data
            found |= dict.fromkeys(masks, layouts.sequence)
            linked.append((data, step.var))
        elif step.unit.elementwise or step.unit.kind in ("gather", "layer norm"):
            linked.append(tensors)
    grown = True
    while grown:
        grown = False
        for tensors in linked:
            known = [found[tensor] for tensor in tensors if tensor in found]
            if 0 < len(known) < len(tensors):
                found = dict.fromkeys(tensors, known[0]) | found
                grown = True
    return found


def groups_of(graph: StepGraph, members: Collection[int]) -> list[list[RelaxStep]]:
    """The members, by index, in connected convex groups (see `convex`)."""
    sources = [
        [graph.writer[var].index for var in step.reads if var in graph.writer]
        for step in graph.steps
    ]
    return [[graph.steps[i] for i in group] for group in convex_groups(sources, members)]


class RegionWriter:
    """Writes the steps of one region as a `QGraph`.

    Args:
        graph: of all steps.
        forms: see `forms_of_rank_4`.
        name_of: the name of the tensor in an int8 variable.
        label_of: the name of a step's operator.
        turns: channels and pixels are exchanged where that is all that is wrong.
        why_not: judges dense layers whose kernel is a whole image.
    """

    def __init__(
        self,
        graph: StepGraph,
        forms: Mapping[Var, Form],
        name_of: Callable[[Var], str],
        label_of: Callable[[RelaxStep], str],
        *,
        turns: bool,
        why_not: WhyNot | None,
    ) -> None:
        self._turns = turns
        self._why_not = why_not
        self._graph = graph
        self._forms = forms
        self._name_of = name_of
        self._label_of = label_of

    def write(self, name: str, steps: Sequence[RelaxStep]) -> RelaxRegion | None:
        """The region of some steps, without the moves at its border; ``None``: only moves."""
        kept = self._without_border_moves(steps)
        if not kept:
            return None
        inside = {step.var for step in kept}
        page = _Page(self._name_of, turns=self._turns, why_not=self._why_not)
        inputs: list[Var] = []
        for step in kept:
            unit = step.unit
            assert unit is not None
            for var, tensor in zip(unit.data, unit.inputs, strict=True):
                if var in inside or var in page.lies:
                    continue
                if is_constant(var):
                    page.hold(var, tensor, self._constant_layout(step, var, tensor, page))
                else:
                    inputs.append(var)
                    page.enter(var, tensor, self._layout(step, var, tensor))
            try:
                page.add(step, unit, self._label_of(step))
            except Refusal as refusal:
                raise Misfit(step, str(refusal)) from refusal
        if not inputs:
            raise Misfit(kept[0], "all that its region would read is constant")
        outputs = [step for step in kept if self._leaves(step, inside)]
        results = [self._leaving(step, page) for step in outputs]
        return RelaxRegion(
            steps=tuple(kept),
            graph=page.graph(name, inputs, results, self._any_strides(outputs, results, inside)),
            operators=page.of_step,
            inputs=tuple(inputs),
            outputs=tuple(step.var for step in outputs),
        )

    def _layout(self, step: RelaxStep, var: Var, tensor: QuantisedTensor) -> TensorLayout:
        layout = layouts.natural(tensor.shape, self._forms.get(var, layouts.image))
        if layout is None:
            raise Misfit(step, f"a tensor of it has {len(tensor.shape)} axes {tensor.shape}")
        return layout

    def _constant_layout(
        self, step: RelaxStep, var: Var, tensor: QuantisedTensor, page: _Page
    ) -> TensorLayout:
        """As the other input lies of what works element by element; otherwise as inputs do."""
        assert step.unit is not None
        others = [page.lies[other][1] for other in step.unit.data if other in page.lies]
        if step.unit.elementwise and others:
            return others[0]
        return self._layout(step, var, tensor)

    def _without_border_moves(self, steps: Sequence[RelaxStep]) -> list[RelaxStep]:
        """Without moves that do not lie between two units of the region."""
        kept = {step.var: step for step in steps}
        changed = True
        while changed:
            changed = False
            for var, step in list(kept.items()):
                assert step.unit is not None
                if step.unit.moves_only and not (
                    step.unit.data[0] in kept
                    and any(reader.var in kept for reader in self._graph.readers.get(var, ()))
                ):
                    del kept[var]
                    changed = True
        return list(kept.values())

    def _leaves(self, step: RelaxStep, inside: set[Var]) -> bool:
        """Whether something outside reads a unit's result, also through moves of the region."""
        if step.unit is None or step.unit.moves_only:
            return False
        return self._is_read_outside(step.var, inside)

    def _is_read_outside(self, var: Var, inside: set[Var]) -> bool:
        readers = self._graph.readers.get(var, [])
        if var in variables_of(self._graph.result):
            return True
        return any(
            reader.var not in inside or self._is_moved_outside(reader, inside) for reader in readers
        )

    def _any_strides(
        self, outputs: Sequence[RelaxStep], results: Sequence[str], inside: set[Var]
    ) -> frozenset[str]:
        """Results that nothing outside reads but the caller, and what dequantises them for it."""
        others = {
            result
            for step, result in zip(outputs, results, strict=True)
            if not self._goes_to_caller(step.var, inside)
        }
        return frozenset(results) - others

    def _goes_to_caller(self, var: Var, inside: set[Var]) -> bool:
        """Whether nothing outside computes with a variable: it is dequantised at most."""
        for reader in self._graph.readers.get(var, ()):
            if reader.var in inside:
                goes = not self._is_moved_outside(reader, inside)
            else:
                names = isinstance(reader.value, relax.Var | relax.Tuple)
                goes = names or operator_name(reader.value) == "relax.dequantize"
                goes = goes and self._goes_to_caller(reader.var, inside)
            if not goes:
                return False
        return True

    def _is_moved_outside(self, step: RelaxStep, inside: set[Var]) -> bool:
        """Whether something outside reads what a move of the region makes of its data."""
        moves = step.unit is not None and step.unit.moves_only
        return moves and self._is_read_outside(step.var, inside)

    def _leaving(self, step: RelaxStep, page: _Page) -> str:
        """The tensor that holds a unit's result as it leaves the region."""
        assert step.unit is not None
        shape = step.unit.output.shape
        name, layout = page.lies[step.var]
        forms = (layouts.image, layouts.heads, layouts.sequence)
        wanted = [layouts.natural(shape, form) for form in forms]
        same_order = [want for want in wanted if want is not None and want.order == layout.order]
        flat = bool(same_order) and len(shape) == 2
        if layout in same_order or flat or _is_pixels(layout, shape):
            return name
        apart = [want for want in same_order if want.shape[:2] == layout.shape[:2]]
        if not apart:
            raise Misfit(step, "its result lies in an order that cannot leave the accelerator")
        return page.reshaped(name, layout, apart[0], shape)


def _is_pixels(layout: TensorLayout, shape: Sequence[int]) -> bool:
    """Whether a tensor leaves as (B, C, P): `from_normal_form` cannot take it for a sequence."""
    if len(shape) != MAX_RANK - 1 or layout.order != layouts.pixels(shape, 1).order:
        return False
    apart = layout.shape[3] > 1 or layout.shape[1] != layout.shape[2]
    return layout.shape[:2] == tuple(shape[:2]) and apart


class _Page:
    """A `QGraph` under construction."""

    def __init__(
        self, name_of: Callable[[Var], str], *, turns: bool, why_not: WhyNot | None
    ) -> None:
        self._name_of = name_of
        self._turns = turns
        self._why_not = why_not
        self._tensors: dict[str, QTensor] = {}
        self._operators: list[QOperator] = []
        self._labels: set[str] = set()
        self._model_shapes: dict[str, tuple[int, ...]] = {}
        self._constants: dict[str, npt.NDArray[np.int8]] = {}
        self._shuffles: dict[tuple[str, tuple[int, ...]], str] = {}
        self._gathers: dict[tuple[str, tuple[int, ...]], str] = {}
        self._turned: dict[str, str] = {}
        self._images: dict[str, str] = {}
        """By flattened tensor, the image that it is."""
        self.lies: dict[Var, tuple[str, TensorLayout]] = {}
        self.of_step: dict[int, QOperator] = {}

    def enter(self, var: Var, tensor: QuantisedTensor, layout: TensorLayout) -> None:
        """Make a variable known."""
        self._enter(self._name_of(var), var, tensor, layout)

    def _enter(self, stem: str, var: Expr, tensor: QuantisedTensor, layout: TensorLayout) -> None:
        name = _fresh(stem, self._tensors)
        self._tensors[name] = QTensor(
            name=name, shape=layout.shape, scale=tensor.scale, zero_point=tensor.zero_point
        )
        self._model_shapes[name] = tensor.shape
        self.lies[var] = (name, layout)

    def hold(self, var: Expr, tensor: QuantisedTensor, layout: TensorLayout) -> None:
        """Make a constant known."""
        self._enter("constant", var, tensor, layout)
        self._constants[self.lies[var][0]] = layouts.in_normal_form(constant(var), layout)

    def add(self, step: RelaxStep, unit: OffloadUnit, label: str) -> None:
        """Append a unit; a move only makes its result known under the same tensor."""
        if unit.moves_only:
            name, layout = self.lies[unit.data[0]]
            order: layouts.Order | None = layout.order
            if unit.axes:
                order = layouts.permuted(layout.order, unit.inputs[0].shape, unit.axes)
            if order is None:
                raise Refusal("it moves parts of axes that lie apart")
            self.lies[step.var] = (name, replace(layout, order=order))
            return
        operator, needed, output = placed(unit, [self.lies[var][1] for var in unit.data])
        dense = is_dense(operator)
        sources = tuple(
            self.reshaped(*self.lies[var], want, tensor.shape, flattens=dense)
            for var, want, tensor in zip(unit.data, needed, unit.inputs, strict=True)
        )
        self.enter(step.var, unit.output, output)
        written = self._append(operator, label, sources, self.lies[step.var][0])
        self.of_step[step.index] = written
        if isinstance(written, QConv) and dense and sources[0] in self._images:
            self._require_kernel(written, self._tensors[self._images[sources[0]]])

    def _require_kernel(self, dense: QConv, image: QTensor) -> None:
        """Refuse a dense layer on a flattened image that is too large to be its kernel."""
        whole = with_image_as_kernel(dense, image)
        tensors = (image, self._tensors[dense.output])
        lacks = None if self._why_not is None else self._why_not(whole, tensors)
        if lacks is not None:
            size = " x ".join(map(str, image.shape[2:]))
            raise Refusal(f"a dense layer on the flattened image has a kernel of {size}: {lacks}")

    def _append(
        self, operator: QOperator, label: str, inputs: tuple[str, ...], output: str
    ) -> QOperator:
        name = _fresh(label, self._labels)
        self._labels.add(name)
        self._operators.append(replace(operator, name=name, inputs=inputs, output=output))
        return self._operators[-1]

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
        if layout.order != needed.order and layouts.is_turned(layout, needed):
            name, layout = self._exchanged(name, layout, needed, model_shape)
        if layout.order != needed.order and layouts.channels_of(layout, needed) is None:
            name, layout = self._gathered(name, layout, needed, model_shape)
        if layout.order != needed.order:
            name = self._shuffled(name, layout, needed, model_shape)
        if layout.shape == needed.shape:
            return name
        whole = needed.shape == (layout.shape[0], prod(layout.shape[1:]), 1, 1)
        if layout.shape[:2] != needed.shape[:2] and not (flattens and whole):
            raise Refusal(
                "a change of shape in front of it makes pixels channels, or channels pixels"
            )
        stem = f"{name}_{'x'.join(str(size) for size in needed.shape)}"
        if stem not in self._tensors:
            self._tensors[stem] = replace(self._tensors[name], name=stem, shape=needed.shape)
            self._model_shapes[stem] = model_shape
            self._append(QReshape(name="", inputs=(), output=""), stem, (name,), stem)
            if flattens and whole:
                self._images[stem] = name
        return stem

    def _exchanged(
        self, name: str, layout: TensorLayout, needed: TensorLayout, model_shape: tuple[int, ...]
    ) -> tuple[str, TensorLayout]:
        """The tensor whose channels are another's pixels, and whose pixels its channels."""
        if not self._turns:
            raise Refusal("its data lie in an order that it does not take")
        shape = (1, needed.shape[1], layout.shape[1], 1)
        if name not in self._turned:
            stem = _fresh(f"{name}_turned", self._tensors)
            self._tensors[stem] = replace(self._tensors[name], name=stem, shape=shape)
            self._model_shapes[stem] = model_shape
            self._append(QTurn(name="", inputs=(), output=""), stem, (name,), stem)
            self._turned[name] = stem
        return self._turned[name], TensorLayout(shape=shape, order=needed.order)

    def _gathered(
        self, name: str, layout: TensorLayout, needed: TensorLayout, model_shape: tuple[int, ...]
    ) -> tuple[str, TensorLayout]:
        """The tensor that holds another's pixels in another order: rows as its first reader's."""
        pixels = layouts.pixels_of(layout, needed)
        assert pixels is not None
        known = (name, pixels)
        if known not in self._gathers:
            stem = _fresh(f"{name}_moved", self._tensors)
            self._tensors[stem] = replace(self._tensors[name], name=stem, shape=needed.shape)
            self._model_shapes[stem] = model_shape
            operator = QGather(name="", inputs=(), output="", pixels=np.array(pixels))
            self._append(operator, stem, (name,), stem)
            self._gathers[known] = stem
        stem = self._gathers[known]
        return stem, TensorLayout(shape=self._tensors[stem].shape, order=needed.order)

    def _shuffled(
        self, name: str, layout: TensorLayout, needed: TensorLayout, model_shape: tuple[int, ...]
    ) -> str:
        """The tensor that holds another's channels in another order, in its shape."""
        channels = layouts.channels_of(layout, needed)
        assert channels is not None
        known = (name, channels)
        if known not in self._shuffles:
            stem = _fresh(f"{name}_shuffled", self._tensors)
            self._tensors[stem] = replace(self._tensors[name], name=stem)
            self._model_shapes[stem] = model_shape
            self._append(QSelect(name="", inputs=(), output="", channels=channels), stem, (name,),
                         stem)  # fmt: skip
            self._shuffles[known] = stem
        return self._shuffles[known]

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
            tensors=self._tensors,
            operators=tuple(self._operators),
            inputs=arguments,
            outputs=tuple(results),
            model_shapes={
                tensor: self._model_shapes[tensor]
                for tensor in (*arguments, *results)
                if self._model_shapes[tensor] != self._tensors[tensor].shape
            },
            any_strides=any_strides,
            constants=self._constants,
        )


def _fresh(stem: str, taken: Iterable[str]) -> str:
    known = set(taken)
    name, index = stem, 1
    while name in known:
        index += 1
        name = f"{stem}.{index}"
    return name
