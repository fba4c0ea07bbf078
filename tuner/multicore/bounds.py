# SPDX-License-Identifier: Apache-2.0
"""A makespan that no mapping of an instance can go below: a linear program.

Jobs may be cut into parts that run on several cores at once; what is left of the problem is linear:

- a core is busy for the times of its parts, at most the makespan;
- a job takes its own time, at most the makespan: its latency, or longer where it needs more than
  the whole bandwidth;
- all bytes of a memory port's cores pass it at its bandwidth.

A job that alone takes longer on a core than the makespan is not on that core. This makes the
bound of a makespan depend on the makespan; the least that agrees with itself is the bound (Lenstra,
Shmoys and Tardos, Mathematical Programming 46, 1990).

Under `Policy.PROPORTIONAL` more is true. All jobs that run slow down by the same factor, so each
core passes through its queue as if it were alone, on a clock that all cores share and that stands
still a part of the time: the makespan is the longest queue, and for each moment of it what the jobs
of the moment need above the bandwidth, as a share of the bandwidth. What jobs need together is
above the bandwidth by at least the sum of what each needs above it. So the own excess of every
job, on whatever core, delays every core of its port. Where there is one port, what runs beside such
a *hungry* job delays all cores, too, by all of its bytes. Of `L` cycles of calm jobs on a core at
least `L + H - V` are beside hungry ones, which take `H` cycles of the longest queue's `V`.

What no linear program sees is that a job is whole. Cores of equal columns are of one *kind*. A job
that the program cuts between kinds is decided: on this kind, or on another one. The bound is the
least of what is then left open, the lowest part being decided first (branch and bound).

A solver's optimum is true to its tolerance only, and jobs that are far shorter than another lie
below that. So its dual solution is taken, and what that proves is computed: by weights of sum 1 of
the constraints, each job adds at least what it adds on its cheapest core, whatever the weights.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.tuner.multicore.allocation import Policy
from tilewright.tuner.multicore.instance import Instance
from tilewright.tuner.multicore.job_table import Numbers

SLACK: Final = 1e-9
"""Relative: what rounding, a solver's or that of a makespan, may lift a bound by."""

NODES: Final = 12
"""Decisions on jobs that are cut, each of two programs or more."""

_WHOLE: Final = 1e-6
"""A share is whole where it misses 1 by no more."""

