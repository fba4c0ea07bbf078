# SPDX-License-Identifier: Apache-2.0
"""`BoardOracle`: measures on boards, each served by an agent and driven by a thread here.

Boards are noisy, break and may compute wrongly, so

- a trial runs until the median of its cycles is known well enough (`repeats`);
- a connection that breaks is made again, and the agent asked whether the run has ended: its journal
  has the result then. A board that stays gone is reported, and its trial goes to another one;
- an output that is not bit-exact is refused. Another board decides who is wrong: the board, which
  then gets no more work, or what runs on it, which is a mismatch as on every fidelity;
- without a board that can go on, measuring ends with `EnvironmentFaultError`: nothing is stored
  for the trials that are left, and the same command goes on with them.

Trials of one configuration follow each other on a board, since loading a bitstream takes longer
than a run; what it took is told with the first of them.
"""

from __future__ import annotations

import hashlib
import json
import math
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from tilewright.host.common.errors import (
    ConfigError,
    DeviceError,
    EnvironmentFaultError,
    TilewrightError,
)
from tilewright.host.common.names import counted
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.runtime.agent.client import RemoteDevice
from tilewright.host.runtime.board_pool import BoardAddress
from tilewright.tuner.measure.backends import identity_of
from tilewright.tuner.measure.board_trial import WrongResultError, failed, run_trial
from tilewright.tuner.measure.measurement import (
    Measurement,
    Request,
    Status,
    hw_key,
)

_REMEDY: Final = (
    "start their agents again: nothing was stored for what is left, and the same command goes on "
    "from here"
)


RETRY_SECONDS: Final = 30.0
"""After so long a board that was gone is tried again."""

REACH_SECONDS: Final = 10.0
"""How long a board is asked for in the middle of a trial: an agent may start anew meanwhile."""
_REACH_PAUSE: Final = 0.5


@dataclass(kw_only=True)
class _Trial:
    """A request on its way."""

    position: int  # in what `BoardOracle.measure` was given
    request: Request  # what to measure
    # boards whose output was wrong, to where it was
    wrong: dict[str, str] = field(default_factory=dict)


@dataclass(kw_only=True, eq=False)
class _Board:
    """A board of the pool."""

    address: BoardAddress  # how to reach it
    device: RemoteDevice | None = None  # leased; None: not reached
    lost: str = ""  # why it gets no work; empty: it does
    retry_at: float = math.inf  # value of `time.monotonic` from which a lost one may be tried again
    suspected: bool = False  # another board decides whether it computes wrongly
    loaded: str = ""  # configuration that it holds or is about to load

    @property
    def name(self) -> str:
        return self.address.name


