# SPDX-License-Identifier: Apache-2.0
"""What several commands take: networks, boards, memories and stores by name."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tilewright.cli.common.application import LINE, say
from tilewright.cli.common.parse_errors import UsageError
from tilewright.cli.common.progress import progress
from tilewright.host.common.errors import TilewrightError, fields_named
from tilewright.host.common.names import choices
from tilewright.host.common.printable import printable
from tilewright.tuner.store.location import STORE_FILE

if TYPE_CHECKING:
    from tilewright.host.machine.board import Board, MemoryModel
    from tilewright.host.machine.hwconfig import HwConfig
    from tilewright.host.network.zoo import NetworkTable


def is_given(context: typer.Context, name: str) -> bool:
    """Whether the command line states a parameter, were it with its default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def option_of(context: typer.Context, name: str) -> str:
    """The option of a parameter as it was typed; of a switch that is off its second form."""
    parameter: Any = next(p for p in context.command.params if p.name == name)
    off = context.params.get(name) is False and parameter.secondary_opts
    return str(parameter.secondary_opts[0] if off else parameter.opts[0])


def refuse_given(
    context: typer.Context,
    names: Iterable[str],
    rule: str,
    *,
    value: object = None,
    remedy: str = "leave it out",
) -> None:
    """Refuse options that the user gave and that do nothing here."""
    for name in names:
        if is_given(context, name):
            raise UsageError(rule, field=option_of(context, name), value=value, remedy=remedy)


FOR_FLOAT_MODELS: Final = "is for a float model; this one is quantised already"
"""Why options of the quantisation are refused."""


def data_fields(source: str) -> dict[str, str]:
    """The fields of a `Calibration` to the options that state them."""
    return {"calibration.mean": "--mean", "calibration.std": "--std", "calibration": source}


DEFAULT_RUNS: Final = Path("runs")

_CLAIMED: Final = "tilewright.claimed"
"""Key of a context's ``meta``: files that will be written, by option."""

Files = Mapping[str, Path | None]
"""Files by what errors call them: an option, or words where no option names the file."""

MODEL_FIELDS: Final = {
    "model": "MODEL",
    "layers": "--layers",
    "trust_model": "--trust-model",
}
"""What the options that name a model are called in errors from below."""


HwArgument = Annotated[str, typer.Argument(metavar="HW", help="Named configuration or YAML file.")]
BoardOption = Annotated[
    str,
    typer.Option("--board", metavar="BOARD", help="Board, YAML file, or a bitstream's manifest."),
]
MemoryOption = Annotated[
    str,
    typer.Option(
        "--memory",
        metavar="MEMORY",
        help="Memory timing: 'board' (that of --board), 'ideal', a board's name or a YAML file.",
    ),
]
SeedOption = Annotated[
    int, typer.Option("--seed", metavar="SEED", min=0, help="Seed of every random choice.")
]
FreshSeedOption = Annotated[
    int | None,
    typer.Option(
        "--seed", metavar="SEED", min=0, help="Seed of every random choice; default: a new one."
    ),
]
LayersOption = Annotated[
    str,
    typer.Option(
        "--layers",
        metavar="LAYER,...",
        help="Only these layers; a name that has a comma goes in double quotes.",
    ),
]
QuickOption = Annotated[bool, typer.Option("--quick", help="A smaller run, in minutes.")]

RunsOption = Annotated[
    Path,
    typer.Option("--runs", metavar="FOLDER", help="Folder of the trial store and the reports."),
]
StoreOption = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="PATH|URL",
        help=f"Trial store: SQLite file or postgresql:// URL; default: {STORE_FILE} in --runs.",
    ),
]


def _use_rtl(context: typer.Context, manifest: Path | None) -> Path | None:
    """Build a user's RTL while the command runs."""
    if manifest is not None:
        from tilewright.sim.verilator.rtl_variant import rtl_variant

        context.with_resource(rtl_variant(manifest))
    return manifest


RtlOption = Annotated[
    Path | None,
    typer.Option(
        "--rtl",
        metavar="MANIFEST",
        callback=_use_rtl,
        help="Build your RTL in place of ours: a text file that names the sources, one per line, "
        "relative to itself, in the order of rtl/tilewright.f.",
    ),
]


def one_of(name: str, known: Iterable[str], field: str) -> str:
    """A name, when it is one of the known ones."""
    names = [str(each) for each in known]
    if name not in names:
        raise UsageError("no such choice", field=field, value=name, remedy=choices(name, names))
    return name


def fresh_seed(seed: int | None) -> int:
    """A given seed, or a new one."""
    return secrets.randbelow(2**31) if seed is None else seed


