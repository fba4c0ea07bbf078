# SPDX-License-Identifier: Apache-2.0
"""Where the operators of a network can run, and where they do."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal

from tilewright.host.compiler.lower.qgraph import QOperator, QTensor


@dataclass(frozen=True, kw_only=True)
class OperatorPlacement:
    """Where an operator of the model runs.

    Attributes:
        name, kind: of the operator in the (quantised) model.
        place: the accelerator or the CPU.
        region: its number, on the accelerator.
        candidate: id of the `OffloadCandidate` that it is part of.
        reason: why it stays on the CPU.
    """

    name: str
    kind: str
    place: Literal["accelerator", "cpu"]
    region: int | None = None
    candidate: int | None = None
    reason: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class OffloadCandidate:
    """A unit that the accelerator can take.

    Attributes:
        id: names it for `Choose`; ids grow in topological order.
        operator: as it stands when all candidates are taken; None: it only gives the same
            elements another shape or order, which is free inside a region.
        inputs, output: the operator's tensors.
        macs: multiplications.
        bytes_in, bytes_out: of int8 activations.
    """

    id: int
    operator: QOperator | None
    inputs: tuple[QTensor, ...]
    output: QTensor | None
    macs: int
    bytes_in: int
    bytes_out: int


@dataclass(frozen=True, kw_only=True)
class CpuNode:
    """An operation that runs on the CPU in any case.

    Attributes:
        id: from the same numbers as those of candidates.
        kind: the Relax operator.
    """

    id: int
    kind: str


@dataclass(frozen=True, kw_only=True)
class TensorEdge:
    """A tensor between operations.

    Attributes:
        source: id of its writer; None: an input of the network.
        readers: ids.
        leaves: whether it is an output of the network.
        bytes: its size.
    """

    source: int | None
    readers: tuple[int, ...]
    leaves: bool
    bytes: int


@dataclass(frozen=True, kw_only=True, eq=False)
class OffloadGraph:
    """All operations of a network and the tensors between them."""

    candidates: tuple[OffloadCandidate, ...]
    cpu_nodes: tuple[CpuNode, ...]
    edges: tuple[TensorEdge, ...]


Choose = Callable[[OffloadGraph], Collection[int]]
"""Returns the ids of the candidates that go to the accelerator."""
