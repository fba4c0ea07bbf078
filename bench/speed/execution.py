# SPDX-License-Identifier: Apache-2.0
"""What a trial costs besides its simulation: dispatch, lowering, operands, checks, store, start-up.

Runs the trials of some layers through the executors, with one worker and with two, times the parts
of a trial, counts the commits of a store by one writer and by several on SQLite and PostgreSQL,
and works out the figures that `docs/results/scaling.md` plans with.
"""

from __future__ import annotations

import math
import os
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from tilewright.bench.framework.records import Cell, Row
from tilewright.bench.framework.study import Study
from tilewright.bench.speed.settings import ExecutionSettings
from tilewright.bench.speed.store import requests, settings
from tilewright.host.common.children import python_command, spawn_context
from tilewright.host.common.clone_parts import clone_part
from tilewright.host.lowering import default_schedule, lower
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.zoo import load_network
from tilewright.sim.executor.protocol import Executor
from tilewright.sim.executor.worker import WorkerPool
from tilewright.sim.verilator.build import build_model
from tilewright.sim.verilator.device import VerilatorDevice
from tilewright.tuner.measure.measurement import Measurement, Request
from tilewright.tuner.measure.oracle import DeviceOracle, compare, golden, rtl_identity
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.schedule.spaces import ScheduleSpace
from tilewright.tuner.store.database import Database
from tilewright.tuner.store.records import trial_row
from tilewright.tuner.store.schema import TRIALS
from tilewright.tuner.store.store import Store

LIMIT = 100_000_000
Record = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Amounts:
    """How much is measured."""

    layers: tuple[str, ...]
    trials: int
    jobs: int
    commits: int
    writers: tuple[int, ...]
    rows: tuple[int, ...]
    repeats: int


FULL = Amounts(
    layers=("C2", "C4", "C8", "C10"),
    trials=12,
    jobs=1000,
    commits=150,
    writers=(1, 2, 4, 8),
    rows=(1000, 20_000),
    repeats=3,
)
QUICK = Amounts(
    layers=("C4", "C10"), trials=8, jobs=200, commits=50, writers=(1, 2), rows=(500,), repeats=2
)


def requests_of(hw_name: str, amounts: Amounts) -> list[Request]:
    """Distinct trials: the untuned schedule of each layer and its neighbours."""
    hw, memory, rules = load_hwconfig(hw_name), load_memory("ideal"), host_rules()
    network, found = load_network("vta-resnet18"), []
    for name in amounts.layers:
        task = network[name]
        space = ScheduleSpace(task, hw, rules, "vta")
        default = default_schedule(hw, task)
        near: list[Schedule] = [default]
        for point in space.neighbours(space.encode(default)):
            schedule = space.decode(point)
            if rules.legal(hw, task, schedule).ok:
                near.append(schedule)
        found += [
            Request(hw=hw, workload=task, schedule=s, memory=memory, max_cycles=LIMIT)
            for s in near[: math.ceil(amounts.trials / len(amounts.layers))]
        ]
    return found[: amounts.trials]


