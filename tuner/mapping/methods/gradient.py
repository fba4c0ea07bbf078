# SPDX-License-Identifier: Apache-2.0
"""Gradient descent on a relaxed cost model, then rounding: one-loop search in the style of DOSA.

Sources: Hegde et al., "Mind Mappings", ASPLOS 2021; Hong et al., "DOSA: Differentiable Model-Based
One-Loop Search for DNN Accelerators", MICRO 2023. Tiles descend in logarithms; orders, parallel
loops and PEs are drawn per start and stay, as a gradient does not reach them. A start is rounded
every `ROUND` steps. A step of a start on the relaxed model counts as a sample, as it does there,
and so does a rounded mapping.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from torch import Tensor

from tilewright.tuner.mapping.mapping import Batch
from tilewright.tuner.mapping.methods.mapper import Mapper, Probe
from tilewright.tuner.mapping.methods.plain_form import order_classes
from tilewright.tuner.mapping.methods.relaxed_cost import Relaxed, relaxed_log_cost
from tilewright.tuner.mapping.nest import DIMENSIONS
from tilewright.tuner.mapping.space import (
    CLUSTER_SIZE,
    CLUSTERS,
    INNER_ORDER,
    INNER_PARALLEL,
    INNER_TILE,
    OUTER_ORDER,
    OUTER_PARALLEL,
    OUTER_TILE,
    MappingSpace,
)
from tilewright.tuner.search.torch_threads import one_thread

STARTS: Final = 40
STEPS: Final = 45
ROUND: Final = 15
RATE: Final = 0.15
"""Step of Adam, in the logarithm of a tile."""
OVERFLOW: Final = 5.0
"""Weight of what exceeds a buffer."""

_D: Final = len(DIMENSIONS)


class GradientMapper(Mapper):
    """Rounds of `STARTS` descents side by side."""

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        with one_thread():
            while True:
                starts = probe.space.decode_batch(probe.space.sample_batch(rng, STARTS))
                classes = np.array(order_classes(probe.space.model.nest.kind), dtype=np.int32)
                for order in (OUTER_ORDER, INNER_ORDER):
                    starts[:, order] = classes[rng.integers(len(classes), size=len(starts))]
                probe.values(starts)
                _descend(probe, starts, classes)


def _descend(probe: Probe, starts: Batch, classes: Batch) -> None:
    """Descend from each start, and sample what it rounds to now and then."""
    model, objective = probe.space.model, probe.objective
    sizes = torch.tensor(model.nest.sizes, dtype=torch.float64)
    outer = torch.log(torch.from_numpy(starts[:, OUTER_TILE].astype(np.float64)))
    share = torch.log(torch.from_numpy(starts[:, INNER_TILE].astype(np.float64))) - outer
    logs = torch.stack([outer, share], dim=1).requires_grad_()
    optimiser = torch.optim.Adam([logs], lr=RATE)
    fixed = _fixed(starts, classes)
    for step in range(1, STEPS + 1):
        probe.charge(len(starts))
        optimiser.zero_grad()
        cost, over = relaxed_log_cost(model, objective, _relaxed(logs, sizes, fixed))
        loss = (cost + OVERFLOW * over).sum()
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        optimiser.step()
        if step % ROUND == 0:
            probe.values(_rounded(probe.space, starts, logs.detach(), sizes))


def _relaxed(logs: Tensor, sizes: Tensor, fixed: tuple[Tensor, ...]) -> Relaxed:
    wide2, wide1, stays2, stays1 = fixed
    outer, inner = _tiles(logs, sizes)
    return Relaxed(outer=outer, inner=inner, wide2=wide2, wide1=wide1, stays2=stays2, stays1=stays1)


def _tiles(logs: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """Outer and inner tiles of logarithms: of the outer one, and of the inner one's share."""
    outer = torch.exp(torch.minimum(logs[:, 0].clamp_min(0), torch.log(sizes)))
    return outer, (outer * torch.exp(logs[:, 1].clamp_max(0))).clamp_min(1)


def _fixed(starts: Batch, classes: Batch) -> tuple[Tensor, ...]:
    """What a gradient does not reach: widths per loop, and which tensor stays, at both levels."""
    rows = np.arange(len(starts))
    found = []
    for parallel, wide in ((OUTER_PARALLEL, CLUSTERS), (INNER_PARALLEL, CLUSTER_SIZE)):
        widths = np.ones((len(starts), _D))
        widths[rows, starts[:, parallel]] = starts[:, wide]
        found.append(torch.from_numpy(widths))
    for order in (OUTER_ORDER, INNER_ORDER):
        stays = (starts[:, None, order] == classes).all(axis=2)
        found.append(torch.from_numpy(stays.astype(np.float64)))
    return tuple(found)


def _rounded(space: MappingSpace, starts: Batch, logs: Tensor, sizes: Tensor) -> Batch:
    """The nearest mappings, repaired."""
    batch = starts.copy()
    outer, inner = _tiles(logs, sizes)
    batch[:, OUTER_TILE] = np.rint(outer.numpy())
    batch[:, INNER_TILE] = np.rint(inner.numpy())
    return space.repair(batch)
