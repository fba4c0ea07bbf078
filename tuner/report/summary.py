# SPDX-License-Identifier: Apache-2.0
"""The summary of a study on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tilewright.host.common.names import counted
from tilewright.host.common.print_table import print_table
from tilewright.host.common.printable import printable
from tilewright.host.network.workload import Workload
from tilewright.tuner.measure.measurement import Status
from tilewright.tuner.report.boards import board_lines, comparison_lines
from tilewright.tuner.study.results import StudyResult, TaskResult, ratio, schedule_text

FULL_SHARE: Final = 0.9
"""Of a network's multiply-accumulates; a study that tunes fewer says so plainly."""


def share_lines(settings: Mapping[str, Any]) -> tuple[str, str]:
    """What is tuned and what is left out; and a warning if that is much, otherwise empty."""
    tasks = [Workload.from_mapping(task) for task in settings["tasks"]]
    layers, macs = sum(t.count for t in tasks), sum(t.macs * t.count for t in tasks)
    left = settings["cpu_operators"]
    share = macs / (macs + settings.get("cpu_macs", 0))
    text = f"tuned: {counted(layers, 'layer')} of {counted(len(tasks), 'shape')}, {macs:,} MACs"
    if left:
        text += f"; not tuned and not counted: {', '.join(left)}"
    if share >= FULL_SHARE:
        return text, ""
    return text, (
        f"WARNING: only {100 * share:.1f} % of the network's MACs are tuned, "
        f"{100 * (1 - share):.1f} % are left out: the cycles are not those of the network"
    )


def number(value: int | None) -> str:
    """A count with thousands separators; a dash when unknown."""
    return "-" if value is None else f"{value:,}"


def factor(value: float | None) -> str:
    """A speed-up; a dash when unknown."""
    return "-" if value is None else f"{value:.2f}x"


def percent(value: float | None) -> str:
    """A share in percent; a dash when unknown."""
    return "-" if value is None else f"{100 * value:.1f} %"


