# SPDX-License-Identifier: Apache-2.0
"""Confirmation: what won on the twin is measured again on the RTL.

A *screened* study searches on the twin and stores those trials as study ``NAME/screen``; study
``NAME`` holds the confirmations alone: the untuned schedules on the base configuration and the best
schedules, each measured at the fidelity that the user asked for. A confirmation repeats a
measurement that was charged already, so it costs no budget.

The twin counts the cycles of the RTL. A counter that differs is a defect, and ends the study with
the first instruction that diverges. On boards it is none: their memory is not the modelled one, and
the report shows both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tilewright.host.common.errors import TilewrightError
from tilewright.host.lowering import lower
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.schedule import Schedule
from tilewright.sim.twin.device import Twin
from tilewright.sim.twin.first_difference import first_difference
from tilewright.sim.verilator.device import VerilatorDevice
from tilewright.tuner.measure.measurement import Measurement, Status
from tilewright.tuner.measure.oracle import golden
from tilewright.tuner.store.records import StoredTrial
from tilewright.tuner.study.best_network import hw_of
from tilewright.tuner.study.results import StudyResult
from tilewright.tuner.study.session import Listener, Proposal, Session, StudyError
from tilewright.tuner.study.settings import StudySettings

PROGRESS_EVERY: Final = 100
"""Screened trials between two lines."""


@dataclass(frozen=True, kw_only=True)
class Finalist:
    """A trial to confirm."""

    proposal: Proposal  # what to measure
    screened: Measurement  # what the twin measured


def stopped_name(name: str, trials: int) -> str:
    """Name of the study that confirms the first trials of a screening that ran out of time.

    These trials are always the same, whatever the rest of the screening will find.
    """
    return f"{name}/at-{trials}"


def finalists(
    settings: StudySettings, screened: StudyResult, untuned: Sequence[StoredTrial]
) -> list[Finalist]:
    """The untuned schedules on the base, then the best schedule of each task."""
    if screened.best_network is None:
        raise StudyError(
            "no configuration runs every task: nothing to confirm",
            field=screened.study.name,
            remedy="raise the budget or the seconds, or start from a larger base",
        )
    best = [task.best for task in screened.tasks if task.best is not None]
    found: dict[tuple[str, str, str], Finalist] = {}
    for trial in [*untuned, *best]:
        key = (trial.task, trial.config_hash, str(sorted(trial.schedule.items())))
        found.setdefault(key, _finalist(settings, trial))
    return list(found.values())


def _finalist(settings: StudySettings, trial: StoredTrial) -> Finalist:
    task = next(task for task in settings.tasks if task.name == trial.task)
    return Finalist(
        proposal=Proposal(
            task=task,
            hw=hw_of(trial),
            schedule=Schedule.from_mapping(trial.schedule),
            origin=trial.origin,
        ),
        screened=trial.measurement,
    )


def confirm(session: Session, screened: StudyResult, chosen: Sequence[Finalist]) -> None:
    """Measure the finalists, and compare every counter with the twin's."""
    for config in screened.configs:
        hw = HwConfig.from_mapping(config.hw, origin=f"configuration {config.config_hash}")
        status = config.status if config.status != "measured" else "screened"
        session.adopt(config)
        session.record_config(hw, status, config.reason)
    for finalist in chosen:
        session.prepare(finalist.proposal.hw)
    answers = session.measure([finalist.proposal for finalist in chosen])
    used = {finalist.proposal.hw for finalist in chosen}
    for hw in used:
        session.record_config(hw, "measured")
    for finalist, answer in zip(chosen, answers, strict=True):
        if answer.status is Status.OK and answer.fidelity != Fidelity.BOARD:  # boards differ
            require_equal(finalist, answer, session.settings)


def require_equal(finalist: Finalist, answer: Measurement, settings: StudySettings) -> None:
    """The confirmed counters are the screened ones."""
    differing = [
        f"{name} {answer.counters[name]:,} instead of {value:,}"
        for name, value in finalist.screened.counters.items()
        if answer.counters.get(name) != value
    ]
    if not differing:
        return
    proposal = finalist.proposal
    raise StudyError(
        f"{answer.fidelity} and twin must count alike, but {proposal.task.name} on "
        f"{proposal.hw.name} with {proposal.schedule.to_mapping()} has {'; '.join(differing[:4])}; "
        f"{first_difference_of(proposal, settings)}",
        field="fidelity",
        remedy="this is a defect of Tilewright: report it with this line; --screen none avoids it",
    )


def first_difference_of(proposal: Proposal, settings: StudySettings) -> str:
    """The first instruction that retires in another cycle on the RTL than on the twin."""
    try:
        lowered = lower(proposal.hw, proposal.task, proposal.schedule)
        image = lowered.image(golden(proposal.hw, proposal.task)[0])
        device = VerilatorDevice(proposal.hw, settings.memory)
        try:
            twin = Twin(proposal.hw, settings.memory)
            return first_difference(device, twin, lowered.program, image)
        finally:
            device.close()
    except TilewrightError as error:
        return f"the first difference is not known ({error})"


class ScreeningListener:
    """Says now and then how a screening goes, instead of trial by trial."""

    def __init__(self, listener: Listener, settings: StudySettings) -> None:
        self._listener: Final = listener
        self._settings: Final = settings
        self._best: Final[dict[str, dict[str, int]]] = {}
        self._known = 0

    def trial(
        self, sequence: int, proposal: Proposal, measurement: Measurement, *, replayed: bool
    ) -> None:
        """Count a trial."""
        del sequence, replayed
        self._known += 1
        if measurement.valid and measurement.cycles is not None:
            arm = proposal.hw.name if self._settings.mode == "shared" else ""
            best = self._best.setdefault(arm, {})
            name = proposal.task.name
            best[name] = min(measurement.cycles, best.get(name, measurement.cycles))
        self._listener.advance(self._known, self._network())
        if self._known % PROGRESS_EVERY == 0:
            self.note(
                f"screened {self._known:,} of {self._settings.budget:,} on the twin: "
                f"{self._network()}"
            )

    def note(self, text: str) -> None:
        """Passed on."""
        self._listener.note(text)

    def stage(self, what: str, total: int) -> None:
        """Passed on."""
        self._listener.stage(what, total)

    def advance(self, known: int, text: str) -> None:
        """Passed on."""
        self._listener.advance(known, text)

    def _network(self) -> str:
        totals = [
            sum(best[task.name] * task.count for task in self._settings.tasks)
            for best in self._best.values()
            if len(best) == len(self._settings.tasks)
        ]
        return f"best network {min(totals):,} cycles" if totals else "no network yet"


def confirmed_settings(
    settings: StudySettings, screening: str, confirmations: int
) -> dict[str, Any]:
    """What the confirming study says of itself in the store."""
    return {
        **settings.to_mapping(),
        "budget": confirmations,
        "screen": {"fidelity": settings.screen, "study": screening, "budget": settings.budget},
    }
