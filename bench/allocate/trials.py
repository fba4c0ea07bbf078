# SPDX-License-Identifier: Apache-2.0
"""Trials for `bench.allocate`: schedules measured on the twin when asked for, kept on disk.

A search is rested: what it proposes and finds depends on its seed and its own trials alone. So one
sequence of trials for each task and seed serves every allocator, and they are compared on the same
searches.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np

from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload, dense
from tilewright.host.network.zoo import collect, load_network
from tilewright.sim.twin.device import Refusal, Twin
from tilewright.sim.twin.native_lowering import NativeLowering, encode_schedules
from tilewright.tuner.allocate import Slot
from tilewright.tuner.allocate.slots import Pull
from tilewright.tuner.schedule.rules import Rules
from tilewright.tuner.schedule.spaces import ScheduleSpace
from tilewright.tuner.search import Result, make_tuner
from tilewright.tuner.study.session import BOUND_LIMIT, INCUMBENT_LIMIT, LIMIT_SLACK


@dataclass(frozen=True, kw_only=True)
class Price:
    """What a trial costs at a fidelity: these seconds, added up."""

    seconds_per_cycle: float
    seconds_per_instruction: float = 0.0
    seconds_per_trial: float
    source: str  # where the figures come from

    def seconds(self, trial: Trial) -> float:
        """The price of a trial."""
        return (
            trial.ran * self.seconds_per_cycle
            + trial.instructions * self.seconds_per_instruction
            + self.seconds_per_trial
        )


PRICES = {
    "rtl": Price(
        seconds_per_cycle=1 / 736_872,
        seconds_per_trial=0.005,
        source="full RTL: docs/explanation/measurement.md 736,872 cycles/s; docs/results/scaling.md"
        " about 5 ms per trial for lowering, image, transfer and comparison",
    ),
    "twin": Price(
        seconds_per_cycle=1 / 598_011_925,
        seconds_per_instruction=40e-9,
        seconds_per_trial=0.0002,
        source="twin: docs/explanation/measurement.md 598 M cycles/s on C9; 40 ns per instruction "
        "for lowering",
    ),
    "board": Price(
        seconds_per_cycle=1e-8,
        seconds_per_trial=0.1,
        source="board: 100 MHz and an assumed 0.1 s a trial for upload and call; no board was used",
    ),
}


Row = tuple[int, int, int, int]

_ROW_WORDS: Final = 5
"""Numbers of a row of a table's file."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One measured schedule."""

    cycles: int | None  # what it takes; None when the limit was reached
    ran: int  # cycles that were simulated
    instructions: int  # length of its program


class Table:
    """The schedules of a task, measured when asked for; rows are appended to one file.

    A row is five int64: index in the space, cycles (0: the limit was reached), cycles that ran,
    instructions, and a checksum of the four and of the file's name; a damaged row is no row.
    """

    def __init__(
        self, space: ScheduleSpace, twin: Twin, rules: Rules, folder: Path, identity: str
    ) -> None:
        self.space, self.twin, workload = space, twin, space.workload
        self.bound = rules.bound(space.hw, workload, twin.memory).cycles
        about = [space.hw.parameters(), asdict(twin.memory), workload.key, space.kind, identity]
        about.append("rows with checksums")
        digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"{workload.key}-{digest}.trials"
        self._shape = tuple(len(knob) for knob in space.knobs)
        self._lowering: NativeLowering | None = None
        self._new: list[Row] = []
        rows = np.frombuffer(self._whole_rows(), dtype=np.int64).reshape(-1, _ROW_WORDS)
        self._rows: dict[int, tuple[int, int, int]] = {
            flat: (cycles, ran, instructions)
            for flat, cycles, ran, instructions, checksum in rows.tolist()
            if checksum == self._checksum((flat, cycles, ran, instructions))
        }
        default = rules.default_schedule(space.hw, workload)
        self.default = space.encode(default)
        self.start = self.measure(default, None)

    def measure(self, schedule: Schedule, incumbent: float | None) -> Trial:
        """One trial under the cycle limit that a study sets (`tuner/study/session.py`)."""
        limit = 0
        if incumbent is not None:
            limit = int(min(BOUND_LIMIT * self.bound, INCUMBENT_LIMIT * incumbent)) + LIMIT_SLACK
        flat = int(np.ravel_multi_index(self.space.encode(schedule), self._shape))
        known = self._rows.get(flat)
        if known is None or (known[0] == 0 and (not limit or known[1] < limit)):
            known = self._run(flat, schedule, limit)
        cycles, ran, instructions = known
        if limit and (cycles == 0 or cycles > limit):
            return Trial(cycles=None, ran=limit, instructions=instructions)
        return Trial(cycles=cycles, ran=ran, instructions=instructions)

    def _run(self, flat: int, schedule: Schedule, limit: int) -> tuple[int, int, int]:
        if self._lowering is None:
            self._lowering = NativeLowering(self.space.hw, self.space.workload)
        batch = self.twin.batch(self._lowering, encode_schedules([schedule]), max_cycles=limit)
        refusal = Refusal(int(batch.refusals[0]))
        if batch.rules[0] or refusal not in (Refusal.NONE, Refusal.CYCLE_LIMIT):
            raise RuntimeError(
                f"{self.space.workload.name}: {schedule} was refused: {refusal.name}"
            )
        cycles = int(batch.cycles[0]) if refusal is Refusal.NONE else 0
        row = (flat, cycles, cycles or limit, int(batch.instructions[0]))
        self._new.append(row)
        self._rows[flat] = row[1:]
        return row[1:]

    def _whole_rows(self) -> bytes:
        """The rows of the file; a part of one, which a kill or a full disk left, is cut off."""
        if not self._path.exists():
            return b""
        data = self._path.read_bytes()
        whole = len(data) // (_ROW_WORDS * 8) * (_ROW_WORDS * 8)
        if whole < len(data):
            os.truncate(self._path, whole)
        return data[:whole]

    def _checksum(self, row: Row) -> int:
        return zlib.crc32(f"{self._path.name} {row}".encode())

    def save(self) -> None:
        """Append what is new to the file."""
        if self._new:
            with self._path.open("ab") as file:
                rows = [(*row, self._checksum(row)) for row in self._new]
                np.array(rows, dtype=np.int64).tofile(file)
            self._new = []


