# SPDX-License-Identifier: Apache-2.0
"""A table for tests of the arena: real knobs, invented cycles."""

import numpy as np

from tilewright.bench.arena.tables import Table
from tilewright.bench.arena.tasks import make_task
from tilewright.host.network.workload import conv2d


def made_up_table(track="per-layer", legal=0.4, seed=0) -> Table:
    """A real space with cycles that are drawn: no twin needed, one optimum."""
    task = make_task(track, conv2d("T", 14, 64, 64, 3, 1, 1))
    rng = np.random.default_rng(seed)
    shape = tuple(len(knob) for knob in task.space.knobs)
    cycles = rng.integers(1_100, 100_000, size=shape)
    cycles[rng.random(shape) > legal] = -1
    cycles.ravel()[rng.integers(cycles.size)] = 1_000
    return Table(task=task, cycles=cycles)
