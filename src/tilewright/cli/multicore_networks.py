# SPDX-License-Identifier: Apache-2.0
"""`tilewright multicore NETWORK... --system`: compiled networks at the same time on a system."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tilewright.cli.common.application import fail_wrong, open_console
from tilewright.cli.common.arguments import (
    read_board,
    read_memory,
    require_places,
    require_readable,
)
from tilewright.cli.common.json_output import JsonTarget, json_path
from tilewright.cli.common.parse_errors import UsageError
from tilewright.cli.common.progress import Steps, progress
from tilewright.cli.multicore_group import write_files
from tilewright.host.common.errors import fields_named
from tilewright.host.common.names import choices, counted
from tilewright.host.common.printable import printable

if TYPE_CHECKING:
    from tilewright.cli.multicore_options import MulticoreOptions
    from tilewright.host.compiler.pack.artefact import CompiledNetwork
    from tilewright.host.compiler.run.side_by_side import Measured, Tenant
    from tilewright.host.machine.board import Board
    from tilewright.host.machine.system_config import SystemConfig
    from tilewright.tuner.report.side_by_side_page import Slice

SUFFIX: Final = ".tw"
DISTINCT: Final = 2
"""Inputs of a network; more frames use them again."""


def run_networks(options: MulticoreOptions, json: JsonTarget | None) -> None:
    """Run compiled networks alone and together; the options are those of the command."""
    names, report, trace = options.targets, options.html, options.trace
    for name in names:
        if not name.lower().endswith(SUFFIX):
            raise UsageError(
                "must be a compiled network for --system",
                field="NETWORK",
                value=name,
                remedy=f"compile it, or leave --system out (files end in {SUFFIX})",
            )
        require_readable(Path(name), "NETWORK")
    read: dict[str, Path | None] = {name: Path(name) for name in (*names, options.system)}
    require_places(read, {"--html": report, "--trace": trace, "--json": json_path(json)})
    from tilewright.host.compiler.pack.artefact import load
    from tilewright.host.compiler.run.side_by_side import check_placement, measure
    from tilewright.host.machine.system_config import load_system, named_systems
    from tilewright.sim.devices import WITH_DATA, open_system
    from tilewright.tuner.report.side_by_side_page import page, write_trace

    if not options.system:
        raise UsageError(
            "must be given for compiled networks",
            field="--system",
            remedy=choices("", named_systems(), "systems", limit=None),
        )
    config = load_system(options.system)
    networks = [load(Path(name)) for name in names]
    placed = _cores(options.cores, len(networks), config)
    counts = _frames(options.frames, len(networks))
    shares = shared(config, options.weights, options.budgets, options.window)
    check_placement(config, networks, placed, options.system)
    target = _board(networks, names, options.board)
    timing = read_memory(options.memory, target)
    quiet = json is not None
    with progress("", quiet=quiet) as steps:
        check = options.device in WITH_DATA
        tenants = placed_networks(
            networks,
            placed,
            with_data=check,
            trusted=options.trust_model,
            seed=options.seed,
            steps=steps,
        )
        steps.say(f"building {config.name}")
        with closing(open_system(options.device, config, timing)) as opened:
            found = measure(opened, shares, tenants, counts, check=check, tell=steps.at)
    rows, summary = told(tenants, found, target.clock_mhz)
    conditions = {
        "system": config.name,
        "hw": [core.hw.parameters() for core in config.cores],
        "weights": [core.weight for core in shares.cores],
        "budgets": [[core.read_budget, core.write_budget] for core in shares.cores],
        "window": shares.window,
        "board": target.name,
        "memory": timing.name,
        "clock_mhz": target.clock_mhz,
        "fidelity": options.device,
        "seed": options.seed,
    }
    _print(rows, summary, conditions, config, target)
    if json is not None:
        json.write(rows, conditions, summary=summary)
    slices, other = _slices(tenants, found), {"system": config.name, **summary}
    write_files(
        report, lambda: page(rows, summary, conditions, slices),
        trace, lambda path: write_trace(path, slices, other),
    )  # fmt: skip
    if found.wrong_bytes:
        fail_wrong(f"{found.wrong_bytes} bytes differ from the reference")
    if found.stopped:
        raise KeyboardInterrupt


def placed_networks(
    networks: Sequence[CompiledNetwork],
    cores: Sequence[int],
    *,
    with_data: bool,
    trusted: bool,
    seed: int,
    steps: Steps,
) -> list[Tenant]:
    """The networks on their cores; with data: inferences on noise, as the reference runs them."""
    from tilewright.host.compiler.read.calibration import Calibration
    from tilewright.host.compiler.run.recorded import blank_frame, record
    from tilewright.host.compiler.run.side_by_side import Tenant
    from tilewright.sim.reference.device import ReferenceDevice

    tenants = []
    for number, (network, core) in enumerate(zip(networks, cores, strict=True)):
        if with_data:
            steps.say(f"{network.name} on the reference")
            noise = Calibration(random_samples=DISTINCT, seed=seed + number)
            with closing(ReferenceDevice(network.hw)) as reference:
                batches = noise.batches(network.inputs)
                frames = record(network, reference, batches, trusted=trusted)
        else:
            frames = [blank_frame(network)]
        same = sum(other.name == network.name for other in networks)
        name = network.name if same == 1 else f"{network.name} ({number})"
        tenants.append(Tenant(name=name, core=core, frames=frames))
    return tenants


def told(
    tenants: Sequence[Tenant], found: Measured, clock_mhz: float
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Rows and summary of what was measured; what was not is None."""
    from tilewright.host.compiler.run.side_by_side import jain

    sharing, together = found.sharing(), found.together
    rows = []
    for number, tenant in enumerate(tenants[: len(found.alone)]):
        mine = sharing[number] if sharing else None
        first, middle, worst = mine.latencies if mine else (None, None, None)
        waits = together.shares[tenant.core] if together else {}
        rows.append(
            {
                "network": tenant.name,
                "core": tenant.core,
                "frames": len(mine.times) if mine else None,
                "programs": len(tenant.frames[0].runs),
                "alone_cycles": found.alone[number].times[0][0].end,
                "together_cycles": round(mine.together, 1) if mine else None,
                "lost_cycles": round(mine.together - mine.alone, 1) if mine else None,
                "slow_down": round(mine.slow_down, 4) if mine else None,
                "latency_first": first,
                "latency_median": middle,
                "latency_worst": worst,
                "frames_per_s": round(mine.per_second(clock_mhz), 3) if mine else None,
                "read_waited": waits.get("read_waited"),
                "read_throttled": waits.get("read_throttled"),
                "write_waited": waits.get("write_waited"),
                "write_throttled": waits.get("write_throttled"),
                "wrong_bytes": together.wrong_bytes[number] if together else None,
                "cpu_ms": _cpu_ms(tenant),
            }
        )
    progress_of = [each.progress for each in sharing]
    ends = [each.times[-1].end for each in sharing]
    summary = {
        "makespan": together.makespan if together else None,
        "throughput": round(sum(progress_of), 4) if sharing else None,
        "jain": round(jain(progress_of), 4) if sharing else None,
        "overlap": round(min(ends) / max(ends), 4) if sharing else None,
        "wrong_bytes": found.wrong_bytes,
        "simulation_seconds": sum(
            ran.host_seconds for ran in (*found.alone, *([together] if together else []))
        ),
        "stopped": found.stopped,
    }
    return rows, summary