def task_table(result: StudyResult) -> Table:
    """Per task: default and best cycles, speed-up, bound, share of it, valid of all trials."""
    table = Table(
        title=Text(printable(result.study.name)),
        title_justify="left",
        box=box.SIMPLE,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    table.add_column("layer", no_wrap=True)
    headings = ("count", "default", "best", "speed-up", "bound", "of bound", "trials")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for task in result.tasks:
        table.add_row(
            Text(printable(task.name)),
            str(task.count),
            number(task.default_cycles),
            number(task.best_cycles),
            factor(task.speedup),
            number(task.bound),
            percent(task.of_bound),
            trial_counts(result, task.name)[0],
        )
    table.add_section()
    table.add_row(
        "network" if result.shared else "sum",
        str(sum(task.count for task in result.tasks)),
        number(result.default_network),
        number(result.best_network),
        factor(ratio(result.default_network, result.best_network)),
        number(result.bound_network),
        percent(ratio(result.bound_network, result.best_network)),
        trial_counts(result)[0],
    )
    return table


def trial_counts(result: StudyResult, task: str = "") -> list[str]:
    """Valid of all trials of the search, and of the confirmations where the study has some."""
    studies = [result] if result.screening is None else [result.screening, result]
    counts = []
    for study in studies:
        tasks = [each for each in study.tasks if task in ("", each.name)]
        counts.append(f"{sum(t.valid_trials for t in tasks)}/{sum(t.trials for t in tasks)}")
    return counts


def schedule_table(result: StudyResult) -> Table:
    """Per task: the best schedule, and its configuration in per-layer mode."""
    table = Table(box=box.SIMPLE, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("layer", no_wrap=True)
    if not result.shared:
        table.add_column("configuration", overflow="fold")
    table.add_column("best schedule", overflow="fold")
    for task in result.tasks:
        if task.best is None:
            continue
        hardware = (
            [] if result.shared else [Text(printable(result.config_name(task.best.config_hash)))]
        )
        table.add_row(Text(printable(task.name)), *hardware, schedule_text(task.best.schedule))
    return table


def hardware_lines(result: StudyResult) -> list[str]:
    """The chosen configuration with its area, and what became of the others."""
    lines = []
    if not result.shared:
        lines.append(
            "per-layer mode: each layer on its own configuration; reconfiguration and repacking "
            "between layers are not counted, and no single bitstream does this."
        )
    for config in result.configs:
        here = result.chosen is not None and config.config_hash == result.chosen.config_hash
        text = f"{'chosen ' if here else ''}{config.status} {config.hw['name']}"
        text += f" ({config.config_hash}): {config.area['text']}"
        lines.append(text + (f"; {config.reason}" if config.reason else ""))
    return lines


def condition_lines(result: StudyResult) -> list[str]:
    """Everything that the figures depend on."""
    settings = result.settings
    memory, board = settings["memory"], settings["board"]
    shared = memory["shared_bytes_per_cycle"]
    clock_source = board["sources"].get("clock_mhz") or board["sources"].get("clock") or "assumed"
    search = result.search
    sharing = f"{shared:g} B/cycle shared" if shared else "channels separate"
    lines = [
        (
            f"memory {memory['name']}: read latency {memory['read_latency']}, write latency "
            f"{memory['write_latency']} cycles; {memory['read_bytes_per_cycle']:g} B/cycle read, "
            f"{memory['write_bytes_per_cycle']:g} B/cycle written, {sharing}; "
            "a beat never takes less than a cycle"
        ),
        (
            f"board {board['name']} ({board['part']}), clock {board['clock_mhz']:g} MHz "
            f"({clock_source})"
        ),
        (
            f"fidelity {fidelity_text(result)}, mode {settings['mode']}, "
            f"tuner {settings['tuner']}, allocator {settings.get('allocator', 'headroom')}, "
            f"objective {settings.get('objective', 'latency')}, "
            f"space {settings['space']}, seed {settings['seed']}, "
            f"budget {search.summary.count} of {search.settings['budget']} measurements "
            f"({search.summary.cached} from earlier studies){_overlap(settings)}, "
            f"study {result.study.status}"
        ),
        *([f"RTL: a user's, {settings['rtl']}"] if settings.get("rtl") else []),
        "versions: " + ", ".join(f"{k} {v}" for k, v in result.study.versions.items()),
    ]
    return [*lines, share_lines(settings)[0]]


def _overlap(settings: Mapping[str, Any]) -> str:
    """How many trials were on their way at once, where none was waited for."""
    count = settings.get("asynchronous", 0)
    return f", {counted(count, 'trial')} on their way at once, told as they ended" if count else ""


def fidelity_text(result: StudyResult) -> str:
    """What measured, and how often it did where the search was on another fidelity."""
    fidelity = str(result.settings["fidelity"])
    if result.screening is None:
        return fidelity
    return (
        f"{fidelity} ({counted(result.summary.count, 'confirmation')} of "
        f"{result.screening.study.name}, which searched on {result.screening.settings['fidelity']})"
    )


def proof_lines(result: StudyResult) -> list[str]:
    """The certificate of each layer, and the measurements that they saved; none were asked for."""
    tolerance = result.tolerance
    if tolerance is None:
        return []
    lines = [
        _certificate(task, tolerance, result.scope)
        for task in result.tasks
        if task.best is not None
    ]
    search = result.search
    proven = len(result.tasks) - len(result.unproven)
    runs = sum(0 if task.proof is None else task.proof.run for task in result.tasks)
    text = (
        f"{proven} of {counted(len(result.tasks), 'layer')} proven within {100 * tolerance:g} %: "
        f"{search.summary.count:,} of {search.settings['budget']:,} measurements made"
    )
    text += f", {result.saved:,} saved" if result.saved else ""
    lines.append(f"{text}; the proofs ran {counted(runs, 'schedule')} more on the twin")
    if result.bound_of_configs is not None and len(result.configs) > 1:
        lines.append(
            f"on none of the {len(result.configs)} configurations of the study a network takes "
            f"fewer than {result.bound_of_configs:,} cycles"
        )
    return lines


def _certificate(task: TaskResult, tolerance: float, scope: str) -> str:
    gap = task.gap or 0.0
    verdict = f"{100 * gap:.2f} %"
    verdict = f"proven, gap {verdict}" if task.within(tolerance) else f"not proven: gap {verdict}"
    text = (
        f"{task.name}: {number(task.best_cycles)} cycles, no schedule{scope} takes fewer than "
        f"{number(task.bound)} ({verdict})"
    )
    proof = task.proof
    if proof is None:
        return f"{text}; by the bound of the layer"
    text += f"; of {proof.points:,} points bounds and rules excluded {proof.excluded:,}"
    if proof.run:
        text += f", runs on the twin {proof.run:,}"
    left = proof.points - proof.excluded - proof.run
    text += f", {left:,} are open" if left > 0 else ""
    text += f"; {proof.seconds:.1f} s"
    if task.best_cycles is not None and proof.cycles < task.best_cycles:
        text += f"; one takes {proof.cycles:,}, for which the budget had no measurement"
    return text


LOOSE: Final = "nothing beats it, but it may be loose: tilewright certify decides"
"""What every share of a bound is told with."""


def outcome_line(result: StudyResult) -> str:
    """The one sentence that a reader wants."""
    best, default = result.best_network, result.default_network
    if best is None:
        return "no complete network was measured"
    text = f"{result.settings['model']}: {best:,} cycles"
    if result.shared:
        text += f" = {result.milliseconds(best):.2f} ms at {result.clock_text}"
    if default is not None:
        text += f", {default / best:.2f}x the untuned {default:,}"
    bound = result.bound_network
    if bound is not None:
        text += f"; {100 * bound / best:.1f} % of the bound{result.scope} of {bound:,}"
        told = result.tolerance is not None and not result.unproven
        text += f" (proven within {100 * (result.tolerance or 0):g} %)" if told else f" ({LOOSE})"
    if result.shared and result.chosen is not None:
        text += f"; on {result.chosen.hw['name']}"
    return text


def failure_counts(result: StudyResult) -> dict[str, int]:
    """Status to number of trials, those of the search included, valid ones left out."""
    counts = {status.value: 0 for status in Status if status is not Status.OK}
    for study in (result, result.screening):
        for status in counts if study is not None else ():
            counts[status] += study.summary.statuses.get(status, 0) if study is not None else 0
    return {status: count for status, count in counts.items() if count}


def mismatch_lines(result: StudyResult) -> Iterable[str]:
    """One line for each trial whose output was wrong."""
    for trial in result.mismatches:
        yield (
            f"WRONG RESULT: trial {trial.sequence}, {trial.task} on "
            f"{result.config_name(trial.config_hash)}: {trial.measurement.failure}"
        )
    more = result.summary.statuses.get(Status.MISMATCH.value, 0) - len(result.mismatches)
    if more > 0:
        yield f"WRONG RESULT: and {more:,} more in the store"


def print_summary(result: StudyResult, console: Console) -> None:
    """Print the whole summary."""
    print_table(task_table(result), console)
    print_table(schedule_table(result), console)

    def print_lines(lines: Iterable[str], style: str = "") -> None:
        for line in lines:
            console.print(Text(printable(line), style=style), soft_wrap=True)

    print_lines(hardware_lines(result))
    print_lines([*board_lines(result), *comparison_lines(result)])
    print_lines(condition_lines(result), "dim")
    print_lines(proof_lines(result))
    failures = failure_counts(result)
    if failures:
        print_lines(["not valid: " + ", ".join(f"{n} {s}" for s, n in failures.items())])
    warning = share_lines(result.settings)[1]
    if warning:
        print_lines([warning], "bold yellow")
    print_lines(mismatch_lines(result), "bold red")
    print_lines([outcome_line(result)], "bold")
