# SPDX-License-Identifier: Apache-2.0
"""What `tilewright map` prints: loops, and tables of costs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tilewright.cli.common.application import open_console
from tilewright.host.common.print_table import plain_table, print_table
from tilewright.host.common.printable import printable

if TYPE_CHECKING:
    from tilewright.tuner.mapping.architecture import Architecture
    from tilewright.tuner.mapping.find import Found
    from tilewright.tuner.mapping.front import Front
    from tilewright.tuner.mapping.nest import LoopNest


def percent(share: float) -> str:
    """A share with two digits; all of it with three."""
    return f"{100 * share:.{2 if share < 0.99 else 3}g} %"


def print_found(
    found: list[Found], nests: list[LoopNest], arch: Architecture, objective: str
) -> None:
    """The loops of a single layer, and a row per layer."""
    from rich.text import Text

    from tilewright.tuner.mapping.exchange import loop_lines

    console = open_console()
    if len(nests) == 1:
        for line in loop_lines(found[0].nest, found[0].mapping):
            console.say(line)
    table = plain_table("layer", "count", "cycles", "energy", "PEs", "busy", "gap", "seconds")
    for one in found:
        cost = one.cost
        table.add_row(
            Text(printable(one.nest.name, limit=40)),
            str(one.nest.count),
            f"{cost['cycles']:,.0f}",
            f"{cost['energy']:.4g}",
            f"{cost['pes']:,.0f}",
            busy(one.nest, cost, arch),
            "not proven" if one.gap is None else percent(one.gap),
            f"{one.seconds:.2f}",
        )
    print_table(table, console)
    for one in found:
        if one.stopped:
            name = printable(one.nest.name, limit=40)
            console.say(f"{name} was stopped: its best mapping so far, not the final one")
    sums = totals(found)
    shown = "" if len(found) == len(nests) else f"{len(found)} of {len(nests)} layers: "
    least = "" if found[0].best is not None else f", least {objective} per layer"
    console.say(
        f"{shown}{sums['cycles']:,.0f} cycles, energy of {sums['energy']:.4g} "
        f"multiply-accumulates on {arch.name}{least}"
    )


def busy(nest: LoopNest, cost: dict[str, float], arch: Architecture) -> str:
    """Multiply-accumulates over cycles times all PEs."""
    return f"{100 * nest.macs / (cost['cycles'] * arch.pes):.1f} %"


def totals(found: list[Found]) -> dict[str, float]:
    """Cycles and energy of the layers one after another, repetitions counted."""
    return {
        name: sum(one.nest.count * one.cost[name] for one in found) for name in ("cycles", "energy")
    }


def print_judged(found: Found, arch: Architecture, objective: str) -> None:
    """What a mapping costs at each level, and how far it is from the best one."""
    console, cost, best = open_console(), found.cost, found.best
    assert best is not None
    table = plain_table("cost", "given", "best")
    rows = {
        "cycles": "cycles",
        "energy": "energy",
        "energy x cycles": "",
        "area": "area",
        "cycles of the PEs": "compute_cycles",
        "DRAM to L2, weights, bytes": "dram_weight_bytes",
        "DRAM to L2, inputs, bytes": "dram_input_bytes",
        "DRAM and L2, outputs, bytes": "dram_output_bytes",
        "L2 read and written, bytes": "l2_moved_bytes",
        "L2 to PEs, bytes": "noc_in_bytes",
        "PEs to L2, bytes": "noc_out_bytes",
        "L1 filled and emptied, bytes": "delivered_bytes",
        "L1 needed, bytes": "l1_bytes",
        "L2 needed, bytes": "l2_bytes",
    }
    for told, name in rows.items():
        both = (each[name] if name else each["cycles"] * each["energy"]
                for each in (cost, best.cost))  # fmt: skip
        table.add_row(told, *(f"{v:,.0f}" if v < 1e9 else f"{v:.5g}" for v in both))
    table.add_row("PEs busy", *(busy(found.nest, each, arch) for each in (cost, best.cost)))
    print_table(table, console)
    above, most = (
        100 * (found.value / v - 1) if v else 0 if found.value == v else math.inf
        for v in (best.value, best.bound)
    )
    if best.optimal:
        said = f"{above:.2f} % above the best mapping, which is proven"
    else:
        proven = f"at most {most:.2f} % above any" if math.isfinite(most) else "nothing is proven"
        said = f"{above:.2f} % above the best mapping found, {proven}"
    console.say(f"{objective}: {said}")


def print_fronts(fronts: list[Front], arch: Architecture) -> None:
    """A row per mapping of each front."""
    from rich.text import Text

    console = open_console()
    table = plain_table("layer", "cycles", "energy", "clusters", "PEs", "busy")
    for front in fronts:
        for mapping, cost in front.points:
            table.add_row(
                Text(printable(front.nest.name, limit=40)),
                f"{cost['cycles']:,.0f}",
                f"{cost['energy']:.5g}",
                str(mapping.clusters),
                f"{cost['pes']:,.0f}",
                busy(front.nest, cost, arch),
            )
    print_table(table, console)
    for front in fronts:
        proof = "not proven: the search was ended early"
        if front.certified:
            proof = "proven" + (f" but for {percent(front.gap)}" if front.gap else "")
        console.say(
            f"{printable(front.nest.name, limit=40)}: {len(front.points)} mappings on {arch.name}, "
            f"{proof}, in {front.seconds:.2f} s"
        )
