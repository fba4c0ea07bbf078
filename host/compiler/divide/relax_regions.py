# SPDX-License-Identifier: Apache-2.0
"""Regions: the largest convex sets of units, each written down as a `QGraph`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tvm import relax

from tilewright.host.compiler.divide import tensor_layouts as layouts
from tilewright.host.compiler.divide.offload import convex_groups
from tilewright.host.compiler.divide.placement import Price, WhyNot
from tilewright.host.compiler.divide.region_page import Form, PageRules, RegionPage
from tilewright.host.compiler.divide.relax_calls import (
    MAX_RANK,
    Refusal,
    is_constant,
    operator_name,
    variables_of,
)
from tilewright.host.compiler.divide.relax_graph import RelaxStep, StepGraph
from tilewright.host.compiler.divide.relax_units import GENERAL
from tilewright.host.compiler.divide.tensor_layouts import TensorLayout
from tilewright.host.compiler.lower.own_call import QuantisedTensor
from tilewright.host.compiler.lower.qgraph import QGraph, QOperator

Var = Any


@dataclass(frozen=True, kw_only=True, eq=False)
class RelaxRegion:
    """Units that run on the accelerator in one go.

    Attributes:
        steps: the units, in order; moves of data among them only if they are free.
        operators: of the graph, by the index of the step that each stands for.
        moves: operators beside it, by the index of the step that needs them.
        inputs, outputs: int8 variables of the Relax function, as in the graph.
    """

    steps: tuple[RelaxStep, ...]
    graph: QGraph  # the same for the back end
    operators: Mapping[int, QOperator]
    moves: Mapping[int, tuple[QOperator, ...]]
    inputs: tuple[Var, ...]
    outputs: tuple[Var, ...]


class Misfit(Exception):  # noqa: N818  (control flow, not an error)
    """A step does not fit into a region with its neighbours."""

    def __init__(self, step: RelaxStep, reason: str) -> None:
        super().__init__(reason)
        self.step = step
        self.reason = reason


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
    """Writes the steps of one region as a `QGraph`; the same steps are written once.

    Args:
        graph: of all steps.
        forms: see `forms_of_rank_4`.
        name_of: the name of the tensor in an int8 variable.
        label_of: the name of a step's operator.
        turns: channels and pixels are exchanged where that is all that is wrong.
        why_not: judges dense layers whose kernel is a whole image.
        price: compares ways to lay a product.
        apart: see `PageRules`.

    Attributes:
        cheaper_apart: see `RegionPage`, of any region that was written.
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
        price: Price | None,
        apart: bool = False,
    ) -> None:
        self._rules = PageRules(
            name_of=name_of, forms=forms, turns=turns, why_not=why_not, price=price, apart=apart
        )
        self.cheaper_apart = False
        self._known: dict[tuple[int, ...], RelaxRegion | None] = {}
        self._graph = graph
        self._forms = forms
        self._label_of = label_of

    def write(self, name: str, steps: Sequence[RelaxStep]) -> RelaxRegion | None:
        """The region of some steps, without the moves at its border; ``None``: only moves."""
        key = tuple(step.index for step in steps)
        if key not in self._known:
            kept = self._without_border_moves(steps)
            self._known[key] = self._write(name, kept) if kept else None
        known = self._known[key]
        if known is None or known.graph.name == name:
            return known
        return replace(known, graph=replace(known.graph, name=name))

    def _write(self, name: str, kept: Sequence[RelaxStep]) -> RelaxRegion:
        inside = {step.var for step in kept}
        page = RegionPage(self._rules)
        inputs: list[Var] = []
        for step in kept:
            unit = step.unit
            assert unit is not None
            for var, tensor in zip(unit.data, unit.inputs, strict=True):
                if var in inside or page.knows(var):
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
        self.cheaper_apart |= page.cheaper_apart
        if not inputs:
            raise Misfit(kept[0], "all that its region would read is constant")
        outputs = [step for step in kept if self._leaves(step, inside)]
        results = [page.noting(step, self._leaving) for step in outputs]
        return RelaxRegion(
            steps=tuple(kept),
            graph=page.graph(name, inputs, results, self._any_strides(outputs, results, inside)),
            operators=page.of_step,
            moves=page.moves_of,
            inputs=tuple(inputs),
            outputs=tuple(step.var for step in outputs),
        )

    def _layout(self, step: RelaxStep, var: Var, tensor: QuantisedTensor) -> TensorLayout:
        layout = layouts.natural(tensor.shape, self._forms.get(var, layouts.image))
        if layout is None:
            raise Misfit(step, f"a tensor of it has {len(tensor.shape)} axes {tensor.shape}")
        return layout

    def _constant_layout(
        self, step: RelaxStep, var: Var, tensor: QuantisedTensor, page: RegionPage
    ) -> TensorLayout:
        """As the other input of what works element by element lies; matrices in windows."""
        assert step.unit is not None
        others = [page.lies[other][1] for other in step.unit.data if other in page.lies]
        if step.unit.elementwise and others:
            return others[0]
        if step.unit.kind == "product" and tensor.shape[0] > 1:
            return layouts.window_heads(tensor.shape)
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
        return [] if all(map(_only_moves, kept.values())) else list(kept.values())

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

    def _leaving(self, step: RelaxStep, page: RegionPage) -> str:
        """The tensor that holds a unit's result as it leaves the region."""
        assert step.unit is not None
        tensor = step.unit.output
        forms = (self._forms.get(step.var, layouts.image), layouts.image, layouts.heads,
                 layouts.sequence)  # fmt: skip
        wanted = [each for form in forms if (each := layouts.natural(tensor.shape, form))]
        if step.var in page.lies:
            name, layout = page.lies[step.var]
            same_order = [want for want in wanted if want.order == layout.order]
            flat = bool(same_order) and len(tensor.shape) == 2
            if layout in same_order or flat or _is_pixels(layout, tensor.shape):
                return name
            apart = [want for want in same_order if want.shape[:2] == layout.shape[:2]]
            if apart:
                return page.reshaped(name, layout, apart[0], tensor.shape)
        if len(tensor.shape) == MAX_RANK - 1:
            pixels = layouts.pixels(tensor.shape, 1)
            wanted += [pixels] if _is_pixels(pixels, tensor.shape) else []
        elif len(tensor.shape) == 2 and tensor.shape[0] > 1:
            wanted.append(layouts.tokens(tensor.shape))
        try:
            return page.leaving(step.var, tensor, wanted)
        except Refusal as refusal:
            raise Misfit(step, str(refusal)) from refusal


def _only_moves(step: RelaxStep) -> bool:
    """Whether a step moves data, in a way that is known or in any other."""
    unit = step.unit
    assert unit is not None
    moves = unit.kind == GENERAL and unit.general is not None and not unit.general.operator
    return moves or unit.moves_only


def _is_pixels(layout: TensorLayout, shape: Sequence[int]) -> bool:
    """Whether a tensor leaves as (B, C, P): `from_normal_form` cannot take it for a sequence."""
    if len(shape) != MAX_RANK - 1 or layout.order != layouts.pixels(shape, 1).order:
        return False
    apart = layout.shape[3] > 1 or layout.shape[1] != layout.shape[2]
    return layout.shape[:2] == tuple(shape[:2]) and apart