_MOST: Final = 1e9
"""Multiple of the makespan's scale that a part of a job adds: the solver takes no number above
1e15. A smaller number only lowers the bound."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Bound:
    """A lower bound of the makespan.

    Attributes:
        charges: cycles by which a job on this core lifts the bound while all other jobs are where
            they cost the least, ``[jobs, cores]``.
    """

    makespan: float  # cycles; no mapping takes less
    shares: Numbers  # of each job on each core in the relaxation that gives it, ``[jobs, cores]``
    charges: Numbers

    def gap(self, makespan: float) -> float:
        """How far a makespan is above the bound, as a share of the bound."""
        return makespan / self.makespan - 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Loads:
    """What placing a job on a core adds, each ``[jobs, cores]``; infinite where it cannot run."""

    own: Numbers  # cycles of the job when it is alone: how long it keeps its core at least
    busy: Numbers  # cycles by which it lengthens its core's queue
    everywhere: Numbers  # cycles by which it lengthens the queue of every core of the port
    memory: Numbers  # cycles of the port's memory
    port: npt.NDArray[np.int32]  # of each core, ``[cores]``

    def makespans(self, core: npt.NDArray[np.int32]) -> Numbers:
        """A lower bound of the makespan for each placement."""
        jobs = np.arange(core.shape[1])
        queues = np.stack(
            [
                np.where(core == c, self.busy[:, c], 0.0).sum(axis=1)
                for c in range(self.busy.shape[1])
            ]
        )
        found: Numbers = np.zeros(len(core))
        for port in range(int(self.port.max()) + 1):
            here = self.port[core] == port
            everywhere, memory = (
                np.where(here, each[jobs, core], 0.0).sum(axis=1)
                for each in (self.everywhere, self.memory)
            )
            longest = queues[self.port == port].max(axis=0) + everywhere
            found = np.maximum(found, np.maximum(longest, memory))
        return found


def loads_of(instance: Instance) -> Loads:
    """What placing the jobs of an instance adds."""
    table, bandwidth = instance.table, instance.bandwidth
    excess = np.maximum(table.bandwidth / bandwidth - 1, 0.0)
    own = table.latency * (1 + excess)
    shared = instance.policy is Policy.PROPORTIONAL
    able = np.isfinite(table.latency)
    latency = np.where(able, table.latency, 0.0)
    everywhere = np.where(able, latency * excess if shared else 0.0, np.inf)
    return Loads(
        own=own,
        busy=table.latency if shared else own,
        everywhere=everywhere,
        memory=table.bytes / bandwidth,
        port=instance.port,
    )


def lower_bound(instance: Instance, nodes: int = NODES) -> Bound:
    """The bound of the linear program; needs SciPy, of the extra ``search``.

    Example:
        Three jobs of 10 cycles on two cores: 15 cycles, as the third may be cut.

        >>> from tilewright.tuner.multicore.job_table import JobTable
        >>> table = JobTable([[10, 10]] * 3, [[1, 1]] * 3)
        >>> round(lower_bound(Instance(table=table, bandwidth=4.0)).makespan, 6)
        15.0
    """
    loads = loads_of(instance)
    kinds, size = _kinds(loads), loads.own.min(axis=1)
    root = _part(loads, np.isfinite(loads.own), kinds)
    number = itertools.count()  # a tie is nothing that parts are compared by
    left, best = [(root.makespan, next(number), root)], root
    for _ in range(nodes):
        best = heapq.heappop(left)[2]
        job, kind = _cut_job(best, kinds, size)
        if job < 0:
            break
        for here in (kinds == kind, kinds != kind):
            allowed = best.allowed.copy()
            allowed[job] &= here
            if allowed[job].any():
                part = _part(loads, allowed, kinds, best)
                heapq.heappush(left, (part.makespan, next(number), part))
        best = left[0][2]
    lifted = np.maximum(root.charges + root.makespan - best.makespan, 0.0)
    return Bound(makespan=best.makespan * (1 - SLACK), shares=best.shares, charges=lifted)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Part:
    """What is proven of the mappings with each job on one of the cores that are allowed."""

    allowed: npt.NDArray[np.bool_]  # ``[jobs, cores]``
    makespan: float  # cycles; none of them takes less
    shares: Numbers  # as `Bound`
    charges: Numbers  # as `Bound`


def _kinds(loads: Loads) -> npt.NDArray[np.intp]:
    """The number of each core's kind: of equal columns, at one port; ``[cores]``."""
    columns = np.concatenate([loads.own, loads.busy, loads.memory, loads.port[None]])
    found: npt.NDArray[np.intp] = np.unique(columns, axis=1, return_inverse=True)[1].ravel()
    return found


def _cut_job(part: _Part, kinds: npt.NDArray[np.intp], size: Numbers) -> tuple[int, int]:
    """The job of which most is cut off between kinds, and the kind of the rest; -1: none is."""
    of_kind = part.shares @ (kinds[:, None] == np.arange(kinds.max() + 1))
    off = 1 - of_kind.max(axis=1)
    job = int(np.argmax(off * size))
    return (job if off[job] > _WHOLE else -1), int(of_kind[job].argmax())


