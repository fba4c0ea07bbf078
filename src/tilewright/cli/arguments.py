# SPDX-License-Identifier: Apache-2.0
"""What several commands take: networks, boards, memories and stores by name."""

# ruff: noqa: PLC0415  (imports inside functions keep `tilewright --help` fast)

from __future__ import annotations

import errno
import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tilewright.cli.application import UsageError

if TYPE_CHECKING:
    from tilewright.host.machine.board import Board, MemoryModel
    from tilewright.host.machine.hwconfig import HwConfig
    from tilewright.host.network.workload import Workload
    from tilewright.host.network.zoo import NetworkTable

STORE_FILE: Final = "studies.sqlite"
DEFAULT_RUNS: Final = Path("runs")


class SpaceName(StrEnum):
    """Which schedules `tune` searches."""

    FULL = "full"
    VTA = "vta"


RunsOption = Annotated[
    Path, typer.Option("--runs", help="Folder of the trial store and the reports.")
]
StoreOption = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="PATH|URL",
        help=f"Trial store: SQLite file or postgresql:// URL; default: {STORE_FILE} in --runs.",
    ),
]


TrustModelOption = Annotated[
    bool,
    typer.Option(
        "--trust-model",
        help="Read a .pt2 file of any layout with PyTorch's own reader, which may run code from "
        "it: only for files from hands that you trust.",
    ),
]


def require_readable(path: Path, field: str) -> None:
    """Refuse a file or folder that is not there before anything large is loaded for it.

    Raises:
        UsageError: it is missing, or may not be read.
    """
    try:
        path.stat()
        why = "" if os.access(path, os.R_OK) else os.strerror(errno.EACCES)
    except OSError as error:
        why = error.strerror or str(error)
    if why:
        raise UsageError(f"cannot be read ({why})", field=field, value=str(path))


def read_network(name: str) -> NetworkTable:
    """A built-in network, or the network of an ONNX file or of a compiled one (.tw).

    Raises:
        WorkloadError: there is no such network or file.
        UsageError: a file of PyTorch, whose layers only the compiler finds.
    """
    from tilewright.host.compiler.read.float_model import is_torch_file

    if is_torch_file(Path(name)):
        raise UsageError(
            "is a file of PyTorch: its layers are those of its compiled graph",
            field="MODEL",
            value=name,
            remedy="add --compiled, or export it to ONNX",
        )
    if name.lower().endswith(".tw"):
        from tilewright.host.compiler.pack.artefact import load
        from tilewright.host.compiler.tasks import network_table

        return network_table(load(Path(name)))
    if name.lower().endswith(".onnx"):
        from tilewright.host.network.onnx_layers import load_onnx

        return load_onnx(Path(name))
    from tilewright.host.network.zoo import load_network

    return load_network(name)


def read_compiled_graph(
    model: str, hw: HwConfig, board: Board, *, trust_model: bool = False
) -> NetworkTable:
    """The layers of an ONNX or PyTorch model as a configuration's compiled graph has them.

    Scales do not matter to a schedule, so a float model is quantised with one random input.

    Raises:
        UsageError: it is compiled already, or no file.
        WorkloadError: it is no usable model.
    """
    if model.lower().endswith(".tw"):
        raise UsageError(
            "is compiled already", field="--compiled", value=model, remedy="leave --compiled out"
        )
    if not Path(model).is_file():
        raise UsageError(
            "needs the path of an ONNX or .pt2 file",
            field="--compiled",
            value=model,
            remedy="check the path; a built-in network has no file: leave --compiled out",
        )
    from tilewright.host.compiler.compiled import compile_network
    from tilewright.host.compiler.frontend import ImportOptions, import_network
    from tilewright.host.compiler.read.calibration import Calibration
    from tilewright.host.compiler.tasks import network_table
    from tilewright.host.lowering import default_schedule

    network = import_network(
        Path(model),
        calibration=Calibration(random_samples=1),
        options=ImportOptions(trust_model=trust_model),
    )
    compiled, _ = compile_network(network, hw, board, lambda w: default_schedule(hw, w))
    return network_table(compiled)


def read_board(name: str) -> Board:
    """A board by name or YAML file."""
    from tilewright.host.machine.board import load_board

    return load_board(name)


def read_memory(name: str, board: str) -> MemoryModel:
    """A memory by name or YAML file; ``board``: that of the board."""
    if name == "board":
        return read_board(board).memory
    from tilewright.host.machine.board import load_memory

    return load_memory(name)


def read_layers(table: NetworkTable, layers: str) -> tuple[Workload, ...]:
    """The named layers of a network, separated by commas; none named: all of them."""
    if not layers:
        return table.workloads
    wanted = [part.strip() for part in layers.split(",")]
    if not all(wanted):
        raise UsageError(
            "must name layers, separated by commas",
            field="--layers",
            value=layers,
            remedy=f"layers: {', '.join(workload.name for workload in table.workloads)}",
        )
    return tuple(table[layer] for layer in dict.fromkeys(wanted))


def store_location(location: str, runs: Path) -> Path | str:
    """A store's URL, or the path of its SQLite file."""
    if "://" in location:
        return location
    return Path(location) if location else runs / STORE_FILE
