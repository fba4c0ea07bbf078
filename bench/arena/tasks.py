# SPDX-License-Identifier: Apache-2.0
"""What the arena searches: a layer, the configurations offered to it, and a memory.

Two tracks. *per-layer* is the papers' form: each layer chooses its own configuration (one knob
over `pynq_z2_choice`) together with its schedule. *schedule* fixes the configuration and is what
VTA's AutoTVM template searched. Both use spaces of kind ``vta``, which can be enumerated.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from tilewright.bench.arena import certified_tables
from tilewright.host.common.errors import ConfigError
from tilewright.host.machine.board import MemoryModel, load_board
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.network.workload import Workload, conv2d, dense, depthwise
from tilewright.host.network.zoo import NetworkTable, load_network
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.schedule.spaces import HardwareChoice, JointSpace, ScheduleSpace
from tilewright.tuner.search.space import Space

BOARD: Final = "pynq-z2"

KIND: Final = "vta"
"""Kind of every schedule space of the arena."""

TRACKS: Final = certified_tables.TRACKS

NETWORKS: Final = (
    "resnet18",
    "alexnet",
    "squeezenet1_1",
    "transformer_encoder",
    "mobilenet_v2",
    "vgg11",
    "vgg13",
    "vgg16",
    "vgg19",
    "resnet34",
)
"""Networks of the study, those with the quickest tables first; repeated layers share tables."""

CHOSEN_ON: Final = (*NETWORKS, "vta-resnet18")
"""Networks whose layers the default tuner's constants or its settings were chosen on."""

FRESH_NETWORKS: Final = (
    "bert_base",
    "bert_tiny",
    "dlrm",
    "gpt2",
    "ncf",
    "squeezenet1_0",
    "wide_and_deep",
)
"""Networks that fresh layers are drawn from; a new one would change the draw."""

FRESH_WORK: Final = 3e11
"""`enumeration_work` up to which a fresh layer is enumerated."""

_KIB: Final = 1024

_VARIANTS: Final[tuple[tuple[str, str, Mapping[str, int]], ...]] = (
    ("16x16-inp", "pynq-16x16", {"inp_bytes": 64 * _KIB, "wgt_bytes": 128 * _KIB}),
    ("16x16-lanes8", "pynq-16x16", {"vector_lanes": 8}),
    ("8x32-acc", "wide-8x32", {"acc_bytes": 256 * _KIB}),
    ("32x8", "pynq-16x16", {"block_in": 32, "block_out": 8, "vector_lanes": 8}),
)


def pynq_z2_choice() -> tuple[HwConfig, ...]:
    """Eight configurations that fit a PYNQ-Z2: array shapes, vector lanes and buffer splits.

    The named 16x16, 16x32, 8x32 and 8x8; 16x16 with twice the activations for half the weights and
    with half the vector lanes; 8x32 with twice the accumulators; 32x8. All have four ACC banks.
    """
    named = ("pynq-16x16", "pynq-16x32", "wide-8x32", "edge-8x8")
    configs = [load_hwconfig(name).with_(acc_bank_count=4) for name in named]
    configs += [load_hwconfig(base).with_(name=name, **new) for name, base, new in _VARIANTS]
    board = load_board(BOARD)
    for hw in configs:
        fit = host_rules().fits(hw, board)
        if not fit.ok:
            raise ConfigError(fit.text, field="pynq_z2_choice", value=hw.name)
    return tuple(configs)


@dataclass(frozen=True, kw_only=True)
class Task:
    """One search problem."""

    track: str  # of `TRACKS`
    workload: Workload  # the layer
    configs: tuple[HwConfig, ...]  # configurations offered; one alone is no knob
    memory: MemoryModel  # DRAM timing

    @property
    def id(self) -> str:
        """Identity inside the arena: equal layers of two networks are one task."""
        return f"{self.track}/{self.workload.key}"

    @property
    def space(self) -> Space[Any]:
        """A space of the host's own rules; made anew, so that a task travels light."""
        if len(self.configs) == 1:
            return ScheduleSpace(self.workload, self.configs[0], host_rules(), KIND)
        return JointSpace(self.workload, HardwareChoice(self.configs), host_rules(), KIND)


