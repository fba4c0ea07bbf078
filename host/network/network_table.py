# SPDX-License-Identifier: Apache-2.0
"""`NetworkTable`: the accelerator's share of one network, as unique workloads with counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from tilewright.host.common.errors import WorkloadError
from tilewright.host.common.names import choices, counted
from tilewright.host.common.summaries import Summarised
from tilewright.host.network.workload import Workload


@dataclass(frozen=True, kw_only=True, repr=False)
class NetworkTable(Summarised):
    """What a network asks of the accelerator, and what it leaves to the CPU.

    Attributes:
        workloads: distinct operators in order of first use; `Workload.count` says how often
            each occurs. No two of them share a `Workload.key`.
        cpu_operators: one line of text for each kind of operator that is not offloaded.
        same: names of layers that were merged into an equal one, to that one's name.
    """

    name: str  # label
    workloads: tuple[Workload, ...]
    cpu_operators: tuple[str, ...] = ()
    cpu_macs: int = 0  # multiply-accumulates of those, as far as their shapes tell
    same: Mapping[str, str] = field(default_factory=dict)

    def _told(self) -> Mapping[str, object]:
        return {
            "network": self.name,
            "layers": counted(sum(each.count for each in self.workloads), "layer"),
            "macs": f"{self.macs:,} MACs",
            "on the CPU": ", ".join(self.cpu_operators) or "nothing",
        }

    def __post_init__(self) -> None:
        """Validate."""
        if not self.workloads:
            raise WorkloadError(
                "a network needs at least one workload",
                field=self.name,
                remedy="add a layer that the accelerator takes, such as a convolution",
            )
        for what in ("key", "name"):
            seen: set[str] = set()
            for workload in self.workloads:
                value = getattr(workload, what)
                if value in seen:
                    raise WorkloadError(
                        f"workloads of a network must differ in {what}",
                        field=f"{self.name}.{workload.name}",
                        value=value,
                        remedy="merge equal workloads and add up their counts",
                    )
                seen.add(value)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one inference, counts included, CPU operators excluded."""
        return sum(w.macs * w.count for w in self.workloads)

    @property
    def weight_elements(self) -> int:
        """Weights of all occurrences, without biases."""
        return sum(prod(w.weight_shape) * w.count for w in self.workloads)

    @property
    def layers(self) -> int:
        """Occurrences of all workloads."""
        return sum(w.count for w in self.workloads)

    def __getitem__(self, name: str) -> Workload:
        """The workload of that name, or the equal one that a layer of that name was merged into."""
        for wanted in (name, self.same.get(name, "")):
            for workload in self.workloads:
                if workload.name == wanted:
                    return workload
        raise WorkloadError(
            f"no workload of that name in {self.name}",
            field="layer",
            value=name,
            remedy=choices(name, [w.name for w in self.workloads]),
        )

    def select(self, names: Sequence[str]) -> tuple[Workload, ...]:
        """The named workloads, in the order of the names; none named: all of them."""
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise WorkloadError(
                "must be a list of names of layers",
                field="layers",
                value=names,
                remedy=f"layers: {', '.join(workload.name for workload in self.workloads)}",
            )
        wanted = [name.strip() for name in names]
        if not all(wanted):
            raise WorkloadError(
                "must name layers",
                field="layers",
                value=",".join(names),
                remedy=f"layers: {', '.join(workload.name for workload in self.workloads)}",
            )
        found = {workload.name: workload for workload in map(self.__getitem__, wanted)}
        return tuple(found.values()) or self.workloads


def merged_names(layers: Sequence[Workload]) -> dict[str, str]:
    """Names of layers that `collect` merges into an earlier one, to that one's name."""
    first: dict[str, str] = {}
    for layer in layers:
        first.setdefault(layer.key, layer.name)
    return {layer.name: first[layer.key] for layer in layers if first[layer.key] != layer.name}


def collect(layers: Iterable[Workload]) -> tuple[Workload, ...]:
    """Merge layers that compute the same thing: first name wins, counts add up."""
    merged: dict[str, Workload] = {}
    for layer in layers:
        known = merged.get(layer.key)
        merged[layer.key] = (
            layer if known is None else replace(known, count=known.count + layer.count)
        )
    return tuple(merged.values())
