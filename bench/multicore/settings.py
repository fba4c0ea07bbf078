# SPDX-License-Identifier: Apache-2.0
"""What the studies of several cores are told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tilewright.bench.framework.commands import SEARCH, command
from tilewright.bench.framework.settings import (
    count_option,
    jobs_option,
    option,
    quick_option,
)
from tilewright.cli.multicore_options import ModelName, SystemDeviceName

PLATFORMS: Final = ("S1", "S2", "S3", "S4", "S5", "S6")
_DEVICE: Final = "rtl (bit-exact), or the same cycles without data."


def _search_option() -> int:
    text = "Measurements on the twin per layer."
    found: int = count_option(16, text, low=0, quick=0)
    return found


@command(
    "multicore", SEARCH, "tilewright.bench.multicore.study:Multicore", page=True,
    more="Each run is kept when it is there; the same command goes on with the file of --json.",
)  # fmt: skip
@dataclass(frozen=True, kw_only=True)
class MulticoreSettings:
    """Every mapper of groups at equal budgets of samples, against a bound of each instance."""

    quick: bool = quick_option()
    tasks: tuple[str, ...] = option(
        (), "Tasks and CSV files of job tables, separated by commas; default: every task.",
        metavar="TASK|TABLE,...", of="task",
    )  # fmt: skip
    platforms: tuple[str, ...] = option(
        PLATFORMS, "Of the tasks; default: S1 to S6, quick: S2 and S4.", metavar="PLATFORM,...",
        quick=("S2", "S4"), of="platform",
    )  # fmt: skip
    bandwidths: tuple[float, ...] = option(
        (), "Separated by commas, of tables in bytes per cycle; default: each platform's.",
        metavar="GB/S,...", of="bandwidth",
    )  # fmt: skip
    methods: tuple[str, ...] = option(
        (), "Group mappers; default: all, quick: those that are fast.", metavar="METHOD,...",
        of="group mapper",
    )  # fmt: skip
    size: int = count_option(100, "Jobs of a group.", of="size")
    bw_model: ModelName = option(
        ModelName.TRAFFIC, "A job's bandwidth: its DRAM traffic, or the paper's."
    )
    budget: int = count_option(10_000, "Samples per run.", quick=2000)
    seeds: int = count_option(10, "Groups per case, one run per mapper.", quick=2)
    recorded: Path | None = option(
        None, "Recorded makespans of another allocator, which ours is compared with.",
        metavar="FOLDER",
    )  # fmt: skip
    jobs: int = jobs_option()


@command(
    "multicore-rtl", SEARCH, "tilewright.bench.multicore.truth:Truth",
    more="Small layers of real networks run on all cores of a system at the same time. Without "
    "data each job is checked on the reference.",
)  # fmt: skip
@dataclass(frozen=True, kw_only=True)
class TruthSettings:
    """Makespans that models predict, against the RTL of several cores, bit-exact."""

    quick: bool = quick_option()
    systems: tuple[str, ...] = option(
        ("dual-tiny", "dual-8x8", "big-little"), "Hardware; default: three, quick: dual-tiny.",
        metavar="SYSTEM,...", quick=("dual-tiny",), of="system",
    )  # fmt: skip
    tasks: tuple[str, ...] = option(
        ("vision", "recommendation", "mix"), "Default: three, quick: recommendation.",
        metavar="TASK,...", quick=("recommendation",), of="task",
    )  # fmt: skip
    bandwidths: tuple[float, ...] = option(
        (8.0, 2.0, 1.0), "Bytes per cycle of a port's DRAM in each direction.",
        metavar="BYTES,...", quick=(2.0,), of="read_bytes_per_cycle",
    )  # fmt: skip
    methods: tuple[str, ...] = option(
        ("random", "fcfs-greedy", "heft-greedy", "herald", "ai-mt", "magma", "tilewright"),
        "Group mappers.", metavar="METHOD,...", of="group mapper",
    )  # fmt: skip
    size: int = count_option(8, "Jobs of a group.", of="size")
    seeds: int = count_option(2, "Groups per system, task and bandwidth.", quick=1)
    budget: int = count_option(2000, "Samples of a mapper.")
    device: SystemDeviceName = option(SystemDeviceName.RTL, _DEVICE)


@command("multicore-networks", SEARCH, "tilewright.bench.multicore.networks:SideBySide")
@dataclass(frozen=True, kw_only=True)
class SideBySideSettings:
    """A stream of images and a small network on two cores, against turns on one core."""

    quick: bool = quick_option()
    system: str = option(
        "big-little", "Two cores.", metavar="SYSTEM", quick="dual-tiny", of="system"
    )
    one: str = option(
        "pynq-16x32", "One core of the same area.", metavar="HW", quick="edge-8x8", of="hw"
    )
    stream: str = option(
        "resnet18", "Of examples/networks, on the first core.", metavar="NETWORK",
        quick="keyword",
    )  # fmt: skip
    small: tuple[str, ...] = option(
        ("keyword", "transformer"), "For the second core.", metavar="NETWORK,...",
        quick=("digits",),
    )  # fmt: skip
    frames: int = count_option(2, "Frames of the stream.")
    device: SystemDeviceName = option(SystemDeviceName.RTL, _DEVICE)
    board: str = option(
        "pynq-z2", "Board or YAML file: clock and memory.", metavar="BOARD", of="board"
    )
    search: int = _search_option()


@command("multicore-pipeline", SEARCH, "tilewright.bench.multicore.networks:Pipelines")
@dataclass(frozen=True, kw_only=True)
class PipelineSettings:
    """One network in stages on several cores, against one core of about the same area."""

    quick: bool = quick_option()
    network: str = option(
        "resnet18", "Of examples/networks.", metavar="NETWORK", quick="digits", of="network"
    )
    device: SystemDeviceName = option(SystemDeviceName.RTL, _DEVICE)
    search: int = _search_option()
