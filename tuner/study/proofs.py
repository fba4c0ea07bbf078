# SPDX-License-Identifier: Apache-2.0
"""When a search may end: its best is proven to be within the study's tolerance (`within`).

A proof is made once the tuner had a slot of its own: its best then excludes most points by their
bounds. A better schedule that the proof finds is measured as a trial of the study. A proof that ran
out of time is made again only at the end, and only for a better best.

Proofs are stored with the configuration. A study that resumes answers from them, so it takes the
same course whatever a proof would find in its time now.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.schedule import Schedule
from tilewright.tuner.exhaustive.prove import Proof, Prover
from tilewright.tuner.schedule.spaces import JointPoint, ScheduleSpace
from tilewright.tuner.study.session import Session, TimeUp

if TYPE_CHECKING:
    from tilewright.tuner.study.task_search import TaskSearch

FIRST: Final = 2
"""Measurements of a search before it is proven: the untuned schedule, and what the tuner chose."""


def settle(
    session: Session, search: TaskSearch, configs: Sequence[HwConfig], *, last: bool = False
) -> bool:
    """Whether a search has ended with a proof; makes one if it is time for it.

    Args:
        session: of the study.
        search: of one task.
        configs: what it chooses from, if its points have their own configuration.
        last: no more is measured for it.
    """
    within, cycles = session.settings.within, search.fewest_cycles
    if within is None or search.proven or cycles is None:
        return search.proven
    places = [search.hw] if search.hw is not None else list(configs)
    floors = [session.bound(hw, search.task) for hw in places]
    known = session.proofs(places[0], search.task)
    early = search.measured < FIRST or (search.tries > 0 and not last)
    told = search.tries > 0 and known[-1].given == cycles
    if cycles > (1 + within) * min(floors) and (early or told):
        return False
    return _take(search, places, _proof(session, search, places, floors, cycles))


def _proof(
    session: Session,
    search: TaskSearch,
    places: Sequence[HwConfig],
    floors: Sequence[int],
    cycles: int,
) -> Proof:
    """The stored proof of these cycles, or a new one."""
    settings, task = session.settings, search.task
    for stored in session.proofs(places[0], task):
        if stored.given == cycles:
            return stored
    assert settings.within is not None
    left = session.seconds_left()
    prover = Prover(settings.memory, within=settings.within, workers=session.threads)
    spaces = [ScheduleSpace(task, hw, session.rules, settings.space) for hw in places]
    seconds = min(settings.proof_seconds, left)
    found = prover.prove(spaces, cycles, floors, seconds=seconds)
    if not found.proven and left < settings.proof_seconds:
        raise TimeUp  # the study goes on with a whole proof
    session.add_proof(places, task, found)
    return found


def _take(search: TaskSearch, places: Sequence[HwConfig], proof: Proof) -> bool:
    """Let a search know what was proven."""
    search.tries += 1
    search.proven = proof.proven
    if proof.schedule is not None:
        schedule = Schedule.from_mapping(proof.schedule)
        point: Schedule | JointPoint = schedule
        if search.hw is None:
            hw = next(hw for hw in places if f"{hw.config_hash:08x}" == proof.hw)
            point = JointPoint(hw=hw, schedule=schedule)
        search.awaited = search.suggest(point, "proof")
    return search.proven
