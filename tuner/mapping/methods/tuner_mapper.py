# SPDX-License-Identifier: Apache-2.0
"""Any tuner of `tuner.search` as a mapper, unchanged."""

from __future__ import annotations

from typing import Final

import numpy as np

from tilewright.tuner.mapping.methods.mapper import Mapper, Probe
from tilewright.tuner.search.registry import make_tuner
from tilewright.tuner.search.tuner import Result

BATCH: Final = 16
"""Points per ask."""


class TunerMapper(Mapper):
    """Asks a tuner for points and tells it their cost."""

    def __init__(self, tuner: str, *, batch: int = BATCH) -> None:
        self._tuner: Final = tuner
        self._batch: Final = batch

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        tuner = make_tuner(self._tuner, probe.space, seed=int(rng.integers(2**31)))
        while asked := tuner.ask(min(self._batch, probe.left)):
            indices = [candidate.index for candidate in asked]
            values = probe.values(probe.space.decode_batch(np.array(indices, dtype=np.int32)))
            tuner.tell(
                [Result(index=i, value=float(v)) for i, v in zip(indices, values, strict=True)]
            )
