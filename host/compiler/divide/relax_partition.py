# SPDX-License-Identifier: Apache-2.0
"""Divides a network between accelerator and CPU."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import tvm

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.divide.placement import (
    Choose,
    CpuNode,
    OffloadCandidate,
    OffloadGraph,
    OperatorPlacement,
    TensorEdge,
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
    attention_tensors,
    groups_of,
)
from tilewright.host.compiler.divide.relax_writer import write_host
from tilewright.host.compiler.lower.qgraph import QConv, QMatmul, QOperator, QTensor

Var = Any

TAKEN_KINDS: Final = frozenset(
    {"Add", "AveragePool", "Clip", "Concat", "Conv", "ConvTranspose", "Flatten", "Gemm",
     "GlobalAveragePool", "GlobalMaxPool", "MatMul", "MaxPool", "ReduceMax", "ReduceMean", "Relu",
     "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
)  # fmt: skip
"""Operators of ONNX that the accelerator takes between int8 tensors."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Division:
    """A divided network.

    Attributes:
        regions: in the order of their numbers.
        host: the rest, which calls them.
        placements: of the model's operators, in the model's order.
    """

    regions: tuple[RelaxRegion, ...]
    host: tvm.IRModule
    placements: tuple[OperatorPlacement, ...]


def divide(model: RelaxModel, choose: Choose | None = None) -> Division:
    """Put what the accelerator takes into regions.

    Args:
        model: of a canonical QDQ model.
        choose: which candidates to take; all if it is None.

    Raises:
        WorkloadError: the module has control flow, or ``choose`` names an unknown candidate.
    """
    divider = _Divider(model)
    divider.settle()
    if choose is not None:
        divider.restrict(choose(divider.offload_graph()))
        divider.settle()
    return divider.division()


class _Divider:
    def __init__(self, model: RelaxModel) -> None:
        self._model = model
        self._graph = read_steps(model)
        self._reasons = dict(self._graph.refusals)
        self._writer = RegionWriter(
            self._graph, attention_tensors(self._graph), self._name_of, self._label_of
        )
        self._members = {step.index for step in self._graph.steps if step.unit is not None}
        self._regions: list[RelaxRegion] = []

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

    def restrict(self, chosen: Collection[int]) -> None:
        """Leave all candidates but the chosen ones to the CPU.

        Raises:
            WorkloadError: one of them is no candidate.
        """
        unknown = sorted(set(chosen) - self._members)
        if unknown:
            raise WorkloadError(
                "must be ids of candidates",
                field="choose",
                value=unknown[:8],
                remedy=f"candidates are {sorted(self._members)[:24]}",
            )
        for index in self._members - set(chosen):
            for operator in self._graph.steps[index].operators:
                self._reasons[operator] = "it is left to the CPU by choice"
        self._members = set(chosen)

    def offload_graph(self) -> OffloadGraph:
        """What can go to the accelerator, and what is around it."""
        placed = {index: region for region in self._regions for index in region.operators}
        return OffloadGraph(
            candidates=tuple(
                _candidate(self._graph.steps[index], placed.get(index))
                for index in sorted(self._members)
            ),
            cpu_nodes=tuple(
                _cpu_node(step) for step in self._graph.steps if step.index not in self._members
            ),
            edges=tuple(self._edges()),
        )

    def _edges(self) -> Iterator[TensorEdge]:
        results = set(variables_of(self._graph.result))
        variables = dict.fromkeys([*self._graph.readers, *(step.var for step in self._graph.steps)])
        for var in variables:
            writer = self._graph.writer.get(var)
            yield TensorEdge(
                source=writer.index if writer is not None else None,
                readers=tuple(step.index for step in self._graph.readers.get(var, ())),
                leaves=var in results,
                bytes=_bytes(var),
            )

    def division(self) -> Division:
        """The result, as it stands."""
        with BUILDING:
            host = write_host(self._model.module, self._graph, self._regions)
        return Division(
            regions=tuple(self._regions), host=host, placements=tuple(self._placements())
        )

    def _placements(self) -> Iterator[OperatorPlacement]:
        placed: dict[int, OperatorPlacement] = {}
        region_of = {
            step.index: number
            for number, region in enumerate(self._regions)
            for step in region.steps
        }
        for step in self._graph.steps:
            for index in step.operators:
                placed[index] = self._placement(index, step, region_of.get(step.index))
        for index in sorted(placed):
            yield placed[index]

    def _placement(self, index: int, step: RelaxStep, region: int | None) -> OperatorPlacement:
        operator = self._model.operators[index]
        candidate = step.index if step.unit is not None else None
        if region is not None:
            return OperatorPlacement(
                name=operator.name,
                kind=operator.kind,
                place="accelerator",
                region=region,
                candidate=candidate,
            )
        reason = self._reasons.get(index)
        if reason is None and step.unit is not None:
            reason = "it only moves data at the border of a region"
        if reason is None:
            reason = (
                "it is not between int8 tensors, or not in a form that the accelerator takes"
                if operator.kind in TAKEN_KINDS
                else "it is no operator of the accelerator"
            )
        return OperatorPlacement(
            name=operator.name,
            kind=operator.kind,
            place="cpu",
            candidate=candidate,
            reason=reason,
        )

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


def _candidate(step: RelaxStep, region: RelaxRegion | None) -> OffloadCandidate:
    """Of a unit in a region, or of a move of data."""
    unit = step.unit
    assert unit is not None
    operator = region.operators[step.index] if region is not None else None
    tensors = region.graph.tensors if region is not None else {}
    inputs = tuple(tensors[name] for name in operator.inputs) if operator is not None else ()
    output = tensors[operator.output] if operator is not None else None
    return OffloadCandidate(
        id=step.index,
        operator=operator,
        inputs=inputs,
        output=output,
        macs=_macs(operator, inputs, output) if operator is not None and output is not None else 0,
        bytes_in=sum(prod(tensor.shape) for tensor in unit.inputs),
        bytes_out=prod(unit.output.shape),
    )


def _macs(operator: QOperator, inputs: Sequence[QTensor], output: QTensor) -> int:
    if isinstance(operator, QConv):
        pixels = inputs[0].shape if operator.transposed else output.shape
        return pixels[0] * pixels[2] * pixels[3] * operator.weights.size
    if isinstance(operator, QMatmul):
        return prod(output.shape) * inputs[0].shape[1] // operator.heads
    return 0


def _cpu_node(step: RelaxStep) -> CpuNode:
    kind = operator_name(step.value).removeprefix("relax.") or type(step.value).__name__
    return CpuNode(id=step.index, kind=kind)


def _bytes(expr: Var) -> int:
    """The size of a tensor; 0 for anything else."""
    shape, dtype = shape_of(expr), dtype_of(expr)
    if shape is None or not dtype:
        return 0
    bits = "".join(c for c in dtype if c.isdecimal())
    return prod(shape) * (max(int(bits), 8) // 8 if bits else 1)
