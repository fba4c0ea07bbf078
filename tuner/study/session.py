# SPDX-License-Identifier: Apache-2.0
"""`Session`: every measurement of a search goes through it.

The session numbers proposals and answers from the store what an earlier run of the study measured.
It charges these answers too. It commits each new trial the moment it is known, and returns
measurements in proposal order, whatever the order in which workers finish. A search that uses only
these answers takes the same course again after a kill.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from tilewright.host.common.errors import TilewrightError
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload
from tilewright.sim.twin.native_lowering import encode_schedules
from tilewright.tuner.exhaustive.prove import Proof, least_bound
from tilewright.tuner.measure.energy import load_energy
from tilewright.tuner.measure.measurement import Measurement, Oracle, Request, hw_key
from tilewright.tuner.schedule.rules import Rules
from tilewright.tuner.schedule.schedule_bound import ScheduleBound
from tilewright.tuner.schedule.spaces import ScheduleSpace
from tilewright.tuner.store.claims import Claims
from tilewright.tuner.store.store import (
    DuplicateTrialError,
    Store,
    StoredConfig,
    StoredStudy,
    StoredTrial,
)
from tilewright.tuner.study.objective import Objective
from tilewright.tuner.study.settings import StudySettings

BOUND_LIMIT: Final = 20
"""A trial is stopped at this multiple of its layer's bound, or of the best cycles if that is above,
and the first one of a layer at this multiple of the bound of its schedule, ..."""

USUAL_LATENCIES: Final = 100
"""Cycles to read and to write that a memory has at most, unless it is slow."""

INCUMBENT_LIMIT: Final = 4
"""... or at this multiple of the best cycles of its task on its configuration, ..."""

CHEAP_POINTS: Final = 1 << 18
"""Points of a layer up to which each is bounded at the end of a study: some tenths of a second."""

LIMIT_SLACK: Final = 20_000
"""... plus this many cycles, so that short layers are not cut off by fixed latencies."""


TrialIdentity = tuple[str, str, str]
"""What a study holds at most once: task, configuration and the text of the schedule."""


class StudyError(TilewrightError):
    """A study cannot go on."""


def overspent(count: int) -> StudyError:
    """What is said of more trials than the budget has left."""
    return StudyError("more proposals than the budget allows", value=count)


def unanswered() -> StudyError:
    """What is said of an oracle that ends early."""
    return StudyError("the oracle left requests without an answer")


class TimeUp(Exception):  # noqa: N818  (an end, not an error)
    """The time for new trials is over; what was measured is stored."""


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A trial that a search wants.

    Attributes:
        hw, schedule: where and how.
        incumbent: best known cycles of the task, for the cycle limit; None: none yet.
    """

    task: Workload  # the workload
    hw: HwConfig
    schedule: Schedule
    origin: str  # ``default``, ``transfer`` or the tuner's name
    incumbent: int | None = None


def trial_identity(proposal: Proposal, request: Request) -> TrialIdentity:
    """Of a proposal and its request."""
    return proposal.task.name, hw_key(proposal.hw), request.key[2]


class Listener(Protocol):
    """Who is told how a study goes (a progress display)."""

    def trial(
        self, sequence: int, proposal: Proposal, measurement: Measurement, *, replayed: bool
    ) -> None:
        """A trial is known and committed."""
        ...

    def note(self, text: str) -> None:
        """Something else worth a line."""
        ...

    def stage(self, what: str, total: int) -> None:
        """A part of the study begins, of so many trials."""
        ...

    def advance(self, known: int, text: str) -> None:
        """So many trials of the stage are known; for a display that is drawn again and again."""
        ...


