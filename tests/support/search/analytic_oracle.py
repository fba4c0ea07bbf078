# SPDX-License-Identifier: Apache-2.0
"""An oracle of the analytic accelerator (`tilewright.testing.analytic`), and who listens to it."""

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from support.search.results import Found as StudyResult
from support.search.results import load_result

from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.registers import COUNTERS, UNIT_COUNTER_STATES, UNIT_NAMES
from tilewright.testing.analytic import BASE, BOARD, MEMORY, RULES, TASKS, cycles_of
from tilewright.tuner.measure.measurement import Measurement, Oracle, Request, Status
from tilewright.tuner.store.store import Store
from tilewright.tuner.study.session import Proposal
from tilewright.tuner.study.settings import StudySettings
from tilewright.tuner.study.study import run_study


def counters_of(cycles: int) -> dict[str, int]:
    """Consistent counters: every unit's states add up to the cycles."""
    counters = {name: 0 for name, _ in COUNTERS}
    counters["cycles"] = cycles
    for unit in UNIT_NAMES:
        states = [f"{unit}_{s}" for s, _ in UNIT_COUNTER_STATES if s != f"token_{unit}"]
        counters[states[0]] = cycles - (len(states) - 1) * (cycles // 10)
        for state in states[1:]:
            counters[state] = cycles // 10
    counters["macs_tiles"] = cycles // 2
    return counters


class AnalyticOracle:
    """Answers from `cycles_of`, in the order that ``shuffle`` gives, with failures on request.

    ``shuffle`` orders what waits whenever something joins it.

    Requests ``fail`` or are ``wrong`` by predicate; after ``stop_after`` answers it is Ctrl-C.
    """

    fidelity = "analytic"

    def __init__(
        self,
        *,
        shuffle: Callable[[list[int]], list[int]] = list,
        fail: Callable[[Request], bool] = lambda _: False,
        wrong: Callable[[Request], bool] = lambda _: False,
        stop_after: int | None = None,
        identity: str = "analytic-1",
    ) -> None:
        self.identity = identity
        self.measured: list[tuple[str, str, str]] = []
        self.prepared: list[str] = []
        self.most = 0  # requests that it had at once
        self._shuffle, self._fail, self._wrong = shuffle, fail, wrong
        self._stop_after = stop_after

    def prepare(self, hw: HwConfig) -> None:
        self.prepared.append(hw.name)

    def measure(self, requests: Sequence[Request]) -> Iterator[tuple[int, Measurement]]:
        waiting: list[int] = []
        taken = 0
        while taken < len(requests) or waiting:
            if taken < len(requests):
                waiting = self._shuffle([*waiting, *range(taken, len(requests))])
                taken = len(requests)
                self.most = max(self.most, len(waiting))
            position = waiting.pop(0)
            if self._stop_after is not None and len(self.measured) >= self._stop_after:
                raise KeyboardInterrupt
            request = requests[position]
            self.measured.append(request.key)
            yield position, self._answer(request)

    def _answer(self, request: Request) -> Measurement:
        def failed(status: Status, text: str) -> Measurement:
            return Measurement(
                status=status,
                fidelity=self.fidelity,
                failure=text,
                limit_cycles=request.max_cycles,
            )

        if self._fail(request):
            return failed(Status.FAILED, "made to fail")
        if self._wrong(request):
            return failed(Status.MISMATCH, "1 of 10 output elements differ")
        cycles = cycles_of(request.hw, request.workload, request.schedule)
        if cycles > request.max_cycles:
            return failed(Status.TIMEOUT, f"more than {request.max_cycles} cycles")
        return Measurement(
            status=Status.OK,
            fidelity=self.fidelity,
            cycles=cycles,
            counters=counters_of(cycles),
            limit_cycles=request.max_cycles,
            host_seconds=0.001,
            output_checked=True,
        )

    def close(self) -> None:
        pass


class Silent:
    """A listener that remembers."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.stages: list[tuple[str, int]] = []
        self.known = 0
        self.trials: list[tuple[int, str, bool]] = []

    def trial(
        self, sequence: int, proposal: Proposal, measurement: Measurement, *, replayed: bool
    ) -> None:
        self.trials.append((sequence, proposal.task.name, replayed))

    def note(self, text: str) -> None:
        self.notes.append(text)

    def stage(self, what: str, total: int) -> None:
        self.stages.append((what, total))

    def advance(self, known: int, text: str) -> None:
        self.known = known


# -- whole studies on the analytic accelerator ----------------------------------------------------

BUDGET = 60


def make(**changes: Any) -> StudySettings:
    values: dict[str, Any] = {
        "model": "net",
        "tasks": TASKS,
        "board": BOARD,
        "memory": MEMORY,
        "base": BASE,
        "budget": BUDGET,
        "configs": 3,
        "batch": 4,
        "tuner": "coordinate",
        **changes,
    }
    return StudySettings(**values)


def run(
    folder: Path,
    oracle: AnalyticOracle | None = None,
    *,
    study: str = "s",
    seconds: float | None = None,
    screening: AnalyticOracle | None = None,
    listener: Silent | None = None,
    **changes: Any,
) -> tuple[StudyResult, str]:
    """The result, and the name of the study that holds it."""
    settings = make(**changes)
    if settings.screen == "twin" and screening is None:
        screening = AnalyticOracle(identity="fast")
    with Store(folder / "s.sqlite") as store:
        kept = run_study(
            study,
            settings,
            store=store,
            oracle=oracle or AnalyticOracle(),
            rules=RULES,
            listener=listener or Silent(),
            screen=screening,
            seconds=seconds,
        )
        return load_result(store, kept.name), kept.name


def measured_one_by_one(oracle: Oracle, requests: Sequence[Request], width: int) -> list[Any]:
    """Answers of an oracle that gets one request more whenever it has answered one."""
    growing, answers = list(requests[:width]), dict[int, Measurement]()
    for position, answer in oracle.measure(growing):
        assert position not in answers
        answers[position] = answer
        growing += requests[len(growing) : len(growing) + 1]
    return [answers[position] for position in range(len(requests))]


def any_order(seed: int) -> Callable[[list[int]], list[int]]:
    """A ``shuffle`` of an oracle's: trials take unequal times."""
    rng = random.Random(seed)
    return lambda positions: rng.sample(positions, len(positions))


def course(result: StudyResult) -> list[tuple[Any, ...]]:
    return [
        (t.sequence, t.task, t.origin, t.config_hash, str(t.schedule), t.measurement.cycles)
        for t in result.trials
    ]
