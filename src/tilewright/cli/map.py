# SPDX-License-Identifier: Apache-2.0
"""`tilewright map`: the best mapping of a layer's loops onto a described accelerator."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tilewright.cli.common import arguments
from tilewright.cli.common.application import TUNE, app, open_console
from tilewright.cli.common.json_output import JsonOption, JsonTarget, json_path
from tilewright.cli.common.options import from_fields
from tilewright.cli.common.parse_errors import UsageError
from tilewright.cli.common.progress import Steps, progress
from tilewright.host.common.errors import fields_named
from tilewright.host.common.names import file_stems
from tilewright.host.common.printable import printable
from tilewright.tuner.mapping.options import DEFAULT_BUDGET, EXACT, MapOptions
from tilewright.tuner.study.options import split_layers

if TYPE_CHECKING:
    from tilewright.tuner.mapping.architecture import Architecture
    from tilewright.tuner.mapping.exact import Progress
    from tilewright.tuner.mapping.find import Finder, Found
    from tilewright.tuner.mapping.nest import LoopNest

_FIELDS: Final = {
    **arguments.MODEL_FIELDS,
    "hardware": "--hardware",
    "mapper": "--method",
    "tuner": "--method",
}


_FILES: Final = (".yaml", ".timeloop.yaml", ".zigzag.yaml")
"""Endings of the files of a layer: ours, Timeloop's, ZigZag's."""


@app.command("map", rich_help_panel=TUNE)
@from_fields(MapOptions)
def map_layers(
    target: Annotated[
        str,
        typer.Argument(
            metavar="LAYER|MODEL",
            help="NETWORK:LAYER, or every layer of a built-in network, ONNX file, compiled network "
            "(.tw) or YAML table of layers.",
        ),
    ],
    *,
    hardware: Annotated[
        str,
        typer.Option(metavar="ARCHITECTURE", help="Described accelerator: a name or a YAML file."),
    ] = "flexible-256",
    layers: arguments.LayersOption = "",
    settings: MapOptions,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Write each layer's mapping there: our YAML, Timeloop's and ZigZag's.",
        ),
    ] = None,
    json: JsonOption = None,
) -> None:
    """Find the best mapping of layers onto an accelerator: tiles, loop orders, parallel loops."""
    from tilewright.tuner.mapping.architecture import load_architecture
    from tilewright.tuner.mapping.find import finder

    if output is not None and output.exists() and not output.is_dir():
        raise UsageError(
            "must be a folder", field="--output", value=str(output), remedy="name a new folder"
        )
    for option, given, exact in (
        ("--seconds", settings.seconds, True),
        ("--gap", settings.gap, True),
        ("--budget", settings.budget, False),
    ):
        if given is not None and exact != (settings.method == EXACT):
            raise UsageError(
                "belongs to --method exact" if exact else "belongs to methods that sample",
                field=option,
                value=given,
                remedy="leave it out, or choose another --method",
            )
    with fields_named(_FIELDS):
        arch = load_architecture(hardware)
        nests = _nests(target, layers)
        find = finder(arch, settings)
    files = _files(output, nests, {"LAYER|MODEL": Path(target), "--hardware": Path(hardware)}, json)
    found: list[Found] = []
    end: BaseException | None = None
    try:
        with progress("", total=len(nests), quiet=json is not None) as steps:
            _map(nests, find, steps, found, files)
    except (KeyboardInterrupt, Exception) as error:
        end = error  # what was found before is told first
    if found:
        _print(found, nests, arch, settings.objective)
        if json is not None:
            json.write(
                [each.to_row() for each in found],
                {
                    "network": target,
                    "hardware": arch.name,
                    "objective": settings.objective,
                    "method": settings.method,
                    "budget": None
                    if settings.method == EXACT
                    else settings.budget or DEFAULT_BUDGET,
                    "seed": settings.seed,
                },
                summary={
                    "certified": len(found) == len(nests) and all(one.gap == 0 for one in found),
                    **_totals(found),
                },
            )
    if end is not None:
        raise end


def _nests(target: str, layers: str) -> list[LoopNest]:
    """The distinct loop nests of a layer or a network."""
    from tilewright.interface.layers import load_layer
    from tilewright.tuner.mapping.nest import nest_of, nests_of

    if ":" in target and not Path(target).is_file():
        if layers:
            raise UsageError(
                "takes a network; a layer was named",
                field="--layers",
                value=layers,
                remedy="leave it out, or name the network alone",
            )
        return [nest_of(load_layer(target))]
    nests = nests_of(arguments.read_network(target).select(split_layers(layers)))
    if not nests:
        raise UsageError(
            "has no layer that multiplies", field="LAYER|MODEL", value=target, remedy="name others"
        )
    return nests


def _map(
    nests: list[LoopNest],
    find: Finder,
    steps: Steps,
    found: list[Found],
    files: list[Path],
) -> None:
    """Map nests one after another; what is found is kept, and written, at once."""
    for done, nest in enumerate(nests):

        def show(at: Progress, nest: LoopNest = nest, done: int = done) -> None:
            steps.at(f"{nest.name}: gap {100 * at.gap:.2g} %", done, len(nests))

        steps.at(nest.name, done, len(nests))
        with fields_named(_FIELDS):
            one = find(nest, show)
        found.append(one)
        if files:
            _write(files[done], one)
        if one.stopped:
            raise KeyboardInterrupt


def _files(
    folder: Path | None,
    nests: list[LoopNest],
    read: dict[str, Path | None],
    json: JsonTarget | None,
) -> list[Path]:
    """Files of the layers, without their endings; they can be written, as far as can be known."""
    names = [] if folder is None else file_stems([nest.name for nest in nests], _FILES)
    found = [folder / name for name in names if folder is not None]
    written: dict[str, Path | None] = {
        f"--output ({stem.name}{ending})": stem.with_name(stem.name + ending)
        for stem in found
        for ending in _FILES
    }
    arguments.require_distinct(read, {**written, "--json": json_path(json)})
    for path in filter(None, written.values()):
        arguments.require_writable(path, "--output")
    return found


def _write(stem: Path, found: Found) -> None:
    import yaml

    from tilewright.host.common.whole_file import MARK, write_whole
    from tilewright.tuner.mapping.exchange import timeloop_yaml, zigzag_yaml

    nest, mapping = found.nest, found.mapping
    own = yaml.safe_dump(mapping.as_dict(), sort_keys=False, default_flow_style=None)
    texts = (own, timeloop_yaml(nest, mapping), zigzag_yaml(nest, mapping))
    for ending, text in zip(_FILES, texts, strict=True):
        write_whole(stem.with_name(stem.name + ending), f"# {MARK} (map)\n{text}")


def _print(found: list[Found], nests: list[LoopNest], arch: Architecture, objective: str) -> None:
    from rich.text import Text

    from tilewright.host.common.print_table import plain_table, print_table
    from tilewright.tuner.mapping.exchange import loop_lines

    console = open_console()
    if len(nests) == 1:
        for line in loop_lines(found[0].nest, found[0].mapping):
            console.say(line)
    table = plain_table("layer", "count", "cycles", "energy", "PEs", "busy", "gap", "seconds")
    for one in found:
        cost = one.cost
        busy = one.nest.macs / (cost["cycles"] * arch.pes)
        table.add_row(
            Text(printable(one.nest.name, limit=40)),
            str(one.nest.count),
            f"{cost['cycles']:,.0f}",
            f"{cost['energy']:.4g}",
            f"{cost['pes']:,.0f}",
            f"{100 * busy:.1f} %",
            "not proven" if one.gap is None else f"{100 * one.gap:.2g} %",
            f"{one.seconds:.2f}",
        )
    print_table(table, console)
    for one in found:
        if one.stopped:
            name = printable(one.nest.name, limit=40)
            console.say(f"{name} was stopped: its best mapping so far, not the final one")
    totals = _totals(found)
    shown = "" if len(found) == len(nests) else f"{len(found)} of {len(nests)} layers: "
    console.say(
        f"{shown}{totals['cycles']:,.0f} cycles, energy of {totals['energy']:.4g} "
        f"multiply-accumulates on {arch.name}, "
        f"least {objective} per layer"
    )


def _totals(found: list[Found]) -> dict[str, float]:
    """Cycles and energy of the layers one after another, repetitions counted."""
    return {
        name: sum(one.nest.count * one.cost[name] for one in found) for name in ("cycles", "energy")
    }