class BoardOracle:
    """An `Oracle` at fidelity ``board``."""

    def __init__(
        self,
        pool: Sequence[BoardAddress],
        *,
        board: str,
        configs: Sequence[HwConfig],
        digests: Mapping[str, str] | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._kind: Final = board
        self._wanted: Final = [hw_key(hw) for hw in configs]
        self._tell: Final = tell
        self._boards: Final = [_Board(address=address) for address in pool]
        self._digests: Final = dict(digests or {})
        self._changed: Final = threading.Condition()
        try:
            self._connect()
        except BaseException:
            self.close()
            raise
        text = json.dumps([board, sorted(self._digests.items())])
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        self._identity: Final = f"{identity_of(Fidelity.BOARD.value)}-{digest}"

    @property
    def fidelity(self) -> str:
        """``board``."""
        return Fidelity.BOARD.value

    @property
    def identity(self) -> str:
        """Digest of the lowering, the kind of board and the bitstreams."""
        return self._identity

    def prepare(self, hw: HwConfig) -> None:
        """A bitstream is loaded when its first trial runs."""

    def measure(self, requests: Sequence[Request]) -> Iterator[tuple[int, Measurement]]:
        """See `Oracle.measure`."""
        course = _Course()
        answered = 0
        try:
            while answered < len(requests):
                self._add(course, requests)
                answer = course.answers.get()
                if isinstance(answer, BaseException):
                    raise answer
                answered += 1
                yield answer
        finally:
            with self._changed:
                course.over = True
                self._changed.notify_all()
            for thread in course.threads.values():
                thread.join()

    def _add(self, course: _Course, requests: Sequence[Request]) -> None:
        """Take in what a course has not yet, with the boards that may work on it."""
        new = requests[course.taken :]
        if not new:
            return
        now = time.monotonic()
        with self._changed:
            course.waiting += [
                _Trial(position=p, request=r) for p, r in enumerate(new, course.taken)
            ]
            course.taken, course.left = len(requests), course.left + len(new)
            idle = [
                board
                for board in self._boards
                if board.name not in course.threads or not course.threads[board.name].is_alive()
            ]
            fresh = [board for board in idle if not board.lost or board.retry_at <= now]
            for board in fresh:
                course.threads[board.name] = threading.Thread(
                    target=self._work, args=(board, course), daemon=True
                )
                course.busy += 1
            if self._is_stuck(course):
                course.answers.put(self._fault(course))
            self._changed.notify_all()
        for board in fresh:
            course.threads[board.name].start()

    def _is_stuck(self, course: _Course) -> bool:
        """Whether no board is at work, and none may take what waits."""
        able = [board for board in self._boards if not board.lost]
        return not course.busy and not any(self._may_take(board, course) for board in able)

    def close(self) -> None:
        """Give the boards back."""
        for board in self._boards:
            if board.device is not None:
                board.device.close()
                board.device = None

    # -- boards -----------------------------------------------------------------------------

    def _connect(self) -> None:
        """Lease the boards that answer, and find out what they hold."""

        def lease(board: _Board) -> None:
            try:
                board.device = board.address.connect()
            except DeviceError as error:
                board.lost, board.retry_at = str(error), time.monotonic() + RETRY_SECONDS

        with ThreadPoolExecutor(len(self._boards)) as threads:
            list(threads.map(lease, self._boards))
        for board in self._boards:
            if board.device is None:
                self._tell(f"board {board.name} is left out: {board.lost}")
            else:
                self._check(board, board.device)
        if all(board.lost for board in self._boards):
            raise DeviceError(
                "no board of the pool answers",
                field=", ".join(board.name for board in self._boards),
                value=self._boards[0].lost,
                remedy="start their agents",
            )

    def _check(self, board: _Board, device: RemoteDevice) -> None:
        """Refuse a board that is not what the study measures."""
        if device.board != self._kind:
            raise ConfigError(
                f"every board of the pool must be a {self._kind}",
                field=f"board {board.name}",
                value=device.board,
                remedy="start its agent with that --board, or name another board for the study",
            )
        held = device.bitstreams
        board.loaded = hw_key(device.hw)
        for key in self._wanted:
            if key not in held:
                raise ConfigError(
                    f"must have a bitstream of configuration {key}",
                    field=f"board {board.name}",
                    value=", ".join(sorted(held)),
                    remedy="start its agent with that configuration, or with --bitstreams",
                )
            if held[key] != self._digests.setdefault(key, held[key]):
                raise ConfigError(
                    f"must have the same bitstream of configuration {key} as the others",
                    field=f"board {board.name}",
                    value=held[key],
                    remedy="copy one bitstream to every board",
                )

    def _lose(self, board: _Board, why: str, *, retry: bool = False) -> None:
        """Give a board no more work, or none for some time."""
        board.lost = why
        board.retry_at = time.monotonic() + RETRY_SECONDS if retry else math.inf
        self._tell(f"board {board.name} gets no more trials: {why}")

    def _revive(self, board: _Board) -> None:
        """Try to reach a board again that was gone."""
        try:
            if board.device is not None:
                board.device.close()
            board.device = board.address.connect()
            self._check(board, board.device)
        except TilewrightError as error:
            board.lost, board.retry_at = str(error), time.monotonic() + RETRY_SECONDS
            return
        with self._changed:
            board.lost = ""
            self._tell(f"board {board.name} is back")

    def _fault(self, course: _Course) -> EnvironmentFaultError:
        lost = "; ".join(f"{board.name}: {board.lost}" for board in self._boards if board.lost)
        return EnvironmentFaultError(
            f"no board is left for {counted(course.left, 'trial')} ({lost})", remedy=_REMEDY
        )

    # -- one board's thread -----------------------------------------------------------------

    def _work(self, board: _Board, course: _Course) -> None:
        """Measure trials on a board until none is left or it is lost."""
        if board.lost:
            self._revive(board)
        with self._changed:
            self._rest(course)
        while (trial := self._take(board, course)) is not None:
            try:
                answer = self._run(board, trial.request, course)
            except Exception as error:
                with self._changed:
                    if isinstance(error, WrongResultError):
                        self._refuse(board, trial, course, str(error))
                    else:
                        known = isinstance(error, TilewrightError)
                        text = str(error) if known else f"{type(error).__name__}: {error}"
                        self._lose(board, f"{text}; its trial goes to another board", retry=True)
                        course.waiting.insert(0, trial)
                    self._rest(course)
            else:
                with self._changed:
                    for name in trial.wrong:
                        self._convict(name, trial, by=board.name)
                    course.answer(trial, answer)
                    self._rest(course)

    def _run(self, board: _Board, request: Request, course: _Course) -> Measurement:
        device, key = board.device, hw_key(request.hw)
        assert device is not None, "it was reached before it took a trial"
        return run_trial(
            request,
            device,
            board=board.name,
            bitstream=self._digests.get(key, ""),
            ready=lambda: self._ready(board, device, key, course),
            wanted=lambda: not course.over,
        )

    def _ready(self, board: _Board, device: RemoteDevice, key: str, course: _Course) -> float:
        """Have a board hold a configuration, connected anew if it was lost."""
        deadline = time.monotonic() + REACH_SECONDS
        while True:
            try:
                lost = device.reach()
                break
            except DeviceError:
                if course.over or time.monotonic() > deadline:
                    raise
            time.sleep(_REACH_PAUSE)
        if lost:
            self._check(board, device)
            board.loaded = key
        return 0.0 if hw_key(device.hw) == key else device.configure(key)

    def _rest(self, course: _Course) -> None:
        """A board has nothing in hand: wake the others, and see whether anyone can go on."""
        course.busy -= 1
        if course.left and self._is_stuck(course):
            course.answers.put(self._fault(course))
        self._changed.notify_all()

    def _may_take(self, board: _Board, course: _Course) -> list[_Trial]:
        """Trials that a board may get: one that is suspected, those alone that others failed."""
        return [
            trial
            for trial in course.waiting
            if board.name not in trial.wrong and (trial.wrong or not board.suspected)
        ]

    def _take(self, board: _Board, course: _Course) -> _Trial | None:
        """The next trial for a board; None: there is nothing more for it to do."""
        with self._changed:
            while not (course.over or board.lost):
                if open_ := self._may_take(board, course):
                    trial = self._choose(board, open_)
                    course.waiting.remove(trial)
                    course.busy += 1
                    board.loaded = hw_key(trial.request.hw)
                    return trial
                self._changed.wait()
            return None

    def _choose(self, board: _Board, open_: Sequence[_Trial]) -> _Trial:
        """One of the loaded configuration, or of the one that fewest other boards hold."""
        for trial in open_:
            if hw_key(trial.request.hw) == board.loaded:
                return trial
        others = [b.loaded for b in self._boards if b is not board and not b.lost]
        return min(open_, key=lambda trial: others.count(hw_key(trial.request.hw)))

    def _refuse(self, board: _Board, trial: _Trial, course: _Course, difference: str) -> None:
        """A board's output was wrong: ask another one, or see that they agree."""
        trial.wrong[board.name] = difference
        board.suspected = True
        self._tell(
            f"board {board.name}: a result of {trial.request.workload.name} is refused: "
            f"{difference}"
        )
        if any(not b.lost and b.name not in trial.wrong for b in self._boards):
            course.waiting.insert(0, trial)
        elif len(trial.wrong) > 1:
            for each in self._boards:
                each.suspected &= each.name not in trial.wrong
            text = "; ".join(f"board {name}: {what}" for name, what in trial.wrong.items())
            course.answer(trial, failed(trial.request, Status.MISMATCH, text))
        else:
            self._lose(board, "it computed something else than the golden model")
            course.waiting.insert(0, trial)

    def _convict(self, name: str, trial: _Trial, *, by: str) -> None:
        board = next(board for board in self._boards if board.name == name)
        board.suspected = False
        if not board.lost:
            self._lose(
                board,
                f"it computed {trial.request.workload.name} wrongly, and {by} did not",
            )


@dataclass(kw_only=True)
class _Course:
    """One call of `BoardOracle.measure`."""

    waiting: list[_Trial] = field(default_factory=list)  # trials that no board has
    taken: int = 0  # requests that it knows of
    left: int = 0  # trials without an answer
    busy: int = 0  # boards that have a trial in hand, or are being reached
    over: bool = False  # nobody wants answers any more
    threads: dict[str, threading.Thread] = field(default_factory=dict)  # by board
    # with their positions, or why there are no more
    answers: queue.Queue[tuple[int, Measurement] | BaseException] = field(
        default_factory=queue.Queue
    )

    def answer(self, trial: _Trial, measurement: Measurement) -> None:
        """Hand an answer out."""
        self.left -= 1
        self.answers.put((trial.position, measurement))
