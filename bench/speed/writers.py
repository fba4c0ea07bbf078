# SPDX-License-Identifier: Apache-2.0
"""Commits of a store by several writers at once, and how it is to open and to look up."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tilewright.bench.speed.store import requests, settings
from tilewright.bench.speed.timing import Amounts, Record, timed
from tilewright.host.common.children import spawn_context
from tilewright.tuner.store.database import Database
from tilewright.tuner.store.records import trial_row
from tilewright.tuner.store.schema import TRIALS
from tilewright.tuner.store.store import Store


def _write(location: Path | str, name: str, commits: int, barrier: Any, times: Any) -> None:
    """One writer: a study that commits trials, claims included, as a session does."""
    trials = list(requests(settings(commits), commits))
    with Store(location) as store:
        study = store.open_study(name, {}, {})
        barrier.wait()
        seconds = []
        for number, (task, request, measurement) in enumerate(trials):
            started = time.perf_counter()
            store.add_trial(
                study.id,
                sequence=number,
                task=task,
                origin="bench",
                request=request,
                measurement=measurement,
                oracle=f"bench-{name}",
                owner="bench",
            )
            seconds.append(time.perf_counter() - started)
        times.put(seconds)


def stores(amounts: Amounts, places: dict[str, Callable[[], Path | str]]) -> Iterator[Record]:
    """Commits/s of a store by several writers at once, and how it is to open and to look up."""
    context = spawn_context()
    for (kind, place), writers in ((p, w) for p in places.items() for w in amounts.writers):
        location = place()
        Store(location).close()
        barrier, times = context.Barrier(writers + 1), context.Queue()
        processes = [
            context.Process(
                target=_write, args=(location, f"study{n}", amounts.commits, barrier, times)
            )
            for n in range(writers)
        ]
        for process in processes:
            process.start()
        barrier.wait()
        started = time.perf_counter()
        each = [seconds for _ in processes for seconds in times.get()]
        whole = time.perf_counter() - started
        for process in processes:
            process.join()
        yield {
            "what": "store",
            "store": kind,
            "writers": writers,
            "commits_per_s": round(writers * amounts.commits / whole, 1),
            "commit_ms_median": round(1e3 * statistics.median(each), 2),
            "commit_ms_p99": round(1e3 * sorted(each)[int(0.99 * (len(each) - 1))], 2),
        }
    for (kind, place), rows in ((p, r) for p in places.items() for r in amounts.rows):
        yield _size(kind, place(), rows)


def _size(kind: str, location: Path | str, rows: int) -> Record:
    """A store with many trials: bytes per trial, seconds to open, to look up and to read all."""
    with Store(location) as store:
        study = store.open_study("a", {}, {})
        common = {"study_id": study.id, "origin": "bench"}
        rows_of_trials = [
            {**common, "task": task, "sequence": n, **trial_row(request, measurement, "bench")}
            for n, (task, request, measurement) in enumerate(requests(settings(rows), rows))
        ]
        keys = [row["key"] for row in rows_of_trials]
        database = Database(location)
        database.write(lambda connection: connection.execute(TRIALS.insert(), rows_of_trials))
        database.close()
        look = [
            timed(partial(store.measured, keys[n : n + 8])) for n in range(0, min(400, rows), 8)
        ]
        claim = [
            timed(partial(store.claim, [f"{n}-{i}" for i in range(8)], "bench", seconds=60))
            for n in range(20)
        ]
        read = timed(lambda: store.trials(study.id))
    opened = timed(lambda: Store(location, must_exist=True).close())
    return {
        "what": "store size",
        "store": kind,
        "trials": rows,
        "bytes_per_trial": location.stat().st_size // rows if isinstance(location, Path) else None,
        "open_ms": round(1e3 * opened, 2),
        "look_up_8_ms": round(1e3 * statistics.median(look), 2),
        "claim_8_ms": round(1e3 * statistics.median(claim), 2),
        "read_all_ms": round(1e3 * read, 1),
    }
