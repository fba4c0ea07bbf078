# SPDX-License-Identifier: Apache-2.0
"""Coordinate descent with random restarts: the honest baseline.

One knob at a time takes the best of all values that are tried of it, in a random sequence of knobs.
After a round of knobs that changes nothing, the search starts again from a random mapping.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.tuner.mapping.methods.mapper import Mapper, Probe
from tilewright.tuner.mapping.space import Indices, MappingSpace
from tilewright.tuner.search.space import Knob

LINE: Final = 24
"""Values that are tried of one knob."""


class CoordinateMapper(Mapper):
    """Greedy along lines; a line that no buffer holds is shorter."""

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        space = probe.space
        while True:
            centre = space.sample_batch(rng, 1)
            cost = float(probe.values(space.decode_batch(centre))[0])
            idle = 0
            while idle < len(space.knobs):
                for knob in rng.permutation(len(space.knobs)):
                    line = self._line(space, centre, int(knob), rng)
                    batch = space.decode_batch(line)
                    fits = space.model.costs(batch).legal
                    idle += 1
                    if fits.any():
                        values = probe.values(batch[fits])
                        if values.min() < cost:
                            cost, idle = float(values.min()), 0
                            centre = space.encode_batch(batch[fits][[values.argmin()]])
                    if idle >= len(space.knobs):
                        break

    @staticmethod
    def _line(space: MappingSpace, centre: Indices, knob: int, rng: np.random.Generator) -> Indices:
        positions = tried(space.knobs[knob], int(centre[0, knob]), rng)
        line = np.repeat(centre, len(positions), axis=0)
        line[:, knob] = positions
        return line


def tried(knob: Knob, here: int, rng: np.random.Generator) -> npt.NDArray[np.int32]:
    """Positions to try: all of a short knob; else near ones, and others at random.

    Near ones of an ordered knob are the next ones up and down, twice and half; the others are drawn
    as the knob draws.
    """
    n = len(knob)
    if n <= LINE:
        every = np.arange(n)
    else:
        near = [here - 1, here + 1, 2 * here + 1, (here + 1) // 2 - 1] if knob.ordered else []
        drawn = [knob.draw(rng) for _ in range(LINE - len(near))]
        every = np.unique([p for p in (*near, *drawn) if 0 <= p < n])
    found: npt.NDArray[np.int32] = every[every != here].astype(np.int32)
    return found
