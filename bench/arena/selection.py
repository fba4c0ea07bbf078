# SPDX-License-Identifier: Apache-2.0
"""Which records of a study a figure is of, and records by what they are of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from tilewright.bench.arena.records import Record

REFERENCE: Final = "autotvm"
"""What the seeds compare themselves with."""

BASELINE: Final = "random"


def headline(records: Sequence[Record]) -> tuple[list[Record], list[str]]:
    """Records of the hard tasks (of all, when none is hard) of the tuners that ran on each.

    Of a tuner's runs those of the seeds that it ran on every task, so that all tasks weigh alike.
    """
    hard = [r for r in records if r["hard"]] or list(records)
    complete = _balanced(complete_runs(hard))
    present = {r["tuner"] for r in complete}
    return complete, [tuner for tuner in by_key(hard, "tuner") if tuner not in present]


def common(records: Sequence[Record]) -> list[Record]:
    """Records of the hard tasks (of all, when none is hard) that every tuner ran on.

    Of a tuner's runs those of the seeds that it ran on every one of them.
    """
    hard = [r for r in records if r["hard"]] or list(records)
    tasks = (
        set.intersection(*({r["task"] for r in own} for own in by_key(hard, "tuner").values()))
        if hard
        else set()
    )
    return _balanced([r for r in hard if r["task"] in tasks])


def complete_runs(records: Sequence[Record]) -> list[Record]:
    """Records of the tuners that ran on every task that any of them ran on."""
    tasks = {r["task"] for r in records}
    return [
        r
        for rows in by_key(records, "tuner").values()
        if {r["task"] for r in rows} == tasks
        for r in rows
    ]


def _balanced(records: Sequence[Record]) -> list[Record]:
    """Of every tuner the records of the seeds that it ran on all of its tasks."""
    kept: list[Record] = []
    for rows in by_key(records, "tuner").values():
        seeds = [{r["seed"] for r in task} for task in by_key(rows, "task").values()]
        shared = set.intersection(*seeds)
        kept += [r for r in rows if r["seed"] in shared]
    return kept


def by_key(records: Iterable[Record], key: str) -> dict[Any, list[Record]]:
    """Records by one of their members, in order of first appearance."""
    groups: dict[Any, list[Record]] = {}
    for record in records:
        groups.setdefault(record[key], []).append(record)
    return groups


def by_run(records: Iterable[Record]) -> dict[tuple[str, int], Record]:
    """The record of each task and seed, of one tuner."""
    return {(r["task"], r["seed"]): r for r in records}