class Search:
    """The trials that a search tuner makes on a task, in order, as far as anyone has asked."""

    def __init__(self, table: Table, tuner: str, seed: int, *, untuned: bool = True) -> None:
        self.table = table
        key = int(table.space.workload.key[:8], 16)
        initial = (table.default,) if untuned else ()
        self._tuner = make_tuner(tuner, table.space, seed=(seed, key), initial=initial)
        self.start: int | None = None
        self._incumbent: float = math.inf
        if untuned:
            first = self._tuner.ask(1)
            assert first[0].index == table.default
            cycles = table.start.cycles
            assert cycles is not None, "the untuned schedule is measured without a limit"
            self.start, self._incumbent = cycles, float(cycles)
            self._tuner.tell([Result(index=table.default, value=float(cycles))])
        self.trials: list[Trial] = []
        self.seconds = 0.0
        """Spent inside the search tuner."""

    def trial(self, number: int) -> Trial | None:
        """A trial after the untuned schedule; None when the space is exhausted before."""
        while len(self.trials) <= number:
            started = time.perf_counter()
            candidates = self._tuner.ask(1)
            self.seconds += time.perf_counter() - started
            if not candidates:
                return None
            trial = self.table.measure(candidates[0].point, self._incumbent)
            value = None if trial.cycles is None else float(trial.cycles)
            started = time.perf_counter()
            self._tuner.tell([Result(index=candidates[0].index, value=value)])
            self.seconds += time.perf_counter() - started
            if trial.cycles is not None:
                self._incumbent = min(self._incumbent, trial.cycles)
            self.trials.append(trial)
        return self.trials[number]

    def future(self, trials: int, price: Price) -> tuple[np.ndarray, np.ndarray]:
        """Price spent and best cycles after each of the first trials, both of shape (trials,)."""
        found = [t for n in range(trials) if (t := self.trial(n)) is not None]
        best = [self.start or math.inf, *(t.cycles or math.inf for t in found)]
        spent = np.cumsum([price.seconds(t) for t in found])
        return spent, np.minimum.accumulate(np.array(best, dtype=float))[1:]


def replay(searches: Sequence[Search], price: Price) -> Pull:
    """A `Pull` that reads the searches from their beginning."""
    positions = [0] * len(searches)

    def pull(arm: int, length: float) -> Slot:
        prices: list[float] = []
        values: list[float | None] = []
        while sum(prices) < length:
            trial = searches[arm].trial(positions[arm])
            if trial is None:
                break
            positions[arm] += 1
            prices.append(price.seconds(trial))
            values.append(None if trial.cycles is None else float(trial.cycles))
        return Slot(prices=tuple(prices), values=tuple(values), exhausted=sum(prices) < length)

    return pull


def small_encoder() -> tuple[Workload, ...]:
    """A Transformer encoder of width 256, for choosing settings outside the study."""
    width, heads, blocks, rows = 256, 4, 4, 128
    return collect(
        [
            dense("projections", rows, width, width, count=4 * blocks),
            dense("scores", rows, width // heads, rows, count=heads * blocks),
            dense("context", rows, rows, width // heads, count=heads * blocks),
            dense("feed.expand", rows, width, 4 * width, count=blocks),
            dense("feed.project", rows, 4 * width, width, count=blocks),
        ]
    )


def tasks_of(network: str) -> tuple[Workload, ...]:
    """The tasks of a built-in network, or of ``encoder-small``."""
    return small_encoder() if network == "encoder-small" else load_network(network).workloads


class Tables:
    """The tables of tasks; equal tasks of several networks share one."""

    def __init__(
        self,
        hw: HwConfig,
        memory: MemoryModel,
        *,
        kind: str,
        rules: Rules,
        folder: Path,
        identity: str,
    ) -> None:
        twin = Twin(hw, memory)

        def make(task: Workload) -> Table:
            return Table(ScheduleSpace(task, hw, rules, kind), twin, rules, folder, identity)

        self._make = make
        self._tables: dict[str, Table] = {}

    def of(self, task: Workload) -> Table:
        """The table of a task."""
        if task.key not in self._tables:
            self._tables[task.key] = self._make(task)
        return self._tables[task.key]

    def save(self) -> None:
        """Keep every new trial."""
        for table in self._tables.values():
            table.save()
