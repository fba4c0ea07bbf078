# SPDX-License-Identifier: Apache-2.0
"""The tuning tasks of a compiled network: its distinct workloads, as its programs compute them."""

from __future__ import annotations

from collections import Counter

from tilewright.host.compiler.pack.artefact import CompiledNetwork
from tilewright.host.network.network_table import NetworkTable, collect
from tilewright.host.network.workload import Kind, Workload


def network_table(network: CompiledNetwork) -> NetworkTable:
    """Distinct workloads with counts.

    A task has the epilogue, the residual and the channels of the layer in its place. Max pooling
    has too few schedules to be searched: it is listed with the operators that are not tuned.

    Raises:
        WorkloadError: the network has no layer that can be tuned.
    """
    layers = [layer for program in network.programs for layer in program.layers]
    tuned = collect(layer.workload for layer in layers if layer.workload.kind is not Kind.MAXPOOL)
    rest: Counter[str] = Counter()
    for layer in layers:
        if layer.workload.kind is Kind.MAXPOOL:
            rest["max pooling: on the accelerator, not tuned"] += 1
    for placed in network.placements:
        if placed.where != "accelerator":
            rest[f"{placed.kind}: {placed.reason}"] += 1
    return NetworkTable(
        name=network.name,
        workloads=_named_apart(tuned),
        cpu_operators=tuple(f"{count} x {text}" for text, count in rest.items()),
    )


def _named_apart(workloads: tuple[Workload, ...]) -> tuple[Workload, ...]:
    """The workloads with unique names."""
    taken: set[str] = set()
    named = []
    for workload in workloads:
        name, number = workload.name, 2
        while name in taken:
            name, number = f"{workload.name}.{number}", number + 1
        taken.add(name)
        named.append(workload.renamed(name))
    return tuple(named)
