# SPDX-License-Identifier: Apache-2.0
"""Jobs and groups: layers of several networks, each for a mini-batch, that wait for nobody.

A *job* is one layer of a network for a mini-batch of images, sentences or requests. A *group* holds
jobs without dependencies between them, so any order of them is right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from tilewright.host.common.errors import WorkloadError
from tilewright.host.common.names import choices
from tilewright.host.network.network_table import NetworkTable
from tilewright.host.network.workload import Workload
from tilewright.host.network.zoo import load_network

TASKS: Final = {
    "vision": ("resnet18", "mobilenet_v2", "squeezenet1_1", "vgg16", "alexnet"),
    "language": ("transformer_encoder", "bert_base", "gpt2"),
    "recommendation": ("dlrm", "ncf", "wide_and_deep"),
}
"""Networks of a task; `MIX` has those of all."""

MIX: Final = "mix"

DEFAULT_SIZE: Final = 100
DEFAULT_MINI_BATCH: Final = 4

_MOST_JOBS: Final = 100_000

_BOTH_OPERANDS_OWN: Final = ("scores", "context", "interaction")
"""Layers of the zoo whose second operand belongs to the sentence or request, as weights do not."""


def task_names() -> tuple[str, ...]:
    """Names of the tasks."""
    return (*TASKS, MIX)


def task_networks(task: str) -> tuple[NetworkTable, ...]:
    """The networks of a task."""
    if task not in task_names():
        raise WorkloadError(
            "must be a task, or a file of jobs (.csv, not compressed) or networks (.tw)",
            field="task",
            value=task,
            remedy=choices(task, task_names()),
        )
    wanted = TASKS.get(task) or tuple(name for names in TASKS.values() for name in names)
    return tuple(load_network(name) for name in wanted)


@dataclass(frozen=True, kw_only=True)
class Job:
    """A layer for a mini-batch."""

    name: str  # label, unlike that of any other job of its group
    workload: Workload  # the layer
    mini_batch: int = 1  # images, sentences or requests

    def piece(self) -> tuple[Workload, int]:
        """What a core is given, and how often.

        Where a layer looks at single rows, the mini-batch makes one taller input: its weights are
        loaded once. Any other layer is repeated.
        """
        w = self.workload
        by_rows = (w.kernel_h, w.pad_top, w.pad_bottom, w.height % w.stride_h) == (1, 0, 0, 0)
        if not by_rows or w.name in _BOTH_OPERANDS_OWN:
            return replace(w, count=1), self.mini_batch
        return replace(w, height=w.height * self.mini_batch, count=1), 1


@dataclass(frozen=True, kw_only=True)
class Group:
    """Jobs without dependencies."""

    name: str  # label
    jobs: tuple[Job, ...]  # in the order of the rows of a job table

    def __post_init__(self) -> None:
        """Validate."""
        if not self.jobs:
            raise WorkloadError("a group needs at least one job", field=self.name)
        name, times = Counter(job.name for job in self.jobs).most_common(1)[0]
        if times > 1:
            raise WorkloadError("jobs of a group must differ in name", field="name", value=name)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all jobs."""
        return sum(job.workload.macs * job.mini_batch for job in self.jobs)


def draw_group(
    name: str,
    networks: Sequence[NetworkTable],
    *,
    seed: int,
    size: int = DEFAULT_SIZE,
    mini_batch: int = DEFAULT_MINI_BATCH,
    cores: int = 1,
) -> Group:
    """A random group: for each job a network, then one of its layers, all equally likely.

    A network's layers are its distinct ones, so that the many heads of a Transformer do not fill
    the group. Max pools are left out: they multiply nothing.

    Example:
        >>> group = draw_group("vision", task_networks("vision"), seed=1, size=3)
        >>> [job.name for job in group.jobs], group.jobs[0].mini_batch
        (['squeezenet1_1.fire6.squeeze', 'vgg16.fc8', 'resnet18.C2r'], 4)
    """
    _require_whole("mini_batch", mini_batch, 1, 1 << 16)
    _require_whole("seed", seed, 0, (1 << 63) - 1)
    _require_whole("size", size, 1, _MOST_JOBS)
    if size < cores:
        raise WorkloadError(
            f"must be at least the number of cores ({cores}): each has a job of its own then",
            field="size",
            value=size,
        )
    layers = {network.name: [w for w in network.workloads if w.kind.weighs] for network in networks}
    for network, found in layers.items():
        if not found:
            raise WorkloadError("a network needs a layer that multiplies", field=network)
    if not layers:
        raise WorkloadError("a group needs at least one network", field=name)
    rng = np.random.default_rng(seed)
    times: Counter[str] = Counter()
    jobs = []
    for _ in range(size):
        network = list(layers)[rng.integers(len(layers))]
        workload = layers[network][rng.integers(len(layers[network]))]
        label = f"{network}.{workload.name}"
        times[label] += 1
        unique = label if times[label] == 1 else f"{label}#{times[label]}"
        jobs.append(Job(name=unique, workload=workload, mini_batch=mini_batch))
    return Group(name=name, jobs=tuple(jobs))


def _require_whole(field: str, value: int, low: int, high: int) -> None:
    if type(value) is not int or not low <= value <= high:
        raise WorkloadError(f"must be an integer from {low} to {high}", field=field, value=value)
