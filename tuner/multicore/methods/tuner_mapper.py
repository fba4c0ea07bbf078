# SPDX-License-Identifier: Apache-2.0
"""Any tuner of `tuner.search` as a group mapper, unchanged."""

from __future__ import annotations

from typing import Final

import numpy as np

from tilewright.tuner.multicore.encoding import Population
from tilewright.tuner.multicore.job_table import JobTable
from tilewright.tuner.multicore.methods.mapper import GroupMapper, Probe
from tilewright.tuner.search.registry import make_tuner
from tilewright.tuner.search.space import Index, Knob, Space
from tilewright.tuner.search.tuner import Result

BATCH: Final = 16
"""Points per ask."""

LEVELS: Final = 16
"""Priorities that a job may have; equal ones run in the order of the table."""


class GroupSpace(Space[Population]):
    """The mappings of a table, one knob for the core of each job and one for its priority."""

    def __init__(self, table: JobTable) -> None:
        able = np.isfinite(table.latency)
        cores = [
            Knob(name=f"core{job}", values=tuple(np.flatnonzero(row).tolist()), ordered=False)
            for job, row in enumerate(able)
        ]
        levels = [
            Knob(name=f"priority{job}", values=tuple(range(LEVELS))) for job in range(len(able))
        ]
        super().__init__([*cores, *levels])
        self._jobs: Final = table.jobs

    def decode(self, index: Index) -> Population:
        """The mapping of an index: a population of one."""
        values = [knob.values[place] for knob, place in zip(self.knobs, index, strict=True)]
        return Population(
            core=np.array([values[: self._jobs]], dtype=np.int32),
            priority=np.array([values[self._jobs :]], dtype=np.float64),
        )

    def encode(self, point: Population) -> Index:
        """The index of a mapping whose priorities are levels."""
        values = [*point.core[0].tolist(), *(int(level) for level in point.priority[0])]
        return tuple(knob.position(value) for knob, value in zip(self.knobs, values, strict=True))

    def _refusal(self, index: Index) -> str:
        del index
        return ""


class TunerMapper(GroupMapper):
    """Asks a tuner for points and tells it their makespans."""

    def __init__(self, tuner: str, *, batch: int = BATCH) -> None:
        self._tuner: Final = tuner
        self._batch: Final = batch

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        space = GroupSpace(probe.instance.table)
        tuner = make_tuner(self._tuner, space, seed=int(rng.integers(2**31)))
        while asked := tuner.ask(min(self._batch, probe.left)):
            points = [candidate.point for candidate in asked]
            values = probe.makespans(
                Population(
                    core=np.concatenate([point.core for point in points]),
                    priority=np.concatenate([point.priority for point in points]),
                )
            )
            tuner.tell(
                [
                    Result(index=candidate.index, value=float(value))
                    for candidate, value in zip(asked, values, strict=True)
                ]
            )
