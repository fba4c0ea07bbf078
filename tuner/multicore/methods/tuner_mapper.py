# SPDX-License-Identifier: Apache-2.0
"""Any tuner of `tuner.search` as a group mapper, unchanged."""

from __future__ import annotations

from typing import Final

import numpy as np

from tilewright.tuner.multicore.encoding import Population, joined
from tilewright.tuner.multicore.job_table import JobTable
from tilewright.tuner.multicore.methods.mapper import GroupMapper, Probe
from tilewright.tuner.search.samples import AskTell
from tilewright.tuner.search.space import Index, Knob, Space

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


class TunerMapper(AskTell, GroupMapper):
    """Asks a tuner for points and tells it their makespans."""

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        self._drive(
            GroupSpace(probe.instance.table), probe, rng,
            lambda asked: probe.makespans(joined(*(each.point for each in asked))),
        )  # fmt: skip