def timed(action: Callable[[], object]) -> float:
    """Wall-clock seconds of a call."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


# -- parts of a trial -------------------------------------------------------------------------


def parts(hw_name: str, amounts: Amounts) -> Iterator[Record]:
    """Each step of a trial by itself, in this process, medians of repeats."""
    seen: set[str] = set()
    for request in requests_of(hw_name, amounts):
        if request.workload.name in seen:
            continue
        seen.add(request.workload.name)
        device = VerilatorDevice(request.hw, request.memory)
        operands = timed(partial(golden, request.hw, request.workload))
        samples: dict[str, list[float]] = {}
        for _ in range(amounts.repeats):
            started = time.perf_counter()
            lowered = lower(request.hw, request.workload, request.schedule)
            at_lowered = time.perf_counter()
            tensors, expected = golden(request.hw, request.workload)
            image = lowered.image(tensors)
            at_image = time.perf_counter()
            run = device.run(lowered.program, image, max_cycles=LIMIT)
            at_run = time.perf_counter()
            if compare(lowered.output(run.memory), expected):
                raise SystemExit(f"{request.workload.name} on {hw_name}: wrong output")
            ended = time.perf_counter()
            for name, seconds in (
                ("lowering", at_lowered - started),
                ("image", at_image - at_lowered),
                ("transfer", at_run - at_image - run.host_seconds),
                ("simulation", run.host_seconds),
                ("check", ended - at_run),
            ):
                samples.setdefault(f"{name}_ms", []).append(1e3 * seconds)
        device.close()
        yield {
            "what": "parts",
            "hw": hw_name,
            "layer": request.workload.name,
            "cycles": run.counters.cycles,
            "operands_once_ms": round(1e3 * operands, 2),
            **{name: round(statistics.median(values), 3) for name, values in samples.items()},
        }


# -- executors --------------------------------------------------------------------------------


def _answer(executor: Executor, number: int) -> None:
    for job in range(number):
        executor.submit(job, pow, job, 2)
    for outcome in executor.results():
        if not outcome.ok:
            raise SystemExit(f"a job of the round trips failed: {outcome.detail}")


def executors(hw_name: str, amounts: Amounts, *, ray: bool) -> Iterator[Record]:
    """Start-up, round trips, and trials/s with one and with two workers."""
    kinds: list[tuple[str, Callable[[int], Executor]]] = [("processes", WorkerPool)]
    if ray:
        from tilewright.sim.executor.ray_executor import RayExecutor  # noqa: PLC0415  (an extra: loaded when asked for)

        kinds.append(("ray", lambda workers: RayExecutor("local", workers)))
    requests = requests_of(hw_name, amounts)
    for (kind, make), workers in ((k, w) for k in kinds for w in (1, 2)):
        started = time.perf_counter()
        executor = make(workers)
        _answer(executor, 2 * workers)
        first = time.perf_counter() - started
        trip = timed(partial(_answer, executor, amounts.jobs)) / amounts.jobs
        oracle = DeviceOracle("rtl", executor)
        # Devices, operands and imports of the workers are there once, as in a long study.
        for _ in oracle.measure(requests[:: max(1, len(requests) // (4 * workers))]):
            pass
        inside, outside = [], []
        for _ in range(amounts.repeats):
            answers: dict[int, Measurement] = {}

            def collect(
                answers: dict[int, Measurement] = answers, oracle: DeviceOracle = oracle
            ) -> None:
                answers.update(oracle.measure(requests))

            outside.append(timed(collect))
            inside.append(sum(a.host_seconds for a in answers.values()))
            if bad := [a.failure for a in answers.values() if not a.valid]:
                raise SystemExit(f"a trial failed: {bad[0]}")
        oracle.close()
        yield {
            "what": "executor",
            "executor": kind,
            "hw": hw_name,
            "workers": workers,
            "start_seconds": round(first, 3),
            "round_trip_ms": round(1e3 * trip, 3),
            "trials": len(requests),
            "trials_per_s": round(len(requests) / statistics.median(outside), 2),
            "busy_share": round(
                statistics.median(inside) / workers / statistics.median(outside), 3
            ),
        }


def start_up(amounts: Amounts) -> Iterator[Record]:
    """Seconds of the command's first words."""
    for name, words in (
        ("help", ["-m", "tilewright.cli", "--help"]),
        (
            "import of a study",
            ["-c", "import tilewright.tuner.study.study, tilewright.tuner.measure.oracle"],
        ),
    ):
        times = [
            timed(partial(subprocess.run, python_command(*words), check=True, capture_output=True))
            for _ in range(amounts.repeats)
        ]
        yield {"what": "start-up", "name": name, "seconds": round(statistics.median(times), 3)}


# -- store ------------------------------------------------------------------------------------


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


def flushes_per_s(folder: Path, number: int) -> float:
    """What the disk does at most: small appends, each forced out."""
    with (folder / "flush").open("wb", buffering=0) as file:

        def flush() -> None:
            file.write(b"x" * 4096)
            os.fdatasync(file.fileno())

        return number / sum(timed(flush) for _ in range(number))


