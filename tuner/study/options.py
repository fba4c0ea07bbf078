# SPDX-License-Identifier: Apache-2.0
"""`TuneOptions`: what a user says of a study, in Python and on the command line."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tilewright.host.common.errors import ConfigError
from tilewright.host.common.options import option
from tilewright.host.machine.fidelity import Fidelity
from tilewright.tuner.schedule.options import SpaceName
from tilewright.tuner.store.location import STORE_FILE

if TYPE_CHECKING:
    from tilewright.host.machine.board import Board, MemoryModel
    from tilewright.host.machine.hwconfig import HwConfig
    from tilewright.host.network.network_table import NetworkTable
    from tilewright.host.network.workload import Workload
    from tilewright.tuner.search.tuner import Tuner

DEFAULT_BASE: Final = "pynq-16x16"
DEFAULT_BUDGET: Final = 240
"""Measurements of a study by default: a few minutes for ResNet-18 on two cores."""
DEFAULT_CONFIGS: Final = 4
"""Configurations that a study measures at most by default, the base included."""
SEARCH_BUDGET: Final = 16
"""Measurements on the twin for a layer of a compiled network whose schedule nothing knows."""

DEFAULT_PROOF_SECONDS: Final = 60.0
"""Of each proof of a layer on a configuration."""

MOST_WITHIN: Final = 0.99
"""Largest tolerance of a proof: about twice the bound."""

_SEARCH: Final = "Search"
_MEASUREMENT: Final = "Measurement"
_NAME_OR_CLASS: Final = "NAME|MODULE:CLASS"


class Mode(StrEnum):
    """What is searched; results of the two are never tabulated together."""

    SHARED = "shared"
    """One HwConfig for the network, a schedule per task."""
    PER_LAYER = "per-layer"
    """Each task has its own HwConfig: not deployable as one bitstream."""


class ScreenName(StrEnum):
    """What is searched on before the fidelity confirms."""

    TWIN = Fidelity.TWIN
    NONE = "none"


class FidelityName(StrEnum):
    """What measures (`measure.backends.BACKENDS`); all but boards count alike."""

    BOARD = Fidelity.BOARD
    RTL = Fidelity.RTL
    DPI = Fidelity.DPI
    TIMING = Fidelity.TIMING
    TWIN = Fidelity.TWIN


def split_layers(layers: str | None) -> tuple[str, ...]:
    """The names of ``--layers``: a row of CSV, so that quotes hold a name with a comma."""
    return tuple(next(csv.reader([layers]))) if layers else ()


def share_of(text: str | None) -> float | None:
    """A share as the command line has it: ``1%`` or ``0.01``."""
    if text is None:
        return None
    number = text.strip().removesuffix("%")
    try:
        share = float(number) / (100 if number != text.strip() else 1)
    except ValueError:
        share = math.nan
    if not 0 <= share <= MOST_WITHIN:
        raise ConfigError(
            f"must be a share from 0 % to {100 * MOST_WITHIN:g} %",
            field="--within",
            value=text,
            remedy="give 1% or 0.01",
        )
    return abs(share)  # of -0, too


def _screen(name: ScreenName | None) -> bool | None:
    return None if name is None else name is ScreenName.TWIN


@dataclass(frozen=True)
class TuneOptions:
    """What decides a study, and where and how it runs."""

    model: str | Path | NetworkTable | Workload = option(
        "",
        "Built-in network; ONNX, .tflite, .pt2, compiled (.tw) or layer (.yaml) file. In Python "
        "also a network that `load_network` returned, or a single layer.",
        kind=str,
        argument=True,
        metavar="MODEL",
    )
    _: KW_ONLY
    board: str | Path | Board = option(
        "pynq-z2", "Board, YAML file, or a bitstream's manifest.", kind=str, metavar="BOARD"
    )
    mode: str = option(
        Mode.SHARED.value,
        "One configuration for the network, or one for each layer.",
        kind=Mode,
        panel=_SEARCH,
    )
    tuner: str | type[Tuner[Any]] = option(
        "tilewright",
        "Search algorithm: one of `tilewright tuners`, or a class of your own.",
        kind=str,
        metavar=_NAME_OR_CLASS,
    )
    allocator: str = option(
        "headroom",
        "What decides which layer is measured next: one of `tilewright allocators`, or a class of "
        "your own.",
        metavar=_NAME_OR_CLASS,
        panel=_SEARCH,
    )
    objective: str = option(
        "latency",
        "What to minimise: latency (cycles), edp (cycles x estimated energy), area (cycles x mean "
        "share of the board's resources), front (their Pareto front), or a class of "
        "your own.",
        metavar=_NAME_OR_CLASS,
        panel=_SEARCH,
    )
    energy: str = option(
        "counters",
        "Energy model of edp and the report: counters, or a class of your own.",
        metavar=_NAME_OR_CLASS,
        panel=_SEARCH,
    )
    space: str = option(
        SpaceName.FULL.value,
        "full: any tile sizes; vta: VTA's divisor tiles.",
        kind=SpaceName,
        panel=_SEARCH,
    )
    budget: int = option(
        DEFAULT_BUDGET,
        "Distinct measurements to spend on the network; the default suits ResNet-18.",
        metavar="N",
        low=1,
    )
    seconds: float | None = option(
        None,
        "Seconds after which the search starts no new trial. Its results are confirmed, and the "
        "same command goes on from there.",
        metavar="SECONDS",
        low=0,
        panel=_SEARCH,
    )
    within: float | None = option(
        None,
        "End a layer's search when its best is proven to be at most so far from the optimum on its "
        "configuration, and print the certificate: 1% or 0.01.",
        kind=str | None,
        parse=share_of,
        metavar="SHARE",
        panel=_SEARCH,
    )
    proof_seconds: float = option(
        DEFAULT_PROOF_SECONDS,
        "Seconds that a proof of --within may take; then it tells how far it came.",
        metavar="SECONDS",
        low=0,
        panel=_SEARCH,
    )
    warm_start: str | Path = option(
        "",
        "Begin with the best schedules of an earlier study, or of a whole store, for layers of the "
        "same shape.",
        kind=str,
        metavar="STORE[:STUDY]",
        panel=_SEARCH,
    )
    configs: int | None = option(
        None,
        f"Most hardware configurations to measure ({DEFAULT_CONFIGS}).",
        metavar="N",
        low=1,
        panel=_SEARCH,
    )
    hw: str | Path | HwConfig | None = option(
        None, "Fix the hardware: named configuration or YAML file.", kind=str | None, metavar="HW"
    )
    base: str | Path | HwConfig = option(
        DEFAULT_BASE,
        "Configuration to start from when the hardware is not fixed.",
        kind=str,
        metavar="HW",
        panel=_SEARCH,
    )
    memory: str | Path | MemoryModel | Board = option(
        "board",
        "Memory timing: 'board' (the board's), 'ideal', a board's name or a YAML file.",
        kind=str,
        metavar="MEMORY",
        panel=_MEASUREMENT,
    )
    layers: Sequence[str] = option(
        (),
        "Only these layers; on the command line, a name that has a comma goes in double quotes.",
        kind=str | None,
        parse=split_layers,
        metavar="LAYER,...",
    )
    fidelity: str = option(
        Fidelity.RTL.value,
        "What measures or confirms: board (FPGAs), rtl (the RTL, output checked), dpi (data in "
        "C++), timing (no data), or twin (cycle-exact).",
        kind=FidelityName,
        panel=_MEASUREMENT,
    )
    screen: bool | None = option(
        None,
        "twin (True): search on the cycle-exact twin and confirm the best; none (False): measure "
        "everything on the fidelity. Default: twin, and none on boards.",
        kind=ScreenName | None,
        parse=_screen,
        panel=_MEASUREMENT,
    )
    without: Iterable[str] = option(
        (),
        "Switch off a part of the tuner; may be repeated. The default tuner has prior, "
        "calibration, pooling and descent.",
        kind=list[str] | None,
        parse=lambda given: tuple(given or ()),
        metavar="PART",
        panel=_SEARCH,
    )
    trust_model: bool = option(
        False,
        "Read a .pt2 file of any layout with PyTorch's own reader. It may run code from the file: "
        "only for files that you trust.",
        panel=_MEASUREMENT,
    )
    seed: int = option(0, "Seed of every random choice.", metavar="SEED", low=0)
    asynchronous: int = option(
        0,
        "Keep N measurements on their way and learn from each as it ends, in place of waiting for "
        "whole batches (0): for boards and machines of unequal speed. N is best their number.",
        metavar="N",
        low=0,
        panel=_MEASUREMENT,
    )
    workers: int | None = option(
        None, "Worker processes; default: one per core.", metavar="N", low=1, panel=_MEASUREMENT
    )
    ray: str = option(
        "",
        "Measure on a Ray cluster: 'auto', host:port, or 'local' to start one here.",
        metavar="ADDRESS",
        panel=_MEASUREMENT,
    )
    boards: str | Path | None = option(
        None,
        "Boards of fidelity board: a file that lists their agents.",
        kind=Path | None,
        metavar="POOL",
        panel=_MEASUREMENT,
    )
    bitstreams: str | Path | None = option(
        None,
        "Choose among the configurations of these bitstreams; the agents of the boards serve the "
        "same folder.",
        kind=Path | None,
        metavar="FOLDER",
        panel=_MEASUREMENT,
    )
    rtl: str | Path | None = option(
        None,
        "Build your RTL in place of ours: a text file that names the sources, one per line, "
        "relative to itself, in the order of rtl/tilewright.f.",
        kind=Path | None,
        metavar="MANIFEST",
        panel=_MEASUREMENT,
    )
    runs: str | Path = option(
        "runs",
        "Folder of the trial store and the reports.",
        kind=Path,
        metavar="FOLDER",
        panel=_MEASUREMENT,
    )
    store: str | Path = option(
        "",
        f"Trial store: SQLite file or postgresql:// URL; default: {STORE_FILE} in the folder of "
        "runs.",
        kind=str,
        metavar="PATH|URL",
        panel=_MEASUREMENT,
    )
    name: str = option("", "Study name; default: a name made from the settings.", metavar="STUDY")
    progress: bool = option(False, "Show a progress display on standard output.", kind=None)
