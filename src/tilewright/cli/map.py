# SPDX-License-Identifier: Apache-2.0
"""`tilewright map`: the best mapping of a layer's loops onto a described accelerator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tilewright.cli.common import arguments
from tilewright.cli.common.application import TUNE, app
from tilewright.cli.common.json_output import JsonOption, JsonTarget, json_path
from tilewright.cli.common.options import from_fields
from tilewright.cli.common.parse_errors import UsageError
from tilewright.cli.common.progress import Steps, progress
from tilewright.cli.mapping.views import percent, print_found, print_judged, totals
from tilewright.host.common.errors import errors_in, fields_named
from tilewright.host.common.names import file_stems
from tilewright.tuner.mapping.options import DEFAULT_BUDGET, EXACT, MapOptions
from tilewright.tuner.study.options import split_layers

if TYPE_CHECKING:
    from tilewright.cli.mapping.evaluate import Evaluation
    from tilewright.tuner.mapping.architecture import Architecture
    from tilewright.tuner.mapping.exact import Progress
    from tilewright.tuner.mapping.find import Finder, Found
    from tilewright.tuner.mapping.fixed import Fixed
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
    context: typer.Context,
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
    fix: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE|FILE",
            help="Only mappings that have this: outer.tile.K=16, inner.order=K...YX, "
            "outer.parallel=C, clusters=8, or a YAML file with a part of a mapping. May be "
            "repeated.",
        ),
    ] = None,
    evaluate: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Tell what the mapping of this file costs, ours, Timeloop's or ZigZag's, and how "
            "far it is from the best one.",
        ),
    ] = None,
    pareto: Annotated[
        bool,
        typer.Option("--pareto", help="Find every best compromise of latency and energy, proven."),
    ] = False,
    fuse: Annotated[
        str,
        typer.Option(
            metavar="FIRST+SECOND,...",
            help="Keep what is between two layers on chip, and find the best mapping of such "
            "pairs, for latency or energy (the default).",
        ),
    ] = "",
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
    from tilewright.tuner.mapping.fixed import FREE, read_fixed

    if output is not None and output.exists() and not output.is_dir():
        raise UsageError(
            "must be a folder", field="--output", value=str(output), remedy="name a new folder"
        )
    _refuse_other_forms(context, settings, evaluate, pareto=pareto, fuse=fuse)
    with fields_named(_FIELDS):
        arch = load_architecture(hardware)
    read = {"LAYER|MODEL": Path(target), "--hardware": Path(hardware), "--evaluate": evaluate}
    read |= {f"--fix ({name})": Path(name) for name in fix or []}
    arguments.require_distinct(read, {"--json": json_path(json)})
    if fuse:
        from tilewright.cli.mapping.fuse import map_pairs, read_pairs

        with fields_named({"layer": "--fuse", "layers": "--fuse"}):
            pairs = read_pairs(target, fuse)
        if not arguments.is_given(context, "objective"):
            settings = replace(settings, objective="energy")
        with fields_named(_FIELDS):
            map_pairs(pairs, arch, settings, _conditions(target, arch, settings, FREE), json)
        return
    with fields_named(_FIELDS):
        nests = _nests(target, layers)
    with errors_in("--fix"):
        fixed = read_fixed(fix or [])
        for nest in nests:
            fixed.require_possible(nest, arch)
    judged: Evaluation | None = None
    if evaluate is not None:
        from tilewright.cli.mapping.evaluate import read_evaluation

        named = arguments.is_given(context, "hardware"), arguments.is_given(context, "objective")
        judged = read_evaluation(evaluate, nests, arch, settings.objective, named)
        arch, settings = judged.arch, replace(settings, objective=judged.objective)
    files = _files(output, nests, read, json)
    conditions = _conditions(target, arch, settings, fixed)
    if pareto:
        from tilewright.cli.mapping.front import map_fronts

        told = {**conditions, "objective": "pareto"}
        map_fronts(nests, arch, fixed, settings, told, json)
        return
    with fields_named(_FIELDS):
        find = judged.finder(settings, fixed) if judged else finder(arch, settings, fixed)

    def write(done: int, one: Found) -> None:
        if files:
            _write(files[done], one, arch, settings.objective)

    _map_layers(nests, find, write, (arch, settings.objective), judged, conditions, json)


def _map_layers(
    nests: list[LoopNest],
    find: Finder,
    write: Callable[[int, Found], None],
    on: tuple[Architecture, str],
    judged: Evaluation | None,
    conditions: dict[str, Any],
    json: JsonTarget | None,
) -> None:
    """Map or judge, print and write; what was found before an end is told first."""
    found: list[Found] = []
    end: BaseException | None = None
    try:
        with progress("", total=len(nests), quiet=json is not None) as steps:
            _map(nests, find, steps, found, write)
    except (KeyboardInterrupt, Exception) as error:
        end = error
    if found:
        print_found(found, nests, *on)
        rows = [each.to_row() for each in found]
        if judged is not None:
            print_judged(found[0], *on)
            judged.tell_other_cost(found[0])
            rows = [judged.row(found[0])]
        if json is not None:
            certified = len(found) == len(nests) and all(one.gap == 0 for one in found)
            json.write(rows, conditions, summary={"certified": certified, **totals(found)})
    if end is not None:
        raise end


def _conditions(
    target: str, arch: Architecture, settings: MapOptions, fixed: Fixed
) -> dict[str, Any]:
    return {
        "network": target,
        "hardware": arch.name,
        "objective": settings.objective,
        "method": settings.method,
        "budget": None if settings.method == EXACT else settings.budget or DEFAULT_BUDGET,
        "seed": settings.seed,
        "fixed": fixed.as_dict(),
    }


def _refuse_other_forms(
    context: typer.Context, settings: MapOptions, evaluate: Path | None, *, pareto: bool, fuse: str
) -> None:
    """Refuse options of another method, and of another form of the command."""
    exact = settings.method == EXACT
    for option, given, of_exact in (
        ("--seconds", settings.seconds, True),
        ("--gap", settings.gap, True),
        ("--evaluate", evaluate, True),
        ("--pareto", pareto or None, True),
        ("--fuse", fuse or None, True),
        ("--budget", settings.budget, False),
    ):
        if given is not None and of_exact != exact:
            raise UsageError(
                "belongs to --method exact" if of_exact else "belongs to methods that sample",
                field=option,
                value=given,
                remedy="leave it out, or choose another --method",
            )
    for form, is_given, names in (
        ("--pareto", pareto, ("objective", "evaluate", "output")),
        ("--fuse", bool(fuse), ("layers", "fix", "evaluate", "pareto", "output")),
    ):
        if is_given:
            arguments.refuse_given(context, names, f"does not go with {form}")


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
    write: Callable[[int, Found], None],
) -> None:
    """Map nests one after another; what is found is kept, and written, at once."""
    for done, nest in enumerate(nests):

        def show(at: Progress, nest: LoopNest = nest, done: int = done) -> None:
            steps.at(f"{nest.name}: gap {percent(at.gap)}", done, len(nests))

        steps.at(nest.name, done, len(nests))
        with fields_named(_FIELDS):
            one = find(nest, show)
        found.append(one)
        write(done, one)
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


def _write(stem: Path, found: Found, arch: Architecture, objective: str) -> None:
    import yaml

    from tilewright.host.common.whole_file import MARK, write_whole
    from tilewright.tuner.mapping.exchange import timeloop_yaml, zigzag_yaml

    nest, mapping = found.nest, found.mapping
    document = found.document(arch, objective)
    own = yaml.safe_dump(document, sort_keys=False, default_flow_style=None)
    texts = (own, timeloop_yaml(nest, mapping), zigzag_yaml(nest, mapping))
    for ending, text in zip(_FILES, texts, strict=True):
        write_whole(stem.with_name(stem.name + ending), f"# {MARK} (map)\n{text}")