@contextmanager
def places(url: str) -> Iterator[dict[str, Callable[[], Path | str]]]:
    """Makers of new stores: SQLite in a folder, PostgreSQL on the tests' server or on a given one.

    A given server is written to in one database: only one measurement fits.
    """
    numbers = iter(range(1000))
    with tempfile.TemporaryDirectory(prefix="tilewright-bench-") as name:
        found: dict[str, Callable[[], Path | str]] = {
            "sqlite": lambda: Path(name) / f"{next(numbers)}.sqlite"
        }
        if url:
            found["postgresql"] = lambda: url
        else:
            server = clone_part("tests/support/postgres.py", "support.postgres")
            found["postgresql"] = server.new_database
        yield found


def summarise(records: Sequence[Row]) -> dict[str, float]:
    """The constants of the plan for many workers."""
    rows = [r for r in records if r["what"] == "parts"]
    names = ("lowering_ms", "image_ms", "transfer_ms", "simulation_ms", "check_ms")
    summary = {f"trial_{n}": round(statistics.median(r[n] for r in rows), 3) for n in names if rows}
    if rows:
        inside = sum(r[n] for r in rows for n in names)
        simulated = sum(r["simulation_ms"] for r in rows)
        summary["worker_overhead_share"] = round(1 - simulated / inside, 4)
    rate = {}
    for r in records:
        if r["what"] == "executor":
            kind = f"{r['executor']}_{r['workers']}"
            rate[kind] = r["trials_per_s"]
            summary[f"{kind}_round_trip_ms"] = r["round_trip_ms"]
            summary[f"{kind}_start_seconds"] = r["start_seconds"]
            summary[f"{kind}_trials_per_s"] = r["trials_per_s"]
        elif r["what"] == "store":
            summary[f"{r['store']}_commits_per_s_{r['writers']}"] = r["commits_per_s"]
        elif r["what"] == "start-up":
            summary[f"start_{r['name'].split()[0]}_seconds"] = r["seconds"]
    for kind in ("processes", "ray"):
        if f"{kind}_2" in rate:
            summary[f"{kind}_scaling_1_to_2"] = round(rate[f"{kind}_2"] / rate[f"{kind}_1"], 3)
    return summary


class Execution(Study):
    """Start-up, the parts of a trial, executors, and stores."""

    def __init__(self, settings: ExecutionSettings) -> None:
        super().__init__(settings)
        amounts = QUICK if settings.quick else FULL
        self.amounts: Final = (
            replace(amounts, writers=(1,), rows=()) if settings.postgres else amounts
        )
        self._before = os.getloadavg()[0]

    def measure(self, cell: Cell) -> Iterator[Row]:
        """Every part, one after another."""
        del cell
        given, amounts = self.settings, self.amounts
        build_model(load_hwconfig(given.hw))
        with places(given.postgres) as found:
            yield from start_up(amounts)
            yield from parts(given.hw, amounts)
            yield from executors(given.hw, amounts, ray=given.ray)
            yield from stores(amounts, found)

    def conditions(self) -> Row:
        """The hardware, the machine and its disk."""
        flushes = flushes_per_s(Path(tempfile.gettempdir()), 100)
        return {
            "fidelity": "full RTL in Verilator, outputs bit-exact",
            "rtl": rtl_identity(),
            "hw": self.settings.hw,
            "cpus": os.cpu_count(),
            "load_before": round(self._before, 2),
            "python": platform.python_version(),
            "amounts": vars(self.amounts),
            "disk_flushes_per_s": round(flushes, 1),
            "sqlite": "WAL, synchronous=FULL",
            "postgresql": "fsync and synchronous_commit on, local socket",
        }

    def summarise(self, rows: Sequence[Row]) -> Row:
        """See `summarise`."""
        return summarise(rows)

    def line(self, row: Row) -> str:
        """Every figure of a row."""
        words = (f"{k} {v:,}" if isinstance(v, int) else f"{k} {v}" for k, v in row.items())
        return ", ".join(words)
