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
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from tilewright.bench.commands import ExecutionSettings
from tilewright.bench.framework.records import Cell, Row
from tilewright.bench.framework.study import Study
from tilewright.bench.speed.store import Amounts, Record, stores, timed
from tilewright.host.common.children import python_command
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

LIMIT = 100_000_000


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


def flushes_per_s(folder: Path, number: int) -> float:
    """What the disk does at most: small appends, each forced out."""
    with (folder / "flush").open("wb", buffering=0) as file:

        def flush() -> None:
            file.write(b"x" * 4096)
            os.fdatasync(file.fileno())

        return number / sum(timed(flush) for _ in range(number))


@contextmanager
def places(url: str) -> Iterator[dict[str, Callable[[], Path | str]]]:
    """Makers of new stores: SQLite in a folder, PostgreSQL on the tests' or on a given server."""
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
        del cell
        given, amounts = self.settings, self.amounts
        build_model(load_hwconfig(given.hw))
        with places(given.postgres) as found:
            yield from start_up(amounts)
            yield from parts(given.hw, amounts)
            yield from executors(given.hw, amounts, ray=given.ray)
            yield from stores(amounts, found)

    def conditions(self) -> Row:
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
        return summarise(rows)

    def line(self, row: Row) -> str:
        words = (f"{k} {v:,}" if isinstance(v, int) else f"{k} {v}" for k, v in row.items())
        return ", ".join(words)