def _slices(tenants: Sequence[Tenant], found: Measured) -> list[Slice]:
    """The frames of the run together."""
    from tilewright.tuner.report.side_by_side_page import Slice

    return [
        Slice(
            network=tenant.name,
            number=number,
            core=tenant.core,
            begin=time.begin,
            end=time.end,
            alone=mine.alone,
        )
        for tenant, mine in zip(tenants, found.sharing(), strict=False)
        for number, time in enumerate(mine.times)
    ]


def _cpu_ms(tenant: Tenant) -> float | None:
    """Milliseconds per frame in the CPU's operators, on this machine."""
    found = [frame.cpu_seconds for frame in tenant.frames if frame.cpu_seconds is not None]
    return round(1e3 * max(found), 3) if found else None


def whole_numbers(text: str, field: str, count: int, what: str, *, least: int = 0) -> list[int]:
    """So many whole numbers of at least ``least``, separated by commas."""
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if len(found) != count or min(found, default=least) < least:
        apart = "" if count == 1 else ", separated by commas"
        above = f" of at least {least}" if least else ""
        raise UsageError(
            f"must be {counted(count, 'whole number')}{above}{apart}: one per {what}",
            field=field,
            value=text,
            remedy=f"write {','.join(map(str, range(1, count + 1)))}" if count > 1 else "write 1",
        )
    return found


def _cores(text: str, networks: int, system: SystemConfig) -> list[int]:
    if text:
        return whole_numbers(text, "--cores", networks, "network")
    if networks > len(system.cores):
        raise UsageError(
            f"{system.name} has only {len(system.cores)} cores",
            field="NETWORK",
            value=f"{networks} networks",
            remedy="choose a larger --system, or let networks share a core with --cores",
        )
    return list(range(networks))


def _frames(text: str, networks: int) -> int | list[int]:
    found = whole_numbers(text, "--frames", networks if "," in text else 1, "network", least=1)
    return found if "," in text else found[0]