class Silent:
    """A listener that says nothing."""

    def trial(
        self, sequence: int, proposal: Proposal, measurement: Measurement, *, replayed: bool
    ) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Nothing."""

    def stage(self, what: str, total: int) -> None:
        """Nothing."""

    def advance(self, known: int, text: str) -> None:
        """Nothing."""


class Session:
    """Measures the proposals of one study."""

    def __init__(
        self,
        settings: StudySettings,
        *,
        store: Store,
        study: StoredStudy,
        oracle: Oracle,
        rules: Rules,
        listener: Listener,
        deadline: float | None = None,
        threads: int | None = None,
    ) -> None:
        self.settings: Final = settings
        self.rules: Final = rules
        self.energy: Final = load_energy(settings.energy)
        self.objective: Final = Objective(
            settings.objective,
            board=settings.board,
            base=settings.base,
            rules=rules,
            energy=self.energy,
        )
        self._deadline: Final = deadline
        self._store: Final = store
        self._study: Final = study
        self._oracle: Final = oracle
        self._listener: Final = listener
        self.claims: Final = Claims(store, oracle)
        self._stored: dict[TrialIdentity, int] = {}
        self._by_number: dict[int, TrialIdentity] = {}
        self._look_up()
        self.used = 0
        self._bounds: dict[tuple[str, str], int] = {}
        self.threads: Final = threads
        self._recorded: Final[dict[str, tuple[HwConfig, str, str]]] = {}
        self._proven: Final[dict[tuple[str, str], int]] = {}
        self._proofs: Final[dict[tuple[str, str], list[Proof]]] = {}
        for config in store.configs(study.id):
            self.adopt(config)

    @property
    def left(self) -> int:
        """Measurements that the budget still allows."""
        return self.settings.budget - self.used

    @property
    def replaying(self) -> bool:
        """Whether answers still come from a former run of this study."""
        return self.used < len(self._stored)

    @property
    def replayed(self) -> int:
        """Trials that a former run of this study left in the store."""
        return len(self._stored)

    def bound(self, hw: HwConfig, task: Workload) -> int:
        """Lower bound of a task's cycles on a configuration."""
        key = (hw_key(hw), task.name)
        if key not in self._bounds:
            self._bounds[key] = int(self.rules.bound(hw, task, self.settings.memory).cycles)
        return self._bounds[key]

    def network_bound(self, hw: HwConfig) -> int:
        """Lower bound of the network's cycles on a configuration."""
        return sum(self.bound(hw, task) * task.count for task in self.settings.tasks)

    def network_value_bound(self, hw: HwConfig) -> float:
        """No network on a configuration has a lower value under the study's objective."""
        return self.objective.network_bound(hw, self.settings.tasks, self.network_bound(hw))

    def close(self) -> None:
        """Give up what was going to be measured."""
        self.claims.close()

    def note(self, text: str) -> None:
        """Tell the listener."""
        self._listener.note(text)

    def prepare(self, hw: HwConfig) -> None:
        """Start a build in the background, unless a former run's answers still serve."""
        if not self.replaying:
            self._oracle.prepare(hw)

    def record_config(self, hw: HwConfig, status: str, reason: str = "") -> None:
        """Write down what became of a configuration."""
        area = self.rules.estimate(hw)
        fit = self.rules.fits(hw, self.settings.board)
        key = hw_key(hw)
        self._recorded[key] = (hw, status, reason)
        self._store.put_config(
            self._study.id,
            StoredConfig(
                config_hash=key,
                hw={"name": hw.name, **hw.parameters()},
                area={
                    "lut": area.lut,
                    "ff": area.ff,
                    "bram36": area.bram36,
                    "dsp": area.dsp,
                    "fits": fit.ok,
                    "text": fit.text,
                },
                bounds={
                    task.name: max(self.bound(hw, task), self._proven.get((key, task.name), 0))
                    for task in self.settings.tasks
                },
                status=status,
                reason=reason,
                proofs={
                    task.name: [proof.to_mapping() for proof in self.proofs(hw, task)]
                    for task in self.settings.tasks
                    if self.proofs(hw, task)
                },
            ),
        )

    def adopt(self, config: StoredConfig) -> None:
        """Take over what is proven of a configuration."""
        for task, proofs in config.proofs.items():
            self._proofs[config.config_hash, task] = [Proof.from_mapping(each) for each in proofs]
        for task, bound in config.bounds.items():
            self._proven[config.config_hash, task] = bound

    def proofs(self, hw: HwConfig, task: Workload) -> Sequence[Proof]:
        """Of a task, in order; those over several configurations stand with the first of them."""
        return self._proofs.get((hw_key(hw), task.name), ())

    def add_proof(self, configs: Sequence[HwConfig], task: Workload, proof: Proof) -> None:
        """Store a proof over configurations, and the bounds that follow from it."""
        self._proofs.setdefault((hw_key(configs[0]), task.name), []).append(proof)
        for hw in configs:
            key = (hw_key(hw), task.name)
            self._proven[key] = max(self._proven.get(key, 0), proof.bounds.get(key[0], 0))
            self.record_config(*self._recorded[key[0]])

    def tighten(self, hw: HwConfig) -> None:
        """Raise the bounds of a configuration where its schedules are few enough to bound each."""
        if not self.rules.bounds_schedules or hw_key(hw) not in self._recorded:
            return
        for task in self.settings.tasks:
            key = (hw_key(hw), task.name)
            if self._proven.get(key, 0) > self.bound(hw, task):
                continue
            space = ScheduleSpace(task, hw, self.rules, self.settings.space)
            if space.raw_size <= CHEAP_POINTS:
                self._proven[key] = least_bound(space, self.settings.memory) or 0
        self.record_config(*self._recorded[hw_key(hw)])

    def seconds_left(self) -> float:
        """Until no new trial is started.

        Raises:
            TimeUp: none are left.
        """
        left = math.inf if self._deadline is None else self._deadline - time.monotonic()
        if left <= 0:
            raise TimeUp
        return left

    @property
    def late(self) -> bool:
        """Whether no new trial is started any more."""
        return self._deadline is not None and time.monotonic() >= self._deadline

    def measure(self, proposals: Sequence[Proposal]) -> list[Measurement]:
        """Measure; answers in the order of the proposals."""
        if len(proposals) > self.left:
            raise overspent(len(proposals))
        first, self.used = self.used, self.used + len(proposals)
        answers: dict[int, Measurement] = {}
        open_positions, requests = [], []
        for position, proposal in enumerate(proposals):
            request = self.request(proposal)
            answer = self._replayed(first + position, proposal, request)
            if answer is None:
                open_positions.append(position)
                requests.append(request)
            else:
                answers[position] = answer
        if requests and self.late:
            raise TimeUp
        for number, measurement in self.claims.measure(requests):
            position = open_positions[number]
            answers[position] = self._commit(
                first + position, proposals[position], requests[number], measurement
            )
        if len(answers) != len(proposals):
            raise unanswered()
        return [answers[position] for position in range(len(proposals))]

    def request(self, proposal: Proposal) -> Request:
        """A proposal as the oracle is asked for it, with its limit of cycles."""
        limit = BOUND_LIMIT * self.bound(proposal.hw, proposal.task)
        if proposal.incumbent is not None:
            limit = max(limit, proposal.incumbent)
            limit = min(limit, INCUMBENT_LIMIT * proposal.incumbent)
        else:
            limit = max(limit, BOUND_LIMIT * self._first_bound(proposal))
        return Request(
            hw=proposal.hw,
            workload=proposal.task,
            schedule=proposal.schedule,
            memory=self.settings.memory,
            max_cycles=limit + LIMIT_SLACK,
        )

    def _first_bound(self, proposal: Proposal) -> int:
        """Of the schedule, which the bound of its layer may be far below: slow memories, reloads.

        Latencies are in no bound where they might overlap; longer ones than usual stretch it.
        """
        hw, task, schedule = proposal.hw, proposal.task, proposal.schedule
        if not self.rules.bounds_schedules or not self.rules.legal(hw, task, schedule).ok:
            return 0
        memory = self.settings.memory
        least = int(ScheduleBound(hw, task, memory).least(encode_schedules([schedule]))[0])
        return (
            least
            * max(USUAL_LATENCIES, memory.read_latency + memory.write_latency)
            // USUAL_LATENCIES
        )

    def _replayed(self, sequence: int, proposal: Proposal, request: Request) -> Measurement | None:
        """The answer from this study's former run."""
        number = self._stored.get(trial_identity(proposal, request))
        if number is None and sequence in self._by_number:
            raise self.astray(f"trial {sequence} is stored as another one")
        stored = None if number is None else self.stored(number)
        return None if stored is None else self._take(sequence, proposal, stored)

    def astray(self, how: str) -> StudyError:
        """What is said when the search does not take the course of its former run."""
        return StudyError(
            f"the stored trials do not follow from the settings ({how})",
            field=self._study.name,
            remedy="the software has changed since: start another study with --name",
        )

    def _take(self, sequence: int, proposal: Proposal, stored: StoredTrial) -> Measurement:
        """Answer from a trial that this study already holds."""
        if stored.sequence != sequence:
            raise self.astray(f"trial {sequence} is stored as {stored.sequence}")
        return self.tell_replayed(proposal, stored)

    def _commit(
        self, sequence: int, proposal: Proposal, request: Request, measurement: Measurement
    ) -> Measurement:
        """Store a trial; if another process of this study was first, what it stored counts."""
        if self.commit(sequence, proposal, request, measurement):
            return measurement
        number = self.number_of(trial_identity(proposal, request))
        found = None if number is None else self.stored(number)
        if found is None:  # another process of this study, of another version
            raise self.astray(f"trial {sequence} is stored as another one")
        return self._take(sequence, proposal, found)

    # -- the trials of the study, by number and by what they are ------------------------------

    def _look_up(self) -> None:
        self._stored = self._store.numbers(self._study.id)
        self._by_number = {number: identity for identity, number in self._stored.items()}

    def number_of(self, identity: TrialIdentity) -> int | None:
        """The number of a trial that this study holds; None: it does not, as far as is known."""
        return self._stored.get(identity)

    def stored_as(self, number: int) -> TrialIdentity | None:
        """Which trial this study holds under a number; None: none, as far as is known."""
        return self._by_number.get(number)

    def stored(self, number: int) -> StoredTrial | None:
        """A trial that this study holds."""
        return self._store.trial(self._study.id, number)

    def tell_replayed(self, proposal: Proposal, stored: StoredTrial) -> Measurement:
        """The answer of a stored trial, of which the listener is told."""
        self._listener.trial(stored.sequence, proposal, stored.measurement, replayed=True)
        return stored.measurement

    def commit(
        self, number: int, proposal: Proposal, request: Request, measurement: Measurement
    ) -> bool:
        """Store a trial; False: another process of this study was first, and is known now."""
        try:
            self._store.add_trial(
                self._study.id,
                sequence=number,
                task=proposal.task.name,
                origin=proposal.origin,
                request=request,
                measurement=measurement,
                oracle=self._oracle.identity,
                owner=self.claims.owner,
                energy=self.energy,
            )
        except DuplicateTrialError:
            self.claims.give_up(request)
            self._look_up()
            return False
        self._listener.trial(number, proposal, measurement, replayed=False)
        return True
