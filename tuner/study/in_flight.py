# SPDX-License-Identifier: Apache-2.0
"""Measure without waiting for a batch: each trial is learned from when it ends.

With ``asynchronous`` = N a study keeps N trials on their way. When one ends, its search learns from
it and the next trial starts, so a board never waits for a slower one. What a search proposes then
depends on the order in which trials end, and no seed fixes that. The store does: the number of a
trial is its place among the ends. A study that is taken up again, or that several processes run
together, takes the ends in the order that is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tilewright.tuner.measure.measurement import Measurement, Request
from tilewright.tuner.study.session import (
    Proposal,
    Session,
    TimeUp,
    TrialIdentity,
    overspent,
    trial_identity,
    unanswered,
)


class Course(Protocol):
    """Who wants trials, one at a time."""

    def wish(self) -> tuple[Proposal, Any] | None:
        """The next trial, and what `learn` gets back with its answer; None: not now."""
        ...

    def learn(self, ticket: Any, answer: Measurement) -> None:
        """A trial has ended."""
        ...


def run_in_flight(session: Session, courses: Sequence[Course]) -> None:
    """Serve courses until none has a wish and nothing is on its way.

    An earlier course is served before a later one.

    Raises:
        TimeUp: the time for new trials is over; what was on its way is stored.
    """
    flight = InFlight(session)
    tickets: dict[TrialIdentity, tuple[Course, Any]] = {}
    end: TimeUp | None = None
    while True:
        while end is None and len(tickets) < session.settings.asynchronous:
            try:
                wish = next(((c, w) for c in courses if (w := c.wish()) is not None), None)
            except TimeUp as error:
                end = error
                break
            if wish is None:
                break
            course, (proposal, ticket) = wish
            tickets[flight.start(proposal)] = course, ticket
        landed = flight.land(last=end is not None) if tickets else None
        if landed is None:
            break
        identity, answer = landed
        course, ticket = tickets.pop(identity)
        course.learn(ticket, answer)
    if end is not None or tickets:
        raise end or TimeUp


@dataclass(frozen=True, kw_only=True)
class _Ended:
    """A trial that was measured here."""

    identity: TrialIdentity
    request: Request
    measurement: Measurement


class InFlight:
    """The trials of a session that are on their way."""

    def __init__(self, session: Session) -> None:
        self._session: Final = session
        self._open: Final[dict[TrialIdentity, Proposal]] = {}
        self._withheld: Final[set[TrialIdentity]] = set()
        """Those of them that nobody measures: the time for new trials is over."""
        self._asked: Final[list[TrialIdentity]] = []
        self._requests: Final[list[Request]] = []
        self._answers: Final = session.claims.measure(self._requests)
        self._ended: list[_Ended] = []

    def start(self, proposal: Proposal) -> TrialIdentity:
        """Send a trial on its way, unless it is stored or too late for a new one.

        Raises:
            StudyError: the budget does not allow it.
        """
        session = self._session
        if session.left < 1:
            raise overspent(1)
        request = session.request(proposal)
        identity = trial_identity(proposal, request)
        if session.number_of(identity) is None:
            if session.late:
                self._withheld.add(identity)
            else:
                self._requests.append(request)
                self._asked.append(identity)
        session.used += 1
        self._open[identity] = proposal
        return identity

    def land(self, *, last: bool = False) -> tuple[TrialIdentity, Measurement] | None:
        """The next trial that ends: the one that is stored as the next, or else whichever is first.

        None: nothing is on its way but what is too late, or, of the ``last`` ones, nothing that the
        course has asked for.

        Raises:
            StudyError: what is stored does not follow from the settings.
        """
        session = self._session
        number = session.used - len(self._open)
        while (held := session.stored_as(number)) is None:
            if not self._open.keys() - self._withheld:
                return None
            ended = self._ended.pop(0) if self._ended else self._await()
            if ended.identity not in self._open:  # another process of this study had it, too
                session.claims.give_up(ended.request)
                continue
            proposal = self._open[ended.identity]
            if session.commit(number, proposal, ended.request, ended.measurement):
                del self._open[ended.identity]
                return ended.identity, ended.measurement
            if session.stored_as(number) is None:  # another process of another version
                raise session.astray(f"trial {number} is stored as another one")
            self._ended.append(ended)
        waiting, stored = self._open.pop(held, None), session.stored(number)
        if waiting is None and last:
            return None
        if waiting is None or stored is None:
            raise session.astray(f"trial {number} is stored as another one")
        return held, session.tell_replayed(waiting, stored)

    def _await(self) -> _Ended:
        found = next(self._answers, None)
        if found is None:
            raise unanswered()
        position, measurement = found
        return _Ended(
            identity=self._asked[position],
            request=self._requests[position],
            measurement=measurement,
        )
