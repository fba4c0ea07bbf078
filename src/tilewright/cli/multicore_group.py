# SPDX-License-Identifier: Apache-2.0
"""`tilewright multicore TASK`: a group of jobs of many networks, mapped onto many cores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tilewright.cli.common.application import open_console
from tilewright.cli.common.arguments import replacing, require_places
from tilewright.cli.common.json_output import JsonTarget, json_path
from tilewright.cli.common.progress import progress
from tilewright.host.common.errors import fields_named
from tilewright.host.common.printable import printable

if TYPE_CHECKING:
    from tilewright.cli.multicore_options import MulticoreOptions
    from tilewright.tuner.multicore.allocation import Timeline
    from tilewright.tuner.multicore.instance import Instance
    from tilewright.tuner.multicore.methods.mapper import Trace
    from tilewright.tuner.multicore.problems import Problem
    from tilewright.tuner.report.group_page import MappedGroup


def write_files(
    report: Path | None,
    page: Callable[[], str],
    trace: Path | None,
    write_trace: Callable[[Path], None],
) -> None:
    """Write the files that the user asked for."""
    from tilewright.tuner.report.drawing.page import write

    console = open_console()
    if report is not None:
        with replacing(report):
            write(page(), report, "--html")
        console.say(f"report: {printable(str(report))}")
    if trace is not None:
        with replacing(trace):
            write_trace(trace)
        console.say(f"trace: {printable(str(trace))} (view with ui.perfetto.dev)")


_FIELDS: Final = {
    "task": "TASK",
    "group mapper": "--method",
    "tuner": "--method",
}


def map_group(options: MulticoreOptions, json: JsonTarget | None) -> None:
    """Map a group of jobs; the options are those of the command."""
    (target,), method = options.targets, options.method
    from tilewright.tuner.multicore.allocation import Policy, timeline
    from tilewright.tuner.multicore.analyse import BandwidthModel
    from tilewright.tuner.multicore.bounds import lower_bound
    from tilewright.tuner.multicore.problems import Problem, instance_of, is_table
    from tilewright.tuner.multicore.solve import solver
    from tilewright.tuner.report.group_page import page, write_trace

    read: dict[str, Path | None] = {"TABLE": Path(target), "--platform": Path(options.platform)}
    html, trace = options.html, options.trace
    require_places(read, {"--html": html, "--trace": trace, "--json": json_path(json)})
    with fields_named(_FIELDS), progress("", quiet=json is not None) as steps:
        solve = solver(method, budget=options.budget, seed=options.seed)
        problem = Problem(
            target=target,
            platform="" if is_table(target) else options.platform,
            bandwidth=options.bandwidth,
            seed=options.seed,
            size=options.size,
            mini_batch=options.mini_batch,
            bw_model=BandwidthModel(options.bw_model),
            policy=Policy(options.policy),
        )
        instance = instance_of(
            problem, lambda done, total, what: steps.at(f"analyse {what}", done, total)
        )
        bound = lower_bound(instance).makespan
        found = solve(
            instance,
            lambda used, lowest: steps.at(f"{method}: {lowest:,.0f} cycles", used, options.budget),
        )
    mapping = found.mapping
    told = timeline(
        instance.table, instance.bandwidth, mapping.core[0], mapping.priority[0], instance.policy
    )
    _print(instance, told, found, bound, method)
    if json is not None:
        json.write(
            _rows(instance, told),
            {
                "task": target,
                "platform": problem.platform,
                "bytes_per_cycle": instance.bandwidth,
                "policy": str(instance.policy),
                "bw_model": options.bw_model,
                "size": instance.table.jobs,
                "mini_batch": options.mini_batch,
                "method": method,
                "budget": options.budget,
                "seed": options.seed,
            },
            summary={
                "makespan": found.makespan,
                "bound": bound,
                "gap_pct": round(100 * (found.makespan / bound - 1), 6),
                "samples": found.samples,
                "stopped": found.stopped,
                "curve": [[int(s) + 1, float(found.best[s])] for s in found.steps],
            },
        )
    group = _mapped(problem, instance, told, found, bound, method)
    write_files(html, lambda: page(group), trace, lambda path: write_trace(path, group))
    if found.stopped:
        raise KeyboardInterrupt


def _mapped(
    problem: Problem, instance: Instance, told: Timeline, found: Trace, bound: float, method: str
) -> MappedGroup:
    """The mapped group for its report and trace."""
    from tilewright.tuner.multicore.platform import load_platform
    from tilewright.tuner.report.group_page import MappedGroup

    cores = ["core"] * instance.table.cores
    where = ""
    if problem.platform:
        platform = load_platform(problem.platform)
        cores, where = [core.name for core in platform.cores], f" on {platform.name}"
    return MappedGroup(
        title=f"{problem.target}{where}, {instance.bandwidth:g} bytes per cycle",
        instance=instance,
        timeline=told,
        cores=cores,
        bound=bound,
        curve=[(int(step) + 1, float(found.best[step])) for step in found.steps],
        conditions=(
            f"{instance.table.jobs} jobs, seed {problem.seed}",
            f"bandwidth is shared by the policy {instance.policy}",
            f"method {method}, {found.samples:,} samples",
        ),
    )


def _rows(instance: Instance, told: Timeline) -> list[dict[str, object]]:
    """The jobs in the order in which they begin."""
    table = instance.table
    return [
        {
            "job": table.names[job],
            "core": int(told.core[job]),
            "start": float(told.start[job]),
            "end": float(told.end[job]),
            "latency": float(table.latency[job, told.core[job]]),
            "bytes": float(table.bytes[job, told.core[job]]),
        }
        for job in told.start.argsort(kind="stable").tolist()
    ]


def _print(instance: Instance, told: Timeline, trace: Trace, bound: float, method: str) -> None:
    from rich.text import Text

    from tilewright.host.common.print_table import plain_table, print_table

    console = open_console()
    table = plain_table("core", "jobs", "busy", "stalled", "first", "last")
    jobs = instance.table
    for core in range(jobs.cores):
        mine = [job for job in told.start.argsort(kind="stable") if told.core[job] == core]
        busy = sum(float(jobs.latency[job, core]) for job in mine)
        there = sum(float(told.end[job] - told.start[job]) for job in mine)
        names = [printable(jobs.names[mine[place]], limit=30) if mine else "-" for place in (0, -1)]
        table.add_row(
            str(core),
            str(len(mine)),
            f"{100 * busy / told.makespan:.1f} %",
            f"{100 * (there - busy) / told.makespan:.1f} %",
            *(Text(name) for name in names),
        )
    print_table(table, console)
    gain = 100 * (1 - bound / trace.makespan)
    console.say(
        f"{trace.makespan:,.0f} cycles by {method} after {trace.samples:,} samples; no mapping "
        f"takes less than {bound:,.0f}: "
        + (f"at most {gain:.3g} % to gain" if gain >= 0.01 else "less than 0.01 % to gain")
    )
