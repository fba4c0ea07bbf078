# SPDX-License-Identifier: Apache-2.0
"""DynaTune: a bandit over tasks whose rewards are foretold by a Bayesian belief.

Zhang, Li, Wang and Li, "DynaTune: Dynamic Tensor Program Optimization in Deep Neural Network
Compilation", ICLR 2021; re-implemented from the text, its code is not public. The slot t goes to

    argmax_k  E_k + sqrt(C ln t / c_k)

where c_k is the number of slots that task k had, and E_k the reward that its belief promises
(`expectation.py`).

The text measures rewards in milliseconds, with C = 2, and 0.2 for networks below 1 ms: `DynaTune`.
A bonus that depends on the unit outweighs gains of microseconds, so `DynaTuneShare`, ours, takes
rewards as shares of the network's present latency, with C = `EXPLORATION`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from tilewright.tuner.allocate._base import Arm
from tilewright.tuner.allocate.expectation import Expectation
from tilewright.tuner.search import TunerError

EXPLORATION: Final = 1e-6
"""C for rewards that are shares of the latency; docs/explanation/dynatune.md says how chosen."""

REWARDS: Final = ("ms", "share")


class DynaTune(Expectation):
    """Upper confidence bound on promised rewards, as published."""

    def __init__(
        self,
        arms: Sequence[Arm],
        *,
        exploration: float | None = None,
        reward: str = "ms",
        ms_per_cost: float = 1e-5,
        **options: Any,
    ) -> None:
        super().__init__(arms, **options)
        for name, value, ok in (
            ("exploration", exploration, exploration is None or exploration >= 0),
            ("reward", reward, reward in REWARDS),
            ("ms_per_cost", ms_per_cost, ms_per_cost > 0),
        ):
            if not ok:
                raise TunerError("is out of its range", field=name, value=value)
        self._exploration: Final = exploration
        self._reward: Final = reward
        self._ms: Final = ms_per_cost
        self._first = 0.0

    def _choose(self, available: list[int]) -> int:
        self._first = self._first or self.network or 1.0
        return super()._choose(available)

    def _among(self, moving: list[int]) -> int:
        unit = self._ms if self._reward == "ms" else 1.0 / (self.network or 1.0)
        width = self._constant() * math.log(self.slots)

        def score(arm: int) -> float:
            return self.promised(arm) * unit + math.sqrt(width / self.tracks[arm].slots)

        return max(moving, key=score)

    def _constant(self) -> float:
        if self._exploration is not None:
            return self._exploration
        if self._reward == "share":
            return EXPLORATION
        return 2.0 if self._first * self._ms >= 1.0 else 0.2


class DynaTuneShare(DynaTune):
    """The same with rewards as shares of the network's latency; arguments as `DynaTune`."""

    def __init__(self, arms: Sequence[Arm], *, reward: str = "share", **options: Any) -> None:
        super().__init__(arms, reward=reward, **options)
