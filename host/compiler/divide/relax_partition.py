# SPDX-License-Identifier: Apache-2.0
"""Divides a network between accelerator and CPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import tvm

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.divide.placement import (
    CpuNode,
    Leave,
    OffloadCandidate,
    OffloadGraph,
    OperatorPlacement,
    Price,
    TensorEdge,
    WhyNot,
    Work,
)
from tilewright.host.compiler.divide.relax_calls import (
    BUILDING,
    dtype_of,
    operator_name,
    shape_of,
    variables_of,
)
from tilewright.host.compiler.divide.relax_graph import RelaxStep, read_steps
from tilewright.host.compiler.divide.relax_import import RelaxModel, operator_index
from tilewright.host.compiler.divide.relax_regions import (
    Misfit,
    RegionWriter,
    RelaxRegion,
    forms_of_rank_4,
    groups_of,
)
from tilewright.host.compiler.divide.relax_work import bytes_of, operator_work
from tilewright.host.compiler.divide.relax_writer import write_host
from tilewright.host.network.operators import CONVERSIONS, OPERATORS

Var = Any


@dataclass(frozen=True, kw_only=True, eq=False)
class Division:
    """A divided network."""

    regions: tuple[RelaxRegion, ...]  # in the order of their numbers
    host: tvm.IRModule  # the rest, which calls them
    placements: tuple[OperatorPlacement, ...]  # of the model's operators, in the model's order
    conversions: Work  # between int8 and float, on the CPU


def divide(
    model: RelaxModel,
    leave: Leave | None = None,
    *alternatives: Leave,
    tables: bool = False,
    rows: bool = False,
    turns: bool = False,
    why_not: WhyNot | None = None,
    price: Price | None = None,
) -> list[Division]:
    """Put what the accelerator takes into regions.

    Args:
        model: the network.
        leave: what stays on the CPU in any case, as regions stand; None: nothing.
        alternatives: what stays on the CPU besides.
        tables: the accelerator has an activation table.
        rows: it has a row unit.
        turns: channels and pixels are exchanged where that is all that is wrong.
        why_not: judges operators that are composed of others.
        price: compares ways to lay a product.

    Returns:
        One for no alternative, one for each that leaves something else than those before it, and
        one that leaves nothing and lays products otherwise, if their prices do not decide that.
    """
    divider = _Divider(model, tables=tables, rows=rows, turns=turns, why_not=why_not, price=price)
    divider.settle()
    divider.leave_refused(leave)
    found = [divider.division()]
    if divider.is_undecided:
        whole = divider.state()
        divider.lay_heads_apart()
        same = divider.state()[0] == whole[0]
        if same and (leave is None or not leave(divider.offload_graph())):
            found.append(divider.division())
        divider.restore(whole)
    if alternatives:
        graph, whole, known = divider.offload_graph(), divider.state(), [set[int]()]
        for reasons in (each(graph) for each in alternatives):
            if set(reasons) not in known:
                known.append(set(reasons))
                divider.restore(whole)
                divider.leave(reasons)
                divider.leave_refused(leave)  # what lies otherwise now
                found.append(divider.division())
    return found


_State = tuple[set[int], dict[int, str], list[RelaxRegion]]


class _Divider:
    def __init__(
        self,
        model: RelaxModel,
        *,
        tables: bool,
        rows: bool,
        turns: bool,
        why_not: WhyNot | None,
        price: Price | None,
    ) -> None:
        self._model = model
        self._tables, self._rows = tables, rows
        self._graph = read_steps(model, tables=tables, rows=rows)
        self._reasons = dict(self._graph.refusals)
        forms = forms_of_rank_4(self._graph)
        self._writers = [
            RegionWriter(
                self._graph,
                forms,
                self._name_of,
                self._label_of,
                turns=turns,
                why_not=why_not,
                price=price,
                apart=apart,
            )
            for apart in (False, True)
        ]
        self._writer = self._writers[0]
        self._members = {step.index for step in self._graph.steps if step.unit is not None}
        self._regions: list[RelaxRegion] = []
        self._work = operator_work(model)

    def settle(self) -> None:
        """Form regions; steps that do not fit to their neighbours leave until all fit."""
        while True:
            groups = groups_of(self._graph, self._members)
            try:
                written = [
                    self._writer.write(f"region{number}", group)
                    for number, group in enumerate(groups)
                ]
            except Misfit as misfit:
                self._separate(misfit)
                continue
            self._regions = [region for region in written if region is not None]
            return

    def _separate(self, misfit: Misfit) -> None:
        """Cut off the moves in front of a step, or, if there are none, the step."""
        unit = misfit.step.unit
        assert unit is not None
        sources = [self._graph.writer.get(var) for var in unit.data]
        moves = [
            step
            for step in sources
            if step is not None
            and step.index in self._members
            and step.unit is not None
            and step.unit.moves_only
        ]
        for step in moves or [misfit.step]:
            self._members.discard(step.index)
            for operator in step.operators:
                self._reasons[operator] = misfit.reason

    @property
    def is_undecided(self) -> bool:
        """Whether heads of a product might better count as windows: prices alone do not tell."""
        return self._writer.cheaper_apart

    def lay_heads_apart(self) -> None:
        """Let heads count as windows where that is cheaper alone."""
        self._writer = self._writers[True]
        self.settle()

    def state(self) -> _State:
        """What `restore` goes back to: members, why others are none, and their regions."""
        return set(self._members), dict(self._reasons), list(self._regions)

    def restore(self, state: _State) -> None:
        """As it was, with heads that count as heads."""
        members, reasons, regions = state
        self._members, self._reasons, self._regions = set(members), dict(reasons), list(regions)
        self._writer = self._writers[False]

    def leave_refused(self, leave: Leave | None) -> None:
        """Leave candidates to the CPU until no more have to."""
        while leave is not None and (reasons := leave(self.offload_graph())):
            self.leave(reasons)

    def leave(self, reasons: Mapping[int, str]) -> None:
        """Leave candidates to the CPU."""
        candidates = {step.index for step in self._graph.steps if step.unit is not None}
        if unknown := sorted(set(reasons) - candidates):
            raise WorkloadError(
                "must be ids of candidates",
                field="leave",
                value=unknown[:8],
                remedy=f"candidates are {sorted(self._members)[:24]}",
            )
        for index, reason in reasons.items():
            for operator in self._graph.steps[index].operators:
                self._reasons[operator] = reason
        self._members -= set(reasons)
        self.settle()

    def offload_graph(self) -> OffloadGraph:
        """What can go to the accelerator, and what is around it."""
        placed = {
            index: number
            for number, region in enumerate(self._regions)
            for index in region.operators
        }
        return OffloadGraph(
            candidates=tuple(
                self._candidate(self._graph.steps[index], placed.get(index))
                for index in sorted(self._members)
            ),
            cpu_nodes=tuple(
                _cpu_node(step) for step in self._graph.steps if step.index not in self._members
            ),
            edges=tuple(self._edges()),
            regions=tuple(region.graph for region in self._regions),
        )

    def _candidate(self, step: RelaxStep, number: int | None) -> OffloadCandidate:
        """Of a unit in a region, or of a move of data."""
        region = self._regions[number] if number is not None else None
        operator = region.operators[step.index] if region is not None else None
        tensors = region.graph.tensors if region is not None else {}
        work = Work()
        moves = region.moves.get(step.index, ()) if region is not None else ()
        if operator is not None or (step.unit is not None and not step.unit.moves_only):
            for index in self._indices(step):
                work += self._work[index]
        return OffloadCandidate(
            id=step.index,
            region=number,
            operator=operator,
            inputs=tuple(tensors[name] for name in operator.inputs) if operator is not None else (),
            output=tensors[operator.output] if operator is not None else None,
            work=work,
            moves=tuple(
                (move, tuple(tensors[name] for name in (*move.inputs, move.output)))
                for move in moves
            ),
        )

    @staticmethod
    def _indices(step: RelaxStep) -> Iterator[int]:
        """The model's operators in a step, those that quantise and dequantise among them."""
        for var, _ in (*step.interior, (step.var, step.value)):
            index = operator_index(var.name)
            if index is not None:
                yield index

    def _edges(self) -> Iterator[TensorEdge]:
        results = set(variables_of(self._graph.result))
        variables = dict.fromkeys([*self._graph.readers, *(step.var for step in self._graph.steps)])
        for var in variables:
            writer = self._graph.writer.get(var)
            yield TensorEdge(
                source=writer.index if writer is not None else None,
                readers=tuple(step.index for step in self._graph.readers.get(var, ())),
                leaves=var in results,
                bytes=bytes_of(var),
            )

    def division(self) -> Division:
        """The result, as it stands."""
        with BUILDING:
            host = write_host(self._model.module, self._graph, self._regions)
        return Division(
            regions=tuple(self._regions),
            host=host,
            placements=tuple(self._placements()),
            conversions=self._conversions(),
        )

    def _conversions(self) -> Work:
        """The quantisations and dequantisations of steps that are in no region."""
        inside = {step.index for region in self._regions for step in region.steps}
        found = Work()
        for step in self._graph.steps:
            if step.index in inside:
                continue
            for index in self._indices(step):
                if self._model.operators[index].kind in CONVERSIONS:
                    found += self._work[index]
        return found

    def _placements(self) -> Iterator[OperatorPlacement]:
        placed: dict[int, OperatorPlacement] = {}
        region_of = {
            step.index: number
            for number, region in enumerate(self._regions)
            for step in region.steps
        }
        for step in self._graph.steps:
            region = region_of.get(step.index)
            crossing = self._crossing_bytes(step, region_of) if region is None else 0
            for index in step.operators:
                placed[index] = self._placement(index, step, region, crossing)
        for index in sorted(placed):
            yield placed[index]

    def _crossing_bytes(self, step: RelaxStep, region_of: Mapping[int, int]) -> int:
        """The int8 tensors that leave a region for a step of the CPU, or enter one from it.

        A tensor may be quantised or dequantised in between.
        """
        found: dict[Var, int] = {}
        behind, ahead = list(step.reads), [step.var]
        while behind:
            var = behind.pop()
            writer = self._graph.writer.get(var)
            if writer is None:
                continue
            if writer.index in region_of:
                found[var] = bytes_of(var)
            elif not writer.operators:
                behind += writer.reads
        while ahead:
            var = ahead.pop()
            for reader in self._graph.readers.get(var, ()):
                if reader.index in region_of:
                    found[var] = bytes_of(var)
                elif not reader.operators:
                    ahead.append(reader.var)
        return sum(found.values())

    def _placement(
        self, index: int, step: RelaxStep, region: int | None, crossing_bytes: int
    ) -> OperatorPlacement:
        operator = self._model.operators[index]
        candidate = step.index if step.unit is not None else None
        if region is not None:
            return OperatorPlacement(
                name=operator.name,
                kind=operator.kind,
                place="accelerator",
                region=region,
                candidate=candidate,
                work=self._work[index],
            )
        reason = self._reasons.get(index)
        if reason is None and step.unit is not None:
            reason = "it only moves data at the border of a region"
        if reason is None and index in self._model.parts:
            reason = "ONNX Runtime computes it: it is no operator of the accelerator, nor of TVM"
        if reason is None:
            reason = self._why_not_taken(operator.kind, step)
        return OperatorPlacement(
            name=operator.name,
            kind=operator.kind,
            place="cpu",
            candidate=candidate,
            reason=reason,
            work=self._work[index],
            crossing_bytes=crossing_bytes,
        )

    def _why_not_taken(self, kind: str, step: RelaxStep) -> str:
        unit = OPERATORS[kind].unit if kind in OPERATORS else ""
        if not unit:
            return "it is no operator of the accelerator"
        for needed, option, has in (
            ("row", "row_unit", self._rows),
            ("table", "activation_table", self._tables),
        ):
            if unit == needed and not has:
                return f"it needs {option}: 1, which pynq-16x16-rows has"
        return (
            "it is not of a form that the accelerator takes between int8 tensors: "
            f"{self._read_by(step)}"
        )

    def _read_by(self, step: RelaxStep) -> str:
        """What an operator whose last step is on the CPU reads, with type and sizes."""
        read, waiting = [], list(step.reads)[::-1]
        while waiting:
            writer = self._graph.writer.get(var := waiting.pop())
            if writer is None or writer.operators:
                read.append(f"{dtype_of(var)} {shape_of(var) or '(?)'}")
            else:
                waiting += list(writer.reads)[::-1]
        return f"it reads {', '.join(read)}" if read else "it reads constants"

    def _name_of(self, var: Var) -> str:
        """The model's name of the tensor in an int8 variable."""
        step = self._graph.writer.get(var)
        if step is not None and step.operators:
            return self._model.operators[step.operators[-1]].output
        index = operator_index(var.name)
        return self._model.operators[index].output if index is not None else str(var.name)

    def _label_of(self, step: RelaxStep) -> str:
        """The name of the model's operator that a unit is about: the first in it."""
        if step.operators:
            return self._model.operators[step.operators[0]].name
        return str(step.var.name)


def _cpu_node(step: RelaxStep) -> CpuNode:
    kind = operator_name(step.value).removeprefix("relax.") or type(step.value).__name__
    return CpuNode(id=step.index, kind=kind)