@dataclass(frozen=True, kw_only=True)
class LayerTask:
    """A layer of a network and how often it occurs."""

    layer: str
    task: str
    count: int


def make_task(track: str, workload: Workload) -> Task:
    """The task of a layer on the arena's board."""
    if track not in TRACKS:
        raise ConfigError(
            "no such track", field="track", value=track, remedy=f"use one of {', '.join(TRACKS)}"
        )
    configs = pynq_z2_choice()
    return Task(
        track=track,
        workload=workload,
        configs=configs if track == "per-layer" else configs[:1],
        memory=load_board(BOARD).memory,
    )


def drawn(names: Sequence[str], count: int | None) -> list[str]:
    """At most so many of some names, in their order, drawn by their digests alone.

    A name's chance does not depend on the others: a longer list keeps most of a shorter one's.
    """
    if count is None or count >= len(names):
        return list(names)
    kept = sorted(names, key=lambda name: hashlib.sha256(name.encode()).digest())[:count]
    return [name for name in names if name in kept]


def enumeration_work(task: Task) -> int:
    """Points of a task times multiply-accumulates: what its table costs, known beforehand."""
    return task.space.raw_size * task.workload.macs


def fresh_layers(seed: int) -> Iterator[Workload]:
    """Layers that nothing was chosen on, without end; the host writes the input of each.

    In turn a layer of one of `FRESH_NETWORKS` that is not in `CHOSEN_ON`, while there are some, and
    one of a drawn shape: a convolution with or without stride or residual, depthwise or dense.
    """
    rng = np.random.default_rng(seed)
    chosen_on, offered = (
        {alone.key: alone for name in names for alone in _alone(load_network(name).workloads)}
        for names in (CHOSEN_ON, FRESH_NETWORKS)
    )
    offered = {key: layer for key, layer in offered.items() if key not in chosen_on}
    order = iter(rng.permutation(sorted(offered)).tolist())
    for number in itertools.count():
        key = None if number % 2 else next(order, None)
        yield _drawn(rng, number) if key is None else offered[key]


def _alone(layers: Iterable[Workload]) -> Iterator[Workload]:
    return (replace(layer, chained=False) for layer in layers)


def _drawn(rng: np.random.Generator, number: int) -> Workload:
    kind = str(rng.choice(["conv", "strided", "residual", "depthwise", "dense"]))
    name, kernel = f"{kind}-{number}", int(rng.choice([1, 3, 5]))
    size, channels_in, channels_out = (int(n) for n in rng.integers((6, 4, 8), (60, 200, 300)))
    if kind == "dense":
        return dense(name, rows=size, features_in=4 * channels_in, features_out=channels_out)
    if kind == "depthwise":
        return depthwise(name, size, channels_in, kernel, kernel // 2, int(rng.integers(1, 3)))
    stride = 2 if kind == "strided" else 1
    return conv2d(
        name, size, channels_in, channels_out, kernel, kernel // 2, stride,
        residual=kind == "residual",
    )  # fmt: skip


def tasks_of(track: str, networks: Iterable[str]) -> dict[str, Task]:
    """Every distinct task of some networks, in order of first use."""
    found: dict[str, Task] = {}
    for network in networks:
        for workload in load_network(network).workloads:
            task = make_task(track, workload)
            found.setdefault(task.id, task)
    return found


def parts_of(track: str, network: NetworkTable) -> list[LayerTask]:
    """What a network is made of, in terms of tasks."""
    return [
        LayerTask(layer=w.name, task=f"{track}/{w.key}", count=w.count) for w in network.workloads
    ]
