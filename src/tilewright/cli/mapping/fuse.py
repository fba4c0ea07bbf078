# SPDX-License-Identifier: Apache-2.0
"""`tilewright map --fuse`: pairs of layers whose intermediate stays on chip."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.cli.common.application import open_console
from tilewright.cli.common.arguments import read_network
from tilewright.cli.common.parse_errors import UsageError
from tilewright.cli.common.progress import progress
from tilewright.cli.mapping.views import percent
from tilewright.host.common.print_table import plain_table, print_table
from tilewright.host.common.printable import printable
from tilewright.tuner.mapping.cost import Objective
from tilewright.tuner.mapping.exact import Certified, Progress, best_mapping
from tilewright.tuner.mapping.fused import Fused, Pair, best_fused, pair_of
from tilewright.tuner.study.options import split_layers

if TYPE_CHECKING:
    from tilewright.cli.common.json_output import JsonTarget
    from tilewright.host.network.network_table import NetworkTable
    from tilewright.tuner.mapping.architecture import Architecture
    from tilewright.tuner.mapping.options import MapOptions

Alone = tuple[Certified, Certified]
"""The best mappings of both layers, one after the other."""


def read_pairs(target: str, names: str) -> list[Pair]:
    """The pairs ``FIRST+SECOND,...`` of a network."""
    network = read_network(target)
    return [_pair(network, name) for name in split_layers(names)]


def _pair(network: NetworkTable, name: str) -> Pair:
    known = {each: network[each] for each in (*(w.name for w in network.workloads), *network.same)}
    places = [at for at, sign in enumerate(name) if sign == "+"]
    halves = [(name[:at].strip(), name[at + 1 :].strip()) for at in places]
    for first, second in halves:
        if first in known and second in known:
            return pair_of(known[first], known[second])
    for first, second in halves[:1]:
        _ = network[first], network[second]  # tells which one there is not
    raise UsageError(
        "must be two layers with + between them",
        field="--fuse",
        value=name,
        remedy="e.g. b2.expand+b2.depthwise",
    )


def map_pairs(
    pairs: list[Pair],
    arch: Architecture,
    settings: MapOptions,
    conditions: dict[str, Any],
    json: JsonTarget | None,
) -> None:
    """Map one pair after another, fused and alone; what is found before an end is told first."""
    objective = Objective(settings.objective)
    found: list[tuple[Fused, Alone]] = []
    end: BaseException | None = None
    try:
        with progress("", total=len(pairs), quiet=json is not None) as steps:
            for done, pair in enumerate(pairs):
                steps.at(_name(pair), done, len(pairs))

                def show(at: Progress, pair: Pair = pair, done: int = done) -> None:
                    del at
                    steps.at(_name(pair), done, len(pairs))

                fused = best_fused(
                    pair, arch, objective,
                    seconds=settings.seconds, gap=settings.gap or 0.0, listener=show,
                )  # fmt: skip
                first, second = (
                    best_mapping(nest, arch, objective, seconds=settings.seconds)
                    for nest in (pair.first, pair.second)
                )
                found.append((fused, (first, second)))
                if fused.stopped:
                    raise KeyboardInterrupt
    except (KeyboardInterrupt, Exception) as error:
        end = error
    if found:
        _print(found, arch, settings.objective)
        if json is not None:
            rows = [{**fused.to_row(), "alone": _alone(alone)} for fused, alone in found]
            certified = len(found) == len(pairs) and all(fused.optimal for fused, _ in found)
            json.write(rows, conditions, summary={"certified": certified})
    if end is not None:
        raise end


def _name(pair: Pair) -> str:
    return f"{pair.first.name}+{pair.second.name}"


def _alone(alone: Alone) -> dict[str, Any]:
    """Costs of both layers, one after the other, and whether both are proven to be the best."""
    return {
        "certified": all(one.optimal for one in alone),
        "cycles": sum(one.cost["cycles"] for one in alone),
        "energy": sum(one.cost["energy"] for one in alone),
        "dram_bytes": sum(
            value for one in alone for name, value in one.cost.items() if name.startswith("dram_")
        ),
    }


def _print(found: list[tuple[Fused, Alone]], arch: Architecture, objective: str) -> None:
    from rich.text import Text

    console = open_console()
    measure = "cycles" if objective == Objective.LATENCY else "energy"
    table = plain_table("pair", "step", "steps", measure, "DRAM bytes", "again", "gap")
    for fused, alone in found:
        cut, before = fused.cut, _alone(alone)
        macs = fused.pair.first.macs + fused.pair.second.macs
        table.add_row(
            Text(printable(_name(fused.pair), limit=40)),
            f"{cut.channels}x{cut.rows}x{cut.columns}",
            f"{fused.steps:,}",
            *(_changed(name, fused.cost, before) for name in (measure, "dram_bytes")),
            f"{100 * (fused.cost['macs'] / macs - 1):.1f} %",
            percent(fused.to_row()["gap"]),
        )
    print_table(table, console)
    for fused, _ in found:
        kept = ", ".join(fused.cut.kept) or "nothing else"
        end = "; stopped, not the best one" if fused.stopped else ""
        console.say(
            f"{printable(_name(fused.pair), limit=40)}: between steps L2 keeps {kept}; "
            f"{fused.tried:,} of {fused.cuts:,} cuts searched in {fused.seconds:.1f} s{end}"
        )
    proven = all(one.optimal for _, alone in found for one in alone)
    each = "the best mapping of each" if proven else "mappings of each that are not proven the best"
    console.say(f"on {arch.name}, least {objective}; in brackets: against {each}")


def _changed(measure: str, cost: dict[str, float], before: dict[str, Any]) -> str:
    """A cost, and how much more or less it is than before."""
    value = cost[measure]
    shown = f"{value:.4g}" if measure == "energy" else f"{value:,.0f}"
    return f"{shown} ({100 * (value / before[measure] - 1):+.1f} %)"
