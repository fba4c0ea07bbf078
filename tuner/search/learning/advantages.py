# SPDX-License-Identifier: Apache-2.0
"""Generalised advantage estimation: how much better a step was than the critic expected.

Source: Schulman et al., "High-Dimensional Continuous Control Using Generalized Advantage
Estimation", ICLR 2016, equation 16.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float32]


def generalised_advantages(
    rewards: Reals,
    values: Reals,
    *,
    discount: float,
    trace: float,
    walking: npt.NDArray[np.bool_] | None = None,
) -> Reals:
    """Advantages of the steps of walks side by side.

    Args:
        rewards: shape (T, W).
        values: shape (T + 1, W), of the points before each step and of the last one; 0 where
            a walk has ended, because nothing follows.
        discount: gamma.
        trace: lambda.
        walking: shape (T, W), whether a walk made this step; all did when left out.
    """
    made = np.ones(rewards.shape, dtype=np.bool_) if walking is None else walking
    surprises = rewards + discount * values[1:] - values[:-1]
    advantages = np.zeros_like(rewards)
    later = np.zeros_like(rewards[0])
    for step in reversed(range(len(rewards))):
        later = np.where(made[step], surprises[step] + discount * trace * later, 0.0)
        advantages[step] = later
    return advantages
