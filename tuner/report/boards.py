# SPDX-License-Identifier: Apache-2.0
"""What a study on boards shows besides its cycles: spread, boards, and the twin beside them."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass

from tilewright.host.common.names import counted
from tilewright.tuner.measure.measurement import BoardRuns
from tilewright.tuner.report.drawing.table import Column, table_of
from tilewright.tuner.study.results import StudyResult


@dataclass(frozen=True, kw_only=True)
class BesideTwin:
    """The best schedule of a layer, on a board and on the twin."""

    layer: str  # its name
    cycles: int  # of the board, the median of its runs
    runs: BoardRuns  # that they rest on

    @property
    def difference(self) -> str:
        """The twin's cycles against the board's, in percent."""
        twin = self.runs.twin_cycles
        if not twin:
            return "-"
        percent = round(100 * (twin / self.cycles - 1), 1) + 0.0  # no -0.0
        return f"{percent:+.1f} %"


def beside_twin(result: StudyResult) -> list[BesideTwin]:
    """The best schedules that were measured on boards."""
    found = []
    for task in result.tasks:
        if task.best is not None and task.best.measurement.runs is not None:
            assert task.best_cycles is not None, "it is the best valid one"
            runs = task.best.measurement.runs
            found.append(BesideTwin(layer=task.name, cycles=task.best_cycles, runs=runs))
    return found


def board_lines(result: StudyResult) -> list[str]:
    """Who measured how often, how well it is known, and what loading bitstreams took."""
    runs = result.board_runs
    if not runs:
        return []
    trials = Counter(each.board for each in runs)
    made = sum(len(each.cycles) for each in runs)
    shares = [each.half_interval / statistics.median(each.cycles) for each in runs]
    loads = [each.reconfigure_seconds for each in runs if each.reconfigure_seconds]
    shared = ", ".join(
        f"{name} {counted(count, 'trial')}" for name, count in sorted(trials.items())
    )
    precision = (
        f"{made / len(runs):.1f} runs per trial, {sum(e.outliers for e in runs)} of {made} left "
        f"out as outliers; half a 95 % interval is {statistics.median(shares):.2%} of the cycles "
        f"in the median, {max(shares):.2%} at most"
    )
    lines = [f"boards: {shared}", precision]
    if loads:
        lines.append(f"bitstreams loaded {counted(len(loads), 'time')}, {sum(loads):.2f} s in all")
    return lines


def comparison_lines(result: StudyResult) -> list[str]:
    """The best schedule of each layer on a board and on the twin, a line each."""
    return [
        f"{each.layer}: {each.cycles:,} +- {each.runs.half_interval:,.0f} cycles on "
        f"{each.runs.board}, {each.runs.twin_cycles:,} on the twin ({each.difference})"
        for each in beside_twin(result)
    ]


def board_table(result: StudyResult) -> str:
    """What `comparison_lines` says, as HTML."""
    return table_of(
        "The best schedules on boards and on the twin",
        beside_twin(result),
        {
            Column(title="layer"): lambda each: each.layer,
            Column(title="board"): lambda each: each.runs.board,
            "cycles on the board": lambda each: f"{each.cycles:,}",
            "+- (95 %)": lambda each: f"{each.runs.half_interval:,.0f}",
            "runs": lambda each: str(len(each.runs.cycles)),
            "outliers": lambda each: str(each.runs.outliers),
            "cycles on the twin": lambda each: (
                f"{each.runs.twin_cycles:,}" if each.runs.twin_cycles else "-"
            ),
            "twin against board": lambda each: each.difference,
        },
    )
