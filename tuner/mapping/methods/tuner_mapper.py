# SPDX-License-Identifier: Apache-2.0
"""Any tuner of `tuner.search` as a mapper, unchanged."""

from __future__ import annotations

import numpy as np

from tilewright.tuner.mapping.methods.mapper import Mapper, Probe
from tilewright.tuner.search.samples import AskTell


class TunerMapper(AskTell, Mapper):
    """Asks a tuner for points and tells it their cost."""

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        decode = probe.space.decode_batch
        self._drive(
            probe.space, probe, rng,
            lambda asked: probe.values(decode(np.array([a.index for a in asked], dtype=np.int32))),
        )  # fmt: skip
