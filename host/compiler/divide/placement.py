# SPDX-License-Identifier: Apache-2.0
"""Where the operators of a network can run, and where they do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tilewright.host.compiler.lower.qgraph import QGraph, QOperator, QTensor

WhyNot = Callable[[QOperator, Sequence[QTensor]], str | None]
"""Why the accelerator does not run an operator with these tensors, behind others; None: it does."""


Price = Callable[[QOperator, Sequence[QTensor]], float]
"""Seconds that an operator with these tensors takes on the accelerator; infinite: it cannot."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """What an operation has to do wherever it runs.

    Attributes:
        bytes: of the activations that it reads and writes, in the element types of the CPU's part.
    """

    macs: int = 0  # multiplications of products and convolutions
    bytes: int = 0

    def __add__(self, other: Work) -> Work:
        """Both."""
        return Work(macs=self.macs + other.macs, bytes=self.bytes + other.bytes)


@dataclass(frozen=True, kw_only=True)
class OperatorPlacement:
    """Where an operator of the model runs.

    Attributes:
        name, kind: of the operator in the (quantised) model.
        crossing_bytes: of int8 tensors that leave or enter a region because it stays on the CPU;
            a tensor counts for each operator that it stays behind for.
    """

    name: str
    kind: str
    place: Literal["accelerator", "cpu"]  # the accelerator or the CPU
    region: int | None = None  # its number, on the accelerator
    candidate: int | None = None  # id of the `OffloadCandidate` that it is part of
    reason: str = ""  # why it stays on the CPU
    work: Work = Work()  # what it has to do
    crossing_bytes: int = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class OffloadCandidate:
    """A unit that the accelerator can take.

    Attributes:
        operator: as it stands when all candidates are taken; None: it only gives the same
            elements another shape or order, which is free inside a region.
        inputs, output: the operator's tensors.
        work: what it has to do on the CPU, with its conversions between int8 and float; a change
            of shape or order has none.
        moves: operators beside it with their inputs and outputs: they bring its data to where it
            takes them, or compute parts of it.
    """

    id: int  # names it for `Leave`; ids grow in topological order
    region: int | None  # its number in the graph's regions; None: it moves data at a border
    operator: QOperator | None
    inputs: tuple[QTensor, ...]
    output: QTensor | None
    work: Work
    moves: tuple[tuple[QOperator, tuple[QTensor, ...]], ...] = ()


@dataclass(frozen=True, kw_only=True)
class CpuNode:
    """An operation that runs on the CPU in any case."""

    id: int  # from the same numbers as those of candidates
    kind: str  # the Relax operator


@dataclass(frozen=True, kw_only=True)
class TensorEdge:
    """A tensor between operations."""

    source: int | None  # id of its writer; None: an input of the network
    readers: tuple[int, ...]  # ids
    leaves: bool  # whether it is an output of the network
    bytes: int  # its size


@dataclass(frozen=True, kw_only=True, eq=False)
class OffloadGraph:
    """All operations of a network and the tensors between them."""

    candidates: tuple[OffloadCandidate, ...]
    cpu_nodes: tuple[CpuNode, ...]
    edges: tuple[TensorEdge, ...]
    regions: tuple[QGraph, ...]  # if all candidates are taken


Leave = Callable[[OffloadGraph], Mapping[int, str]]
"""Returns the candidates that stay on the CPU, by id, and why."""