def require_readable(path: Path, field: str) -> None:
    """Refuse a file or folder that is not there before anything large is loaded for it."""
    try:
        path.stat()
        why = "" if os.access(path, os.R_OK) else os.strerror(errno.EACCES)
    except OSError as error:
        why = error.strerror or str(error)
    if why:
        raise UsageError(
            f"cannot be read ({why})",
            field=field,
            value=str(path),
            remedy="check the path and its permissions",
        )


def require_writable(
    path: Path, field: str, prepare: Callable[[Path], object] | None = None
) -> None:
    """Make the place that a command will write, before anything long is run for it."""
    from tilewright.host.common.whole_file import ForeignFileError, prepare_place

    try:
        (prepare or prepare_place)(path)
    except ForeignFileError as error:
        raise UsageError(error.rule, field=field, value=str(path), remedy=error.remedy) from error
    except OSError as error:
        raise UsageError(
            f"cannot be written ({error.strerror or error})",
            field=field,
            value=str(path),
            remedy="name a place that may be written",
        ) from error


def require_places(read: Files, written: Files, kept: Files | None = None) -> None:
    """Refuse files that cannot be written, or would replace one that is used otherwise."""
    require_distinct(read, written, kept)
    for name, path in written.items():
        if path is not None:
            require_writable(path, name)


def refuse_foreign_files(*written: Path | None) -> None:
    """Refuse files that no command wrote before the work, and not when it is done."""
    from tilewright.host.common.whole_file import refuse_foreign

    for path in filter(None, written):
        refuse_foreign(path)


def require_distinct(read: Files, written: Files, kept: Files | None = None) -> None:
    """Refuse files that would replace one that is used otherwise; no folder is made."""
    kept = kept or {}
    taken = {os.path.realpath(path): name for name, path in read.items() if path and path.is_file()}
    for name, path in {**kept, **written}.items():
        if path is None or (path.exists() and not path.is_file()):
            continue  # a device or a pipe takes several
        typed = [] if name in kept or not path.is_file() else _typed(path)
        others = typed if len(typed) > name.startswith("-") else [name]
        # The real path of a loop of links, too.
        other = taken.setdefault(
            os.path.realpath(path), next((each for each in others if each != name), name)
        )
        if other != name:
            raise UsageError(
                f"must be another file than {other}",
                field=name,
                value=str(path),
                remedy="name a file of its own",
            )


def _typed(path: Path) -> list[str]:
    """What names a file on the command line: options, or an argument."""
    found, before = [], ""
    for word in LINE.get():
        option, equals, value = word.partition("=")
        if not (option.startswith("--") and equals):
            option, value = before if before.startswith("-") else "an argument", word
        if value and os.path.realpath(value) == os.path.realpath(path):
            found.append(option)
        before = word
    return found


def claim(context: typer.Context, path: Path | None, field: str) -> None:
    """`require_places` for the callback of one option that names a file to write."""
    claimed: dict[str, Path | None] = context.meta.setdefault(_CLAIMED, {})
    require_places({}, {**claimed, field: path})
    claimed[field] = path


def read_network(
    name: str, hw: str | HwConfig = "pynq-16x16", board: str | Board = "pynq-z2"
) -> NetworkTable:
    """See `host.compiler.tasks.load_network`."""
    from tilewright.host.compiler.read.remedies import COMPILE_FIRST, TRUST
    from tilewright.host.compiler.tasks import load_network

    with fields_named(MODEL_FIELDS), progress(f"reading {name}"):
        try:
            return load_network(name, hw=hw, board=board)
        except TilewrightError as error:
            if error.remedy != TRUST:
                raise
            raise UsageError(
                error.rule, field=error.field, value=error.value, remedy=COMPILE_FIRST
            ) from error


def read_board(name: str) -> Board:
    """A board by name or YAML file."""
    from tilewright.host.machine.board import load_board

    return load_board(name)


def read_memory(name: str, board: str | Board) -> MemoryModel:
    """A memory by name or YAML file; ``board``: that of the board."""
    from tilewright.host.machine.board import load_memory

    with fields_named({"memory": "--memory"}):
        return load_memory(name, board)


def simulated_memory(context: typer.Context, memory: str, board: str) -> MemoryModel:
    """`read_memory` of a command whose board is asked for its memory alone."""
    if memory != "board":
        refuse_given(
            context,
            ("board",),
            "names the memory where --memory is 'board'",
            value=memory,
            remedy="leave one of both out",
        )
    return read_memory(memory, board)


@contextlib.contextmanager
def replacing(path: Path | None) -> Iterator[None]:
    """Tell that a file replaced an earlier one, once it has been written inside this context."""
    existed = path is not None and path.is_file()
    yield
    if path is not None and existed:
        tell_replaced(path)


def tell_replaced(path: Path) -> None:
    """Say on standard error that a file of a user's has been replaced."""
    say(f"{printable(str(path))}: replaced the file that was there", err=True)