def shared(config: SystemConfig, weights: str, budgets: str, window: int | None) -> SystemConfig:
    """A system with other shares of its ports."""
    count = len(config.cores)
    cores = list(config.cores)
    if weights:
        found = whole_numbers(weights, "--weights", count, "core")
        cores = [replace(core, weight=w) for core, w in zip(cores, found, strict=True)]
    if budgets:
        parts = [part.partition("/") for part in budgets.split(",")]
        reads = whole_numbers(",".join(p[0] for p in parts), "--budgets", count, "core")
        writes = whole_numbers(",".join(p[2] or p[0] for p in parts), "--budgets", count, "core")
        cores = [
            replace(core, read_budget=r, write_budget=w)
            for core, r, w in zip(cores, reads, writes, strict=True)
        ]
    named = {}
    for number in range(count):
        named[f"cores[{number}].weight"] = f"--weights (core {number})"
        for budget in ("read_budget", "write_budget"):
            named[f"cores[{number}].{budget}"] = f"--budgets (core {number})"
    with fields_named(named):
        system = replace(
            config, cores=tuple(cores), window=config.window if window is None else window
        )
    if window is not None and not any(c.read_budget or c.write_budget for c in system.cores):
        raise UsageError(
            "is that of budgets, and no core has one",
            field="--window",
            remedy="add --budgets, or leave it out",
        )
    return system


def _board(networks: Sequence[CompiledNetwork], names: Sequence[str], board: str) -> Board:
    """The board whose clock and memory count."""
    from tilewright.host.compiler.pack.target import target_board

    if board:
        return read_board(board)
    boards = [target_board(network) for network in networks]
    for name, other in zip(names, boards, strict=True):
        if other != boards[0]:
            raise UsageError(
                f"networks must be compiled for the same board and clock ({names[0]}: "
                f"{boards[0].name} at {boards[0].clock_mhz:g} MHz, {name}: {other.name} at "
                f"{other.clock_mhz:g} MHz)",
                field="--board",
                remedy="say with --board whose clock and memory count",
            )
    return boards[0]


def _print(
    rows: Sequence[dict[str, Any]],
    summary: dict[str, Any],
    conditions: dict[str, Any],
    config: SystemConfig,
    board: Board,
) -> None:
    from rich.text import Text

    from tilewright.host.common.print_table import plain_table, print_table
    from tilewright.host.machine.area import fits

    console = open_console()
    table = plain_table(
        "network", "core", "frames", "alone", "together", "slow-down", "first", "median", "worst",
        "frames/s", "waits",
    )  # fmt: skip
    for row in rows:
        done = row["frames"] is not None
        waits = sum(row[name] or 0 for name in WAITS)
        table.add_row(
            Text(printable(row["network"], limit=30)),
            str(row["core"]),
            f"{row['frames']}" if done else "-",
            f"{row['alone_cycles']:,}",
            f"{row['together_cycles']:,.0f}" if done else "-",
            f"{row['slow_down']:.3f}" if done else "-",
            *(f"{row[f'latency_{n}']:,.0f}" if done else "-" for n in ("first", "median", "worst")),
            f"{row['frames_per_s']:,.2f}" if done else "-",
            f"{100 * waits / summary['makespan']:.1f} %" if done else "-",
        )
    print_table(table, console)
    if summary["makespan"] is not None:
        console.say(
            f"{summary['makespan']:,} cycles, {summary['makespan'] / board.clock_mhz / 1e3:.2f} ms "
            f"at {board.clock_text()}; throughput {summary['throughput']:.3f} of {len(rows)}, "
            f"fairness {summary['jain']:.3f} (Jain); all cores busy for "
            f"{100 * summary['overlap']:.0f} % of it"
        )
    console.say(
        f"{conditions['system']}, {conditions['fidelity']}, memory {conditions['memory']}; "
        f"simulated in {summary['simulation_seconds']:.1f} s"
    )
    for row in rows:
        if row["programs"] > 1:
            here = "" if row["cpu_ms"] is None else f" ({row['cpu_ms']:.1f} ms on this machine)"
            console.say(
                f"{printable(row['network'], limit=30)}: {row['programs']} programs per frame; "
                f"the CPU's operators between them{here} take no time here"
            )
    fit = fits(config, board)
    if not fit.ok:
        console.say(f"note: {fit.text}")
    if summary["wrong_bytes"] == 0:
        console.say("memories of all programs: equal to the reference's, byte by byte")


WAITS: Final = ("read_waited", "read_throttled", "write_waited", "write_throttled")
"""Cycles in which a read or a write of a core waited at its arbiter."""
