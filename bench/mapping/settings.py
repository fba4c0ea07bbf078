# SPDX-License-Identifier: Apache-2.0
"""What the studies of mappings are told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tilewright.bench.framework import settings
from tilewright.bench.framework.commands import SEARCH, command
from tilewright.tuner.schedule.options import SpaceName


@command("mapping-models", SEARCH, "tilewright.bench.mapping.models:Models")
@dataclass(frozen=True, kw_only=True)
class ModelsSettings:
    """The cost model of mappings against MAESTRO, ZigZag, and the RTL over whole spaces."""

    maestro: Path | None = settings.option(
        None, "Rows of MAESTRO: dataflows.csv and mapspace.csv.", metavar="FOLDER"
    )
    zigzag: Path | None = settings.option(
        None, "Rows that bench/mapping/zigzag_runs.py printed.", metavar="FILE"
    )
    network: str = settings.option(
        "vta-resnet18", "Built-in network, ONNX file or YAML table of layers.", metavar="MODEL"
    )
    layers: tuple[str, ...] = settings.option(
        (), "Layers; default: all that are not folded.", metavar="LAYER,..."
    )
    hw: str = settings.hw_option("pynq-16x16")
    memory: str = settings.memory_option("ideal")
    space: SpaceName = settings.option(
        SpaceName.VTA, "full: any tile sizes; vta: VTA's divisor tiles."
    )


@command(
    "mapping", SEARCH, "tilewright.bench.mapping.study:Mapping", page=True,
    more="Each run is kept when it is there; the same command goes on with the file of --json.",
)  # fmt: skip
@dataclass(frozen=True, kw_only=True)
class MappingSettings:
    """Every mapper at equal budgets of samples, against the certified optimum of each layer."""

    quick: bool = settings.quick_option()
    networks: tuple[str, ...] = settings.option(
        (
            "mobilenet_v2", "vgg16", "resnet18", "alexnet", "squeezenet1_1", "googlenet",
            "transformer_encoder", "bert_base", "gpt2", "dlrm", "ncf", "wide_and_deep",
        ),
        "Networks, separated by commas.", metavar="NETWORK,...",
    )  # fmt: skip
    objectives: tuple[str, ...] = settings.option(
        ("latency", "edp"),
        "latency, energy, edp or area, separated by commas; default: latency and edp, quick: edp.",
        metavar="OBJECTIVE,...", quick=("edp",), known="tilewright.tuner.mapping.cost:Objective",
    )  # fmt: skip
    methods: tuple[str, ...] = settings.option(
        (), "Mappers, separated by commas, each with its options, as in marl:agents=3; "
        "default: all.",
        metavar="MAPPER,...",
    )  # fmt: skip
    hardware: str = settings.option("flexible-256", "Described accelerator.", metavar="NAME|FILE")
    per_network: int = settings.count_option(1, "Layers per network; 0: all.", low=0)
    budget: int = settings.count_option(20_000, "Samples per run.", quick=2000)
    converge: int = settings.count_option(
        60_000, "Most samples of the single agent, which ends when a budget of samples improved "
        "nothing; 0: it has the budget of the others.", low=0, quick=0,
    )  # fmt: skip
    seeds: int = settings.count_option(3, "Runs per mapper and task.", quick=2)
    jobs: int = settings.jobs_option()
