# SPDX-License-Identifier: Apache-2.0
"""`JobTable`: what each job takes on each core when it never waits for memory."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import ConfigError, WorkloadError, errors_in

Numbers = npt.NDArray[np.float64]

LATENCY_COLUMN: Final = "lat_core"
BANDWIDTH_COLUMN: Final = "reqbw_core"

LEAST: Final = 1e-100
MOST: Final = 1e100
"""Cycles, and bytes per cycle: the products and sums of such numbers are finite and above 0."""

_RANGE: Final = f"a number from {LEAST:g} to {MOST:g}"


@dataclass(frozen=True, eq=False)
class JobTable:
    """The job analysis table of a group of jobs on a platform.

    Attributes:
        latency: cycles of a job on a core without stalls, float64 ``[jobs, cores]``; infinite: that
            core cannot run it.
        bandwidth: bytes per cycle that keep the job from stalling, float64 ``[jobs, cores]``. Where
            the latency is infinite it means nothing, but is a positive number all the same.

    Example:
        >>> table = JobTable([[10, 20], [30, float("inf")]], [[2, 1], [4, 1]], names=("a", "b"))
        >>> table.jobs, table.cores, table.bytes.tolist()
        (2, 2, [[20.0, 20.0], [120.0, inf]])
    """

    latency: Numbers
    bandwidth: Numbers
    names: tuple[str, ...] = ()  # of the jobs; by default ``J0``, ``J1``,

    def __post_init__(self) -> None:
        """Validate; the arrays become read-only copies."""
        for field in ("latency", "bandwidth"):
            object.__setattr__(self, field, _matrix(field, getattr(self, field)))
        if self.latency.shape != self.bandwidth.shape:
            raise WorkloadError(
                f"must have the shape of the latency, {self.latency.shape}",
                field="bandwidth",
                value=self.bandwidth.shape,
            )
        self._require_range("latency", " or inf", self.latency == np.inf)
        self._require_range("bandwidth", "", False)
        nowhere = np.flatnonzero(np.isinf(self.latency).all(axis=1))
        if nowhere.size:
            raise WorkloadError(
                "at least one core must be able to run it",
                field=f"latency[{nowhere[0]}]",
                remedy="leave the job out, or add a core that takes it",
            )
        names = tuple(self.names) or tuple(f"J{job}" for job in range(self.jobs))
        if len(names) != self.jobs:
            raise WorkloadError(f"must be {self.jobs} names", field="names", value=len(names))
        name, times = Counter(names).most_common(1)[0]
        if times > 1:
            raise WorkloadError("jobs of a group must differ in name", field="name", value=name)
        object.__setattr__(self, "names", names)

    def _require_range(self, field: str, other: str, allowed: npt.NDArray[np.bool_] | bool) -> None:
        values = getattr(self, field)
        wrong = np.argwhere(~((values >= LEAST) & (values <= MOST) | allowed))
        if len(wrong):
            job, core = (int(index) for index in wrong[0])
            raise WorkloadError(
                f"must be {_RANGE}{other}",
                field=f"{field}[{job}, {core}]",
                value=float(values[job, core]),
            )

    @property
    def jobs(self) -> int:
        """Number of jobs."""
        return int(self.latency.shape[0])

    @property
    def cores(self) -> int:
        """Number of cores."""
        return int(self.latency.shape[1])

    @property
    def bytes(self) -> Numbers:
        """Bytes that a job moves on a core, ``[jobs, cores]``; infinite: it cannot run there."""
        return self.latency * self.bandwidth

    @classmethod
    def from_csv(cls, path: Path) -> JobTable:
        """The table of a CSV file: ``row``, then ``lat_core0`` ..., then ``reqbw_core0`` ...

        ``row`` is the job's name; a latency may be ``inf``. Empty lines are passed over.
        """
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:  # "-sig": of spreadsheets
                lines = csv.reader(file)
                rows = [(lines.line_num, row) for row in lines if row]
        except (OSError, ValueError, csv.Error) as error:
            raise WorkloadError(
                "a job table must be a readable CSV file", field=str(path)
            ) from error
        columns = rows[0][1] if rows else []
        cores = (len(columns) - 1) // 2
        expected = [
            "row",
            *(f"{LATENCY_COLUMN}{core}" for core in range(cores)),
            *(f"{BANDWIDTH_COLUMN}{core}" for core in range(cores)),
        ]
        if cores < 1 or columns != expected:
            raise WorkloadError(
                f"columns must be row, {LATENCY_COLUMN}0, ..., {BANDWIDTH_COLUMN}0, ...",
                field=str(path),
                value=",".join(columns),
            )
        values = []
        for number, row in rows[1:]:
            try:
                values.append([float(text) for text in row[1:]])
                if len(row) != len(expected):
                    raise ValueError(row)
            except ValueError as error:
                raise WorkloadError(
                    f"must be a name and {2 * cores} numbers",
                    field=f"{path}:{number}",
                    value=",".join(row),
                ) from error
        table = np.array(values, dtype=np.float64).reshape(-1, 2 * cores)
        with errors_in(str(path)):
            return cls(table[:, :cores], table[:, cores:], tuple(row[0] for _, row in rows[1:]))


def require_number(field: str, value: Any) -> None:
    """Refuse what cannot be computed with."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not (number and LEAST <= value <= MOST):
        raise ConfigError(f"must be {_RANGE}", field=field, value=value)


def _matrix(field: str, values: Any) -> Numbers:
    try:
        matrix = np.array(values, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise WorkloadError("must be numbers, [jobs, cores]", field=field) from error
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise WorkloadError(
            "must have the shape [jobs, cores], at least one of each",
            field=field,
            value=matrix.shape,
        )
    matrix.flags.writeable = False
    return matrix
