# SPDX-License-Identifier: Apache-2.0
"""What mappings of jobs onto cores cost when the cores share the bandwidth of memory ports.

`native/allocation.h` computes it; docs/explanation/multicore-model.md derives it. A mapping names
for each job a core and a priority. Each core runs its jobs in the order of their priorities, one
at a time; a job that gets less bandwidth than it needs is slower in that proportion.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import ConfigError
from tilewright.host.common.names import choices
from tilewright.host.common.places import ROOT
from tilewright.host.common.str_enum import StrEnum
from tilewright.sim.tools.build_cache import bind_library
from tilewright.sim.tools.native_build import build_native
from tilewright.tuner.multicore.job_table import JobTable, Numbers, require_number

NATIVE_DIR: Final = ROOT / "tuner" / "multicore" / "native"

DEFAULT_WINDOW: Final = 1024.0
"""Cycles of a regulation window."""

_VERSION: Final = 4

Indices = npt.NDArray[np.int32]


class Policy(StrEnum):
    """How running jobs share the bandwidth; the order of `Policy` in native/allocation.h.

    No job ever gets more than it needs. Under the first three, nothing is left over while a job
    that could use it waits.
    """

    PROPORTIONAL = "proportional"
    """In proportion to what each needs: all slow down by the same factor."""
    PRIORITY = "priority"
    """By weight, which is the number of the group's jobs that do not come before it in the order of
    priorities."""
    EQUAL = "equal"
    """The same for all; what one does not need goes to the others."""
    REGULATED = "regulated"
    """A token bucket per core: a core that has used its budget waits for the next window. Cores
    that have tokens share by weight, as `Regulation` has them."""


@dataclass(frozen=True, kw_only=True)
class Regulation:
    """Settings of `Policy.REGULATED`."""

    window: float  # cycles after which every bucket is full again
    # bytes of a window per core, reads and writes together; infinite: no limit
    budgets: tuple[float, ...]
    weights: tuple[float, ...] = ()  # of the cores that have tokens; by default 1 each

    def __post_init__(self) -> None:
        """Validate."""
        require_number("window", self.window)
        for core, budget in enumerate(self.budgets):
            if budget != math.inf:
                require_number(f"budgets[{core}]", budget)
        for core, weight in enumerate(self.weights):
            require_number(f"weights[{core}]", weight)
        if not self.weights:
            object.__setattr__(self, "weights", (1.0,) * len(self.budgets))
        if len(self.weights) != len(self.budgets):
            raise ConfigError(
                f"must be {len(self.budgets)} weights, one per core",
                field="weights",
                value=len(self.weights),
            )

    @classmethod
    def even(cls, bandwidth: float, ports: Indices, window: float = DEFAULT_WINDOW) -> Regulation:
        """The same budget for each core of a port; together what the port can move."""
        sharing = np.bincount(ports)[ports]
        return cls(window=window, budgets=tuple((bandwidth * window / sharing).tolist()))


@dataclass(frozen=True, kw_only=True, eq=False)
class Timeline:
    """What happens when a mapping runs.

    Attributes:
        start, end: cycles, of each job, float64 ``[jobs]``.
        granted: bytes per cycle of each core in a segment, float64 ``[segments, cores]``. Many
            equal windows of `Policy.REGULATED` are one segment; it has their mean.
    """

    core: Indices  # of each job, int32 ``[jobs]``
    start: Numbers
    end: Numbers
    times: Numbers  # cycles at which segments begin, and the makespan, float64 ``[segments + 1]``
    running: Indices  # job of each core in a segment, -1 for none, int32 ``[segments, cores]``
    granted: Numbers

    @property
    def makespan(self) -> float:
        """Cycles until the last job ends."""
        return float(self.times[-1])


class _CProblem(ctypes.Structure):
    """`Problem` of native/allocation.h."""

    _fields_ = (
        ("latency", ctypes.c_void_p),
        ("bandwidth", ctypes.c_void_p),
        ("budgets", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("port", ctypes.c_void_p),
        ("limit", ctypes.c_double),
        ("window", ctypes.c_double),
        ("jobs", ctypes.c_int32),
        ("cores", ctypes.c_int32),
        ("ports", ctypes.c_int32),
        ("policy", ctypes.c_int32),
    )


@functools.cache
def multicore_library() -> ctypes.CDLL:
    """The native allocator, built when the cache does not hold it."""
    inputs = sorted(path for path in NATIVE_DIR.iterdir() if path.suffix in (".cpp", ".h"))
    pointer, i64 = ctypes.c_void_p, ctypes.c_int64
    signatures: dict[str, tuple[list[Any], Any]] = {
        "tw_multicore_makespans": ([pointer, pointer, pointer, i64, pointer], None),
        "tw_multicore_timeline": (
            [pointer, pointer, pointer, pointer, pointer, i64, pointer, pointer, pointer],
            i64,
        ),
        "tw_multicore_anneal": (
            [pointer, ctypes.c_uint64, pointer, pointer, i64, *[pointer] * 4],
            ctypes.c_double,
        ),
    }
    path = build_native("multicore", inputs)
    return bind_library(path, {"tw_multicore_version": _VERSION}, signatures)


class NativeProblem:
    """A table with its bandwidth, policy and ports, as the native allocator takes it."""

    def __init__(
        self,
        table: JobTable,
        bandwidth: float,
        policy: str,
        regulation: Regulation | None,
        ports: Sequence[int] = (),
    ) -> None:
        require_number("bandwidth", bandwidth)
        self._ports: Final = checked_ports(ports, table.cores)
        policies = tuple(Policy)
        if policy not in policies:
            raise ConfigError(
                "no policy of that name",
                field="policy",
                value=policy,
                remedy=choices(str(policy), policies),
            )
        if policy == Policy.REGULATED:
            regulation = regulation or Regulation.even(bandwidth, self._ports)
            if len(regulation.budgets) != table.cores:
                raise ConfigError(
                    f"must be {table.cores} budgets, one per core",
                    field="budgets",
                    value=len(regulation.budgets),
                )
        elif regulation is not None:
            raise ConfigError(
                f"only the policy {Policy.REGULATED} has a regulation",
                field="regulation",
                value=regulation,
                remedy=f"leave it out, or take the policy {Policy.REGULATED}",
            )
        self.table: Final = table
        by_core = regulation or Regulation(window=1, budgets=(math.inf,) * table.cores)
        self._budgets: Final = np.array(by_core.budgets, dtype=np.float64)
        self._weights: Final = np.array(by_core.weights, dtype=np.float64)
        self._native: Final = _CProblem(
            table.latency.ctypes.data,
            table.bandwidth.ctypes.data,
            self._budgets.ctypes.data,
            self._weights.ctypes.data,
            self._ports.ctypes.data,
            bandwidth,
            by_core.window,
            table.jobs,
            table.cores,
            int(self._ports.max()) + 1,
            policies.index(Policy(policy)),
        )

    def reference(self) -> Any:
        """For a native call."""
        return ctypes.byref(self._native)


def checked_ports(ports: Sequence[int], cores: int) -> Indices:
    """The port of each core as an array; without any, one port has all."""
    found = np.array(ports or (0,) * cores, dtype=np.int32)
    if found.shape != (cores,) or set(found.tolist()) != set(range(int(found.max()) + 1)):
        raise ConfigError(
            f"must be {cores} numbers of ports, one per core, from 0 without a gap",
            field="ports",
            value=list(ports),
        )
    return found


def makespans(
    table: JobTable,
    bandwidth: float,
    core: npt.ArrayLike,
    priority: npt.ArrayLike,
    policy: str = Policy.PROPORTIONAL,
    regulation: Regulation | None = None,
    ports: Sequence[int] = (),
) -> Numbers:
    """Cycles until the last job ends, for a population of mappings.

    Args:
        table: what the jobs take.
        bandwidth: bytes per cycle that all cores of a port have together.
        core: of each job, int32 ``[population, jobs]``.
        priority: of each job, float64 ``[population, jobs]``; lower runs first on its core, equal
            ones in the order of the table.
        policy: one of `Policy`.
        regulation: of `Policy.REGULATED`; by default equal budgets that sum to the bandwidth, in
            windows of `DEFAULT_WINDOW`.
        ports: the memory port of each core; by default all cores are behind one.

    Returns:
        float64 ``[population]``; infinite where a job is on a core that cannot run it.

    Example:
        Two jobs that need 8 bytes per cycle each share 8: both take twice their time.

        >>> table = JobTable([[10, 10], [10, 10]], [[8, 8], [8, 8]])
        >>> makespans(table, 8, [[0, 1], [0, 0]], [[0, 0], [0, 1]]).tolist()
        [20.0, 20.0]
    """
    problem = NativeProblem(table, bandwidth, policy, regulation, ports)
    cores, priorities = _population(table, core, priority)
    found = np.empty(len(cores), dtype=np.float64)
    multicore_library().tw_multicore_makespans(
        problem.reference(),
        cores.ctypes.data,
        priorities.ctypes.data,
        len(cores),
        found.ctypes.data,
    )
    return found


def timeline(
    table: JobTable,
    bandwidth: float,
    core: npt.ArrayLike,
    priority: npt.ArrayLike,
    policy: str = Policy.PROPORTIONAL,
    regulation: Regulation | None = None,
    ports: Sequence[int] = (),
) -> Timeline:
    """When one mapping's jobs run, and the bandwidth that each core has meanwhile.

    Args:
        table: what the jobs take.
        bandwidth: bytes per cycle that all cores of a port have together.
        core: of each job, int32 ``[jobs]``.
        priority: of each job, float64 ``[jobs]``.
        policy: as of `makespans`.
        regulation: as of `makespans`.
        ports: as of `makespans`.
    """
    problem = NativeProblem(table, bandwidth, policy, regulation, ports)
    cores, priorities = _population(table, np.asarray(core)[None], np.asarray(priority)[None])
    impossible = np.flatnonzero(np.isinf(table.latency[np.arange(table.jobs), cores[0]]))
    if impossible.size:
        job = int(impossible[0])
        raise ConfigError(
            f"must be a core that can run {table.names[job]}",
            field=f"core[{job}]",
            value=int(cores[0, job]),
        )
    start, end = np.empty(table.jobs), np.empty(table.jobs)
    room = 4 * table.jobs
    while True:
        cycles = np.empty(room)
        running = np.empty((room, table.cores), dtype=np.int32)
        granted = np.empty((room, table.cores))
        arrays = (start, end, cycles, running, granted)
        at = [each.ctypes.data for each in arrays]
        count = multicore_library().tw_multicore_timeline(
            problem.reference(), cores.ctypes.data, priorities.ctypes.data, *at[:2], room, *at[2:]
        )
        if count <= room:
            break
        room = count
    return Timeline(
        core=cores[0],
        start=start,
        end=end,
        times=np.concatenate(([0.0], np.cumsum(cycles[:count]))),
        running=running[:count],
        granted=granted[:count],
    )


def _population(
    table: JobTable, core: npt.ArrayLike, priority: npt.ArrayLike
) -> tuple[Indices, Numbers]:
    """Contiguous arrays of a checked population."""
    wanted = np.asarray(core)
    priorities = np.ascontiguousarray(priority, dtype=np.float64)
    for field, array in (("core", wanted), ("priority", priorities)):
        if array.ndim != 2 or array.shape[1] != table.jobs or len(array) != len(wanted):
            raise ConfigError(
                f"core and priority must have one shape, [population, {table.jobs}]",
                field=field,
                value=array.shape,
            )
    if wanted.size and not (
        np.issubdtype(wanted.dtype, np.integer) and wanted.min() >= 0 and wanted.max() < table.cores
    ):
        raise ConfigError(
            f"must be integers from 0 to {table.cores - 1}",
            field="core",
            value=f"{wanted.dtype} from {wanted.min()} to {wanted.max()}",
        )
    if np.isnan(priorities).any():
        raise ConfigError("must be numbers", field="priority", value=math.nan)
    return np.ascontiguousarray(wanted, dtype=np.int32), priorities
