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
job, on whatever core, delays every core of its port.

A solver's optimum is true to its tolerance only, and jobs that are far shorter than another lie
below that. So its dual solution is taken, and what that proves is computed: by weights of sum 1 of
the constraints, each job adds at least what it adds on its cheapest core, whatever the weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.tuner.multicore.allocation import Policy
from tilewright.tuner.multicore.instance import Instance
from tilewright.tuner.multicore.job_table import Numbers

SLACK: Final = 1e-9
"""Relative: what rounding, a solver's or that of a makespan, may lift a bound by."""

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


def lower_bound(instance: Instance) -> Bound:
    """The bound of the linear program; needs SciPy, of the extra ``search``.

    Example:
        Three jobs of 10 cycles on two cores: 15 cycles, as the third may be cut.

        >>> from tilewright.tuner.multicore.job_table import JobTable
        >>> table = JobTable([[10, 10]] * 3, [[1, 1]] * 3)
        >>> round(lower_bound(Instance(table=table, bandwidth=4.0)).makespan, 6)
        15.0
    """
    loads = loads_of(instance)
    times = np.unique(loads.own[np.isfinite(loads.own)])
    # Below the largest of the jobs' least times, some job is nowhere.
    low, high = int(np.searchsorted(times, loads.own.min(axis=1).max())), len(times) - 1
    found: dict[int, tuple[float, Numbers]] = {}

    def agrees(step: int) -> bool:
        found[step] = _proven(_Program(loads, loads.own <= times[step]))
        return step == len(times) - 1 or found[step][0] < times[step + 1]

    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if agrees(middle) else (middle + 1, high)
    if low not in found:
        agrees(low)
    _, shares = _relaxed(_Program(loads, loads.own <= times[low]))
    value, charges = found[low]
    makespan = max(value, float(times[low]))
    alone = np.maximum(loads.own - makespan, 0.0)  # where a job alone takes longer
    return Bound(makespan=makespan * (1 - SLACK), shares=shares, charges=np.maximum(charges, alone))


class _Program:
    """The linear program: a share per pair, the excess of each port's jobs, and the makespan.

    Where there are several ports, the time of a job counts without the excess of others: on which
    port it is, is not known.
    """

    def __init__(self, loads: Loads, allowed: npt.NDArray[np.bool_]) -> None:
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
        self.delayed = np.concatenate(  # by the excess of each port: queues, then jobs
            [np.eye(ports)[loads.port], np.full((jobs, ports), float(ports == 1))]
        )
        none, own = np.zeros((jobs, ports)), -np.eye(ports)
        self.limited = vstack(
            [
                self._rows(self.core, self.busy, self.delayed[:cores], -1.0),
                self._rows(self.job, self.busy, self.delayed[cores:], -1.0),
                self._rows(self.port, self.memory, 0 * own, -1.0),
            ]
        )
        self.equal = vstack(
            [
                self._rows(self.job, np.ones(len(self.job)), none, 0.0),
                self._rows(self.port, self.everywhere, own, 0.0),
            ]
        )
        self.right = np.append(np.ones(jobs), np.zeros(ports))
        self.objective = np.append(np.zeros(len(self.job) + ports), 1.0)

    def _rows(
        self, number: npt.NDArray[Any], values: Numbers, excess: Numbers, makespan: float
    ) -> Any:
        """Rows with a value per pair, each in the row of its number."""
        from scipy.sparse import coo_array, csr_array, hstack  # noqa: PLC0415  (of `search`)

        pairs, rows = len(self.job), len(excess)
        shares = coo_array((values, (number, np.arange(pairs))), shape=(rows, pairs))
        return hstack([shares, csr_array(excess), csr_array(np.full((rows, 1), makespan))])


def _proven(program: _Program) -> tuple[float, Numbers]:
    """A makespan that nothing goes below, by the weights that a solver finds; and the charges."""
    from scipy.optimize import linprog  # noqa: PLC0415  (of the extra `search`)

    solved = linprog(
        program.objective,
        A_ub=program.limited,
        b_ub=np.zeros(program.limited.shape[0]),
        A_eq=program.equal,
        b_eq=program.right,
    )
    charges = np.zeros((program.jobs, program.cores))
    if solved.status != 0:
        return 0.0, charges
    weights = np.maximum(-solved.ineqlin.marginals, 0.0)
    weights /= weights.sum()
    delayed = program.cores + program.jobs
    queues, own, memory = np.split(weights, [program.cores, delayed])
    adds = (
        program.busy * (queues[program.core] + own[program.job])
        + program.everywhere * (weights[:delayed] @ program.delayed)[program.port]
        + program.memory * memory[program.port]
    )
    least = np.full(program.jobs, np.inf)
    np.minimum.at(least, program.job, adds)
    charges[program.job, program.core] = (adds - least[program.job]) * program.scale
    return float(least.sum() * program.scale), charges


def _relaxed(program: _Program) -> tuple[float, Numbers]:
    """Least makespan, and the jobs' shares."""
    from scipy.optimize import LinearConstraint, milp  # noqa: PLC0415  (of the extra `search`)

    pairs = len(program.job)
    solved = milp(
        program.objective,
        constraints=[
            LinearConstraint(program.limited, -np.inf, 0.0),
            LinearConstraint(program.equal, program.right, program.right),
        ],
    )
    shares = np.zeros((program.jobs, program.cores))
    if solved.x is not None:
        shares[program.job, program.core] = np.clip(solved.x[:pairs], 0.0, 1.0)
    return float(solved.fun or 0.0) * program.scale, shares