def _part(
    loads: Loads,
    allowed: npt.NDArray[np.bool_],
    kinds: npt.NDArray[np.intp],
    of: _Part | None = None,
) -> _Part:
    """The bound of a part of the mappings; it is no lower than that of what it is a part ``of``."""
    own = np.where(allowed, loads.own, np.inf)
    times = np.unique(own[allowed])
    # Below the largest of the jobs' least times, some job is nowhere.
    known = max(float(own.min(axis=1).max()), 0.0 if of is None else of.makespan)
    low, high = max(int(np.searchsorted(times, known, side="right")) - 1, 0), len(times) - 1
    found: dict[int, tuple[float, Numbers, Numbers]] = {}

    def agrees(step: int) -> bool:
        found[step] = _proven(_Program(loads, own <= times[step], kinds))
        return step == len(times) - 1 or found[step][0] < times[step + 1]

    if not agrees(low):
        low += 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if agrees(middle) else (middle + 1, high)
        if low not in found:
            agrees(low)
    value, charges, shares = found[low]
    makespan = max(value, float(times[low]), known)
    alone = np.maximum(loads.own - makespan, 0.0)  # where a job alone takes longer
    return _Part(
        allowed=allowed,
        makespan=makespan,
        shares=shares,
        charges=np.maximum(charges, alone),
    )


class _Program:
    """The linear program: a share per pair, the excess of each port's jobs, and the makespan.

    Where there are several ports, the time of a job counts without the excess of others: on which
    port it is, is not known. Where there is one, more columns tell how long hungry jobs run beside
    each other, and how long a calm job runs beside hungry ones on each kind of cores.
    """

    def __init__(
        self, loads: Loads, allowed: npt.NDArray[np.bool_], kinds: npt.NDArray[np.intp]
    ) -> None:
        from scipy.sparse import vstack  # noqa: PLC0415  (of the extra `search`)

        self.jobs, self.cores = jobs, cores = allowed.shape
        self.job, self.core = np.nonzero(allowed)
        # Numbers around 1 are what the solver's tolerances are made for.
        own = loads.own.min(axis=1)
        self.scale = max(float(own.max()), float(own.sum()) / cores)
        self.busy, self.everywhere, self.memory = (
            np.minimum(each[self.job, self.core] / self.scale, _MOST)
            for each in (loads.busy, loads.everywhere, loads.memory)
        )
        self.port = loads.port[self.core]
        self.ports = ports = int(loads.port.max()) + 1
        self.hungry = self.everywhere > 0
        self.delayed = np.concatenate(  # by the excess of each port: queues, then jobs
            [np.eye(ports)[loads.port], np.full((jobs, ports), float(ports == 1))]
        )
        mixed = self.hungry.any() and not self.hungry.all()
        self._pair_up(kinds if ports == 1 and mixed else None)
        none, own = np.zeros((jobs, ports)), -np.eye(ports)
        limited = [
            self._rows(self.core, self.busy, self.delayed[:cores], -1.0),
            self._rows(self.job, self.busy, self.delayed[cores:], -1.0),
            self._rows(self.port, self.memory, 0 * own, -1.0),
        ]
        equal = [
            self._rows(self.job, np.ones(len(self.job)), none, 0.0),
            self._rows(self.port, self.everywhere, own, 0.0),
        ]
        if len(self.need):
            limited += self._beside_rows()
        self.limited, self.equal = vstack(limited), vstack(equal)
        self.right = np.append(np.ones(jobs), np.zeros(ports))
        self.objective = np.append(np.zeros(self.limited.shape[1] - 1), 1.0)

    def _pair_up(self, kinds: npt.NDArray[np.intp] | None) -> None:
        """Calm jobs with the kinds that they may be on: what bandwidth each needs there.

        Sets ``beside``, the jobs and their kinds; ``need``, their shares of the bandwidth; ``of``,
        which of them a pair of job and core belongs to, or -1; ``count``, cores of the kinds, and
        1 for each job.
        """
        self.beside, self.need = np.empty((2, 0), np.intp), np.empty(0)
        self.count, self.of = np.empty(0), np.full(len(self.job), -1)
        self.kind = np.zeros(len(self.job), np.intp)
        if kinds is None:
            return
        self.kind = kinds[self.core]
        calm = np.flatnonzero(~self.hungry)
        self.beside, first, of = np.unique(
            np.stack([self.job[calm], self.kind[calm]]), axis=1, return_index=True,
            return_inverse=True,
        )  # fmt: skip
        self.of[calm] = of.ravel()
        self.need = self.memory[calm[first]] / self.busy[calm[first]]
        self.count = np.append(np.bincount(kinds), np.ones(self.jobs))

    def _rows(
        self, number: npt.NDArray[Any], values: Numbers, excess: Numbers, makespan: float
    ) -> Any:
        """Rows with a value per pair, each in the row of its number."""
        from scipy.sparse import coo_array, csr_array, hstack  # noqa: PLC0415  (of `search`)

        pairs, rows = len(self.job), len(excess)
        shares = coo_array((values, (number, np.arange(pairs))), shape=(rows, pairs))
        parts = [shares, csr_array(excess)]
        if len(self.need):
            added = np.append(1.0, self.need) if values is self.everywhere else np.zeros(1)
            parts.append(np.broadcast_to(added, (rows, 1 + len(self.need))))
        return hstack([*parts, np.full((rows, 1), makespan)])

    def _beside_rows(self) -> list[Any]:
        """What must be beside hungry jobs, per kind and per job; of a job no more than it takes.

        Beside hungry jobs is what does not fit into the rest of the longest queue.
        """
        from scipy.sparse import csr_array, hstack  # noqa: PLC0415  (of the extra `search`)

        pair, column = np.arange(len(self.job)), np.arange(len(self.need))
        calm = np.where(self.hungry, 0.0, self.busy)
        of_job = len(self.count) - self.jobs
        forced = self.count[:, None] * np.where(self.hungry, self.busy, 0.0)
        forced[self.kind, pair] += calm
        forced[of_job + self.job, pair] += calm
        taken = np.zeros((len(self.count), len(column)))
        taken[self.beside[1], column] = taken[of_job + self.beside[0], column] = -1.0
        known = self.of >= 0
        limits = csr_array((-calm[known], (self.of[known], pair[known])), (len(column), len(pair)))
        count, none = self.count[:, None], np.zeros((len(column), 1))
        return [
            hstack([csr_array(forced), count, -count, taken, -count]),
            hstack([limits, none, none, np.eye(len(column)), none]),
        ]


