# SPDX-License-Identifier: Apache-2.0
"""What a user says of groups of jobs, or of networks, on several cores."""

from __future__ import annotations

from dataclasses import KW_ONLY, MISSING, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from tilewright.host.common.options import option
from tilewright.host.machine.fidelity import Fidelity

_MAP: Final = "To map a task or a table"
_RUN: Final = "To run networks on a system"
_CUT: Final = "To cut a model over a system"


class PolicyName(StrEnum):
    """How running jobs share the bandwidth."""

    PROPORTIONAL = "proportional"
    PRIORITY = "priority"
    EQUAL = "equal"
    REGULATED = "regulated"


class ModelName(StrEnum):
    """What the required bandwidth of a job is."""

    TRAFFIC = "traffic"
    PAPER = "paper"


class SystemDeviceName(StrEnum):
    """What a system of cores is simulated by."""

    RTL = Fidelity.RTL
    TIMING = Fidelity.TIMING
    TWIN = Fidelity.TWIN


@dataclass(frozen=True)
class MulticoreOptions:
    """What decides a mapped group, networks side by side, or a pipeline."""

    targets: list[str] = option(
        MISSING,
        "To map: vision, language, recommendation or mix, a random group of their layers; or a CSV "
        "file of latencies and bandwidths per job and core. To run on --system: files of "
        "'tilewright compile'.",
        argument=True,
        metavar="TASK|TABLE|NETWORK...",
    )
    _: KW_ONLY
    html: Path | None = option(
        None,
        "Write an HTML report: jobs and bandwidth over time, or what networks cost each other.",
        metavar="FILE",
    )
    trace: Path | None = option(
        None,
        "Write a Chrome trace (JSON, for ui.perfetto.dev): when each job, or frame, runs where; of "
        "jobs also the bandwidth.",
        metavar="FILE",
    )
    seed: int = option(0, "Seed of every random choice.", metavar="SEED", low=0)
    platform: str = option(
        "S2", "Cores of a task: S1 to S6, or a YAML file.", metavar="NAME|FILE", panel=_MAP
    )
    bandwidth: float | None = option(
        None,
        "Of the memory; for a table in bytes per cycle. Default: the platform's largest.",
        metavar="GB/S",
        panel=_MAP,
    )
    method: str = option(
        "tilewright",
        "exact: proven, for small groups; a group mapper; ORDER-PLACEMENT, as heft-greedy; a class "
        "of your own; or tuner-NAME with one of `tilewright tuners`.",
        flags=("--method", "--optimizer"),
        metavar="NAME|MODULE:CLASS",
        panel=_MAP,
    )
    budget: int = option(
        10_000, "Mappings that a search may try.", metavar="SAMPLES", low=1, panel=_MAP
    )
    size: int = option(100, "Jobs of the group.", metavar="N", low=1, panel=_MAP)
    mini_batch: int = option(
        4, "Images, sentences or requests per job.", metavar="N", low=1, panel=_MAP
    )
    bw_model: str = option(
        ModelName.TRAFFIC.value,
        "A job's bandwidth: its whole DRAM traffic over its latency, or the paper's, one copy of "
        "its tiles.",
        kind=ModelName,
        panel=_MAP,
    )
    policy: str = option(
        PolicyName.PROPORTIONAL.value,
        "How running jobs share the bandwidth.",
        kind=PolicyName,
        panel=_MAP,
    )
    system: str = option(
        "", "System that networks run on, or a YAML file.", metavar="SYSTEM", panel=_RUN
    )
    device: str = option(
        SystemDeviceName.RTL.value,
        "rtl (the RTL in Verilator, bit-exact), or the same cycles without data: timing (its "
        "control alone), twin (a model, the fastest).",
        kind=SystemDeviceName,
        panel=_RUN,
    )
    frames: str = option(
        "4",
        "Inferences of the slowest network; the others fill the same time. A list has one number "
        "per network.",
        metavar="N[,N...]",
        panel=_RUN,
    )
    cores: str = option(
        "",
        "Core of each network; default: 0, 1 ... in their order.",
        metavar="CORE,...",
        panel=_RUN,
    )
    weights: str = option(
        "", "Weight of each core at its memory port, 1 to 15.", metavar="W,...", panel=_RUN
    )
    budgets: str = option(
        "",
        "Beats per window that each core may move in each direction; 0: no limit.",
        metavar="READ[/WRITE],...",
        panel=_RUN,
    )
    window: int | None = option(
        None, "Window of the budgets; default: the system's.", metavar="CYCLES", panel=_RUN
    )
    board: str = option(
        "",
        "Clock and memory; default: the board that the networks were compiled for.",
        metavar="BOARD",
        panel=_RUN,
    )
    memory: str = option(
        "board",
        "Memory timing: 'board' (that of --board), 'ideal', a board's name or a YAML file.",
        metavar="MEMORY",
        panel=_RUN,
    )
    trust_model: bool = option(
        False,
        "Run the networks' CPU parts in this process, without limits of memory and time.",
        panel=_RUN,
    )
    pipeline: bool = option(
        False, "Cut one model (.onnx, .tflite, .pt2) over the cores of --system.", panel=_CUT
    )
    one: str = option(
        "", "Configuration of one core that --pipeline is compared with.", metavar="HW", panel=_CUT
    )
    calibration: Path | None = option(
        None, "Inputs of a float model for --pipeline, as of 'compile'.", metavar="PATH", panel=_CUT
    )
    random_calibration: int = option(
        0, "Calibrate with N random inputs (timing, not accuracy).", metavar="N", low=0, panel=_CUT
    )
    search: int = option(
        16, "Measurements on the twin per layer, for --pipeline.", metavar="N", low=0, panel=_CUT
    )
