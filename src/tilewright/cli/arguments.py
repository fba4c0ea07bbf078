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
from tilewright.host.common.errors import fields_named

if TYPE_CHECKING:
    from tilewright.host.machine.board import Board, MemoryModel
    from tilewright.host.network.zoo import NetworkTable

STORE_FILE: Final = "studies.sqlite"
DEFAULT_RUNS: Final = Path("runs")

MODEL_FIELDS: Final = {
    "model": "MODEL",
    "layers": "--layers",
    "compiled": "--compiled",
    "trust_model": "--trust-model",
}
"""What the options that name a model are called in errors from below."""


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
    """See `host.compiler.tasks.load_network`."""
    from tilewright.host.compiler.tasks import load_network

    with fields_named(MODEL_FIELDS):
        return load_network(name)


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


def split_layers(layers: str) -> tuple[str, ...]:
    """The names of ``--layers``, which commas separate."""
    return tuple(layers.split(",")) if layers else ()


def store_location(location: str, runs: Path) -> Path | str:
    """A store's URL, or the path of its SQLite file."""
    if "://" in location:
        return location
    return Path(location) if location else runs / STORE_FILE