def _proven(program: _Program) -> tuple[float, Numbers, Numbers]:
    """A makespan that nothing goes below, by the weights that a solver finds; charges, shares."""
    from scipy.optimize import linprog  # noqa: PLC0415  (of the extra `search`)

    solved = linprog(
        program.objective,
        A_ub=program.limited,
        b_ub=np.zeros(program.limited.shape[0]),
        A_eq=program.equal,
        b_eq=program.right,
    )
    charges, shares = np.zeros((2, program.jobs, program.cores))
    if solved.status != 0:
        return 0.0, charges, shares
    shares[program.job, program.core] = np.clip(solved.x[: len(program.job)], 0.0, 1.0)
    weights = np.maximum(-solved.ineqlin.marginals, 0.0)
    delayed = program.cores + program.jobs
    ends = [program.cores, delayed, delayed + program.ports]
    ends.append(ends[-1] + len(program.count))
    weights /= weights[: ends[2]].sum() + weights[ends[2] : ends[3]] @ program.count
    queues, own, memory, beside, _ = np.split(weights, ends)
    forced = float(beside @ program.count)
    excess = weights[:delayed] @ program.delayed + forced
    adds = (
        program.busy * (queues[program.core] + own[program.job])
        + program.everywhere * excess[program.port]
        + program.memory * memory[program.port]
        + program.busy * np.where(program.hungry, forced, 0.0)
    )
    if len(program.need):
        # A cycle beside hungry jobs is worth what it must be, and no more than what it adds.
        of_kind, of_job = np.split(beside, [len(beside) - program.jobs])
        worth = of_kind[program.beside[1]] + of_job[program.beside[0]]
        calm = program.of >= 0
        least_worth = np.minimum(worth, excess[0] * program.need)
        adds[calm] += program.busy[calm] * least_worth[program.of[calm]]
    least = np.full(program.jobs, np.inf)
    np.minimum.at(least, program.job, adds)
    charges[program.job, program.core] = (adds - least[program.job]) * program.scale
    return float(least.sum() * program.scale), charges, shares
