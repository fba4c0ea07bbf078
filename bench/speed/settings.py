# SPDX-License-Identifier: Apache-2.0
"""What the studies of the toolkit's own speed are told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tilewright.bench.framework import settings
from tilewright.bench.framework.commands import SPEED, command

CONFIGS: Final = {"8": "edge-8x8", "16": "pynq-16x16", "32": "zu-32x32"}
"""Configurations of `simspeed` by the side of their array."""

_POSTGRES: Final = "An empty database to use."


@command("simspeed", SPEED, "tilewright.bench.speed.simspeed:SimulationSpeed")
@dataclass(frozen=True, kw_only=True)
class SimspeedSettings:
    """Cycles per second of every fidelity, side by side in one run."""

    quick: bool = settings.quick_option()
    rounds: int = settings.count_option(7, "Runs of each simulation.", quick=3)
    arrays: tuple[str, ...] = settings.option(
        ("8", "16", "32"), "Sides of the MAC arrays, separated by commas.", metavar="SIDE,...",
        quick=("16",), known=f"{__name__}:CONFIGS",
    )  # fmt: skip


@command("lowering", SPEED, "tilewright.bench.speed.lowering:LoweringSpeed")
@dataclass(frozen=True, kw_only=True)
class LoweringSettings:
    """Programs per second of lowering, in Python and in C++."""

    quick: bool = settings.quick_option()
    hw: str = settings.hw_option("pynq-16x16")
    sample: int = settings.count_option(0, "Points per layer; 0: all.", low=0, quick=200)
    seconds: float = settings.option(
        5.0, "Seconds of lowering in Python per layer.", metavar="SECONDS", low=0, quick=1.0
    )
    repeat: int = settings.count_option(3, "Runs of which the best counts.")
    seed: int = settings.seed_option()


@command("builds", SPEED, "tilewright.bench.speed.builds:BuildTimes")
@dataclass(frozen=True, kw_only=True)
class BuildsSettings:
    """Seconds that a new configuration takes to build, from an empty cache."""

    quick: bool = settings.quick_option()
    rounds: int = settings.count_option(3, "Builds of each model.", quick=1)
    jobs: int = settings.count_option(2, "Compilers at a time.")


@command("execution", SPEED, "tilewright.bench.speed.execution:Execution")
@dataclass(frozen=True, kw_only=True)
class ExecutionSettings:
    """What a trial costs besides its simulation (PostgreSQL without a URL: from the tests)."""

    quick: bool = settings.quick_option()
    hw: str = settings.hw_option("pynq-16x16")
    ray: bool = settings.option(True, "Time Ray, too.")
    postgres: str = settings.option("", _POSTGRES, metavar="URL")


@command("store", SPEED, "tilewright.bench.speed.store:StoreSpeed")
@dataclass(frozen=True, kw_only=True)
class StoreSettings:
    """Commits per second of the trial store, and the report of a study of many trials."""

    trials: tuple[int, ...] = settings.option(
        (1000, 50_000), "Sizes of the store, separated by commas.", metavar="N,..."
    )
    commits: int = settings.count_option(2000, "Commits that are timed.")
    repeats: int = settings.count_option(3, "Runs of which the median counts.")
    postgres: str = settings.option("", _POSTGRES, metavar="URL")
    folder: Path | None = settings.option(
        None, "Folder of the SQLite files; default: that of temporary files.", metavar="FOLDER"
    )


@command("agent", SPEED, "tilewright.bench.speed.agent:AgentSpeed")
@dataclass(frozen=True, kw_only=True)
class AgentSettings:
    """What TLS costs between an agent and its client, on loopback."""

    mib: int = settings.count_option(64, "Memory of a run, in MiB.", metavar="MIB")
    repeats: int = settings.count_option(7, "Samples of each figure, of which the median counts.")


@command("first-count", SPEED, "tilewright.bench.speed.first_count:FirstCount")
@dataclass(frozen=True, kw_only=True)
class FirstCountSettings:
    """Seconds from an ONNX file to its first cycle count."""

    networks: tuple[str, ...] = settings.option(
        ("resnet18", "mobilenet-v2"), "Of examples/networks, or ONNX files.",
        metavar="NETWORK,...",
    )  # fmt: skip
    hw: str = settings.hw_option("pynq-16x16")
    repeat: int = settings.count_option(5, "Runs of each network.")
