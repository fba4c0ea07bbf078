# SPDX-License-Identifier: Apache-2.0
"""Gradient descent on a relaxed cost model, then rounding: one-loop search in the style of DOSA.

Sources: Hegde et al., "Mind Mappings", ASPLOS 2021; Hong et al., "DOSA: Differentiable Model-Based
One-Loop Search for DNN Accelerators", MICRO 2023. Tiles descend in logarithms; orders, parallel
loops and PEs are drawn per start and stay, as a gradient does not reach them. A start is rounded
every `ROUND` steps. A step of a start on the relaxed model counts as a sample, as it does there,
and so does a rounded mapping.

The cost model with tiles that are no integers, so that it has a gradient.

Formulas are those of native/cost.h without ceilings: an edge tile counts with its share, a halo
with its mean, and a loop is refetched in full or not at all as the order class says. It is a guide
for a search, not a bound, and never judges a mapping.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from tilewright.tuner.mapping.cost import CostModel, Objective
from tilewright.tuner.mapping.mapping import Batch
from tilewright.tuner.mapping.methods.mapper import Mapper, Probe
from tilewright.tuner.mapping.methods.plain_form import order_classes
from tilewright.tuner.mapping.nest import DIMENSIONS, RELEVANT
from tilewright.tuner.mapping.nest import Tensor as Operand
from tilewright.tuner.mapping.space import INNER, LEVELS, OUTER, MappingSpace
from tilewright.tuner.search.torch_threads import one_thread

_PIXELS = (DIMENSIONS.index("Y"), DIMENSIONS.index("X"))
_TAPS = (DIMENSIONS.index("R"), DIMENSIONS.index("S"))


@dataclass(frozen=True, kw_only=True)
class Relaxed:
    """``n`` mappings with real tiles."""

    outer: Tensor  # tiles, shape ``[n, 6]``
    inner: Tensor  # no larger than the outer ones
    wide2: Tensor  # clusters that share a loop, 1 for others, shape ``[n, 6]``
    wide1: Tensor  # PEs that do
    stays2: Tensor  # shape ``[n, 3]``; 1 where the loops that leave a tensor are innermost
    stays1: Tensor


def relaxed_log_cost(model: CostModel, objective: Objective, at: Relaxed) -> tuple[Tensor, Tensor]:
    """Logarithms, shape ``[n]``: of the cost, and of the factor by which buffers overflow, or 0."""
    arch = model.arch
    size = torch.tensor(model.nest.sizes, dtype=at.outer.dtype)
    span2 = torch.minimum(at.outer * at.wide2, size)
    step1 = torch.minimum(at.inner * at.wide1, at.outer)
    trips = size / span2, at.outer / step1
    pes = span2 / at.outer * (step1 / at.inner)
    l1, l2 = _buffer(model, at.inner), _buffer(model, span2)
    over = torch.zeros_like(l1)
    for needed, held in ((l1, arch.l1_bytes), (l2, arch.l2_bytes)):
        if held:
            over = over + torch.relu(torch.log(needed / held))
    if objective is Objective.AREA:
        per_pe = arch.pe_area + (arch.l1_bytes or l1) * arch.l1_area
        area = (at.wide2 * at.wide1).prod(1) * per_pe + (arch.l2_bytes or l2) * arch.l2_area
        return torch.log(area + arch.noc_bytes_per_cycle * arch.noc_area), over
    moved = _traffic(model, at, trips, span2, step1 * span2 / at.outer, pes)
    macs = float(model.nest.macs)
    compute = macs / pes.prod(1)
    if arch.pass_cycles:
        compute = compute + trips[0].prod(1) * trips[1].prod(1) * arch.pass_cycles
    noc = torch.maximum(moved.noc_in, moved.noc_out) / arch.noc_bytes_per_cycle
    cycles = torch.maximum(torch.maximum(compute, noc), moved.dram / arch.dram_bytes_per_cycle)
    at_pe = macs * (arch.weight_bytes + arch.input_bytes + 2 * arch.partial_bytes)
    energy = (
        macs * arch.mac_energy
        + (at_pe + moved.delivered) * arch.l1_energy
        + moved.delivered * arch.noc_energy
        + (moved.dram + moved.noc_in + moved.noc_out) * arch.l2_energy
        + moved.dram * arch.dram_energy
    )
    if objective is Objective.LATENCY:
        return torch.log(cycles), over
    if objective is Objective.ENERGY:
        return torch.log(energy), over
    return torch.log(cycles) + torch.log(energy), over


@dataclass
class _Moved:
    """Bytes, each of shape ``[n]``."""

    dram: Tensor
    noc_in: Tensor
    noc_out: Tensor
    delivered: Tensor


def _traffic(
    model: CostModel,
    at: Relaxed,
    trips: tuple[Tensor, Tensor],
    span2: Tensor,
    span1: Tensor,
    pes: Tensor,
) -> _Moved:
    """What moves, given the steps of both levels and what all clusters and all PEs span."""
    nest, arch = model.nest, model.arch
    moved = _Moved(*torch.zeros(4, len(span2), dtype=span2.dtype))
    for number, operand in enumerate(Operand):
        free = [d for d, n in enumerate(DIMENSIONS) if n not in RELEVANT[nest.kind][operand]]
        bound = [d for d in range(len(DIMENSIONS)) if d not in free]
        again2, again1 = (
            torch.exp((1 - stays[:, number]) * torch.log(steps[:, free]).sum(1))
            for stays, steps in zip((at.stays2, at.stays1), trips, strict=True)
        )
        visits2 = _tile(model, span2, operand) * trips[0][:, bound].prod(1) * again2
        visits1 = _tile(model, span1, operand) * trips[1][:, bound].prod(1) * again1
        visits1 = visits1 * trips[0].prod(1)
        copies = pes[:, free].prod(1)
        if operand is Operand.OUTPUTS:
            whole = float(nest.elements(operand))
            back2 = torch.relu(visits2 - whole) * arch.partial_bytes
            back1 = torch.relu(visits1 - whole) * arch.partial_bytes
            moved.dram = moved.dram + 2 * back2 + whole * arch.output_bytes
            moved.noc_in = moved.noc_in + back1
            moved.noc_out = back1 + whole * arch.output_bytes
            moved.delivered = moved.delivered + visits1 * copies * 2 * arch.partial_bytes
        else:
            element = arch.weight_bytes if operand is Operand.WEIGHTS else arch.input_bytes
            moved.dram = moved.dram + visits2 * element
            moved.noc_in = moved.noc_in + visits1 * element
            moved.delivered = moved.delivered + visits1 * copies * element
    return moved


def _buffer(model: CostModel, extent: Tensor) -> Tensor:
    """Bytes that tiles of this extent need."""
    arch = model.arch
    return arch.buffers * (
        _tile(model, extent, Operand.WEIGHTS) * arch.weight_bytes
        + _tile(model, extent, Operand.INPUTS) * arch.input_bytes
        + _tile(model, extent, Operand.OUTPUTS) * arch.partial_bytes
    )


def _tile(model: CostModel, extent: Tensor, operand: Operand) -> Tensor:
    """Elements of an operand's tile, shape ``[n]``."""
    nest = model.nest
    window = operand is Operand.INPUTS
    found = torch.ones_like(extent[:, 0])
    for d, name in enumerate(DIMENSIONS):
        if name in RELEVANT[nest.kind][operand] and not (window and d in (*_PIXELS, *_TAPS)):
            found = found * extent[:, d]
    if window:
        strides = (nest.stride_y, nest.stride_x)
        for pixel, tap, stride in zip(_PIXELS, _TAPS, strides, strict=True):
            taps = extent[:, tap]
            found = found * ((extent[:, pixel] - 1) * taps.clamp(max=stride) + taps)
    return found


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
                for level in LEVELS:
                    starts[:, level.order] = classes[rng.integers(len(classes), size=len(starts))]
                probe.values(starts)
                _descend(probe, starts, classes)


def _descend(probe: Probe, starts: Batch, classes: Batch) -> None:
    """Descend from each start, and sample what it rounds to now and then."""
    model, objective = probe.space.model, probe.objective
    sizes = torch.tensor(model.nest.sizes, dtype=torch.float64)
    outer = torch.log(torch.from_numpy(starts[:, OUTER.tile].astype(np.float64)))
    share = torch.log(torch.from_numpy(starts[:, INNER.tile].astype(np.float64))) - outer
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
    for level in LEVELS:
        widths = np.ones((len(starts), _D))
        widths[rows, starts[:, level.parallel]] = starts[:, level.units]
        found.append(torch.from_numpy(widths))
    for level in LEVELS:
        stays = (starts[:, None, level.order] == classes).all(axis=2)
        found.append(torch.from_numpy(stays.astype(np.float64)))
    return tuple(found)


def _rounded(space: MappingSpace, starts: Batch, logs: Tensor, sizes: Tensor) -> Batch:
    """The nearest mappings, repaired."""
    batch = starts.copy()
    outer, inner = _tiles(logs, sizes)
    batch[:, OUTER.tile] = np.rint(outer.numpy())
    batch[:, INNER.tile] = np.rint(inner.numpy())
    return space.repair(batch)
