# SPDX-License-Identifier: Apache-2.0
"""CMA-ES over a unit cube, restarted with a larger population when it stands still.

Source: Hansen, "The CMA Evolution Strategy: A Tutorial", arXiv 1604.00772; restarts: Auger and
Hansen, CEC 2005. The library is ``cmaes``, with its own settings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

import numpy as np
import numpy.typing as npt
from cmaes import CMA

from tilewright.tuner.search.blas_threads import one_blas_thread

SIGMA: Final = 0.25
"""First step size, as a share of the cube."""

Reals = npt.NDArray[np.float64]


def minimise(costs: Callable[[Reals], Reals], width: int, rng: np.random.Generator) -> NoReturn:
    """Sample without end; an exception of ``costs`` ends it.

    Args:
        costs: of points of shape ``[n, width]``, each from 0 to 1; shape ``[n]``.
        width: dimensions of the cube.
        rng: of all randomness.
    """
    population: int | None = None
    with one_blas_thread():
        while True:
            optimiser = CMA(
                mean=rng.random(width),
                sigma=SIGMA,
                bounds=np.tile([0.0, 1.0], (width, 1)),
                n_max_resampling=1,  # a draw outside is cut; in so many dimensions most are
                seed=int(rng.integers(2**31)),
                population_size=population,
            )
            while not optimiser.should_stop():
                asked = [optimiser.ask() for _ in range(optimiser.population_size)]
                found = costs(np.array(asked))
                optimiser.tell(list(zip(asked, found.tolist(), strict=True)))
            population = 2 * optimiser.population_size
