# SPDX-License-Identifier: Apache-2.0
"""`MappingGame`: propose mappings, see what they cost, be rewarded; many lanes side by side.

A lane is one player's game. A proposal names the position of each knob of `MappingSpace`. Where
the buffers refuse it, `MappingSpace.repair` halves its tiles, and what is legal then is paid for:
a player never sees an illegal mapping, and each proposal is one sample of the cost model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import ConfigError
from tilewright.host.common.str_enum import StrEnum
from tilewright.tuner.mapping.cost import CostModel, Costs, Objective, require_priced
from tilewright.tuner.mapping.mapping import Batch, Level, Mapping
from tilewright.tuner.mapping.nest import Tensor
from tilewright.tuner.mapping.space import MappingSpace

Reals = npt.NDArray[np.float64]
Proposals = npt.NDArray[np.integer[Any]]
"""Positions of the knobs, shape ``[lanes, len(space.knobs)]``."""

OBSERVED: Final = ("latency", "power", "energy", "area")
"""What a player sees of its last proposal: the natural logarithm of each, over its floor."""


class Reward(StrEnum):
    """How a cost pays; more is better."""

    INVERSE = "inverse"
    """Floor / cost, at most 1: the 1/X of Krishnan et al., in a unit that suits every layer."""
    LOG = "log"
    """The logarithm of `INVERSE`: equal ratios pay equally, wherever they are won."""
    IMPROVEMENT = "improvement"
    """Logarithm of the lane's best cost before, over the cost; nothing where that is no gain."""
    REGRET = "regret"
    """Minus the relative distance to a given optimum; at most 0."""


@dataclass(frozen=True, kw_only=True)
class Floors:
    """Costs that no mapping of a nest on an architecture goes below."""

    cycles: float  # as many as its multiply-accumulates take on all PEs, or its tensors from DRAM
    energy: float  # of the multiply-accumulates with their operands, and of each tensor moved once
    area: float  # of one PE and of what the architecture has whatever a mapping uses

    def of(self, objective: Objective) -> float:
        """The floor of an objective."""
        if objective is Objective.LATENCY:
            return self.cycles
        if objective is Objective.ENERGY:
            return self.energy
        return self.cycles * self.energy if objective is Objective.EDP else self.area


def floors_of(model: CostModel) -> Floors:
    """Sound lower bounds in closed form; far below what a mapping reaches, but never above.

    One is zero only where every mapping has that cost.
    """
    nest, arch = model.nest, model.arch
    once = sum(
        nest.elements(tensor) * size
        for tensor, size in zip(
            (Tensor.WEIGHTS, Tensor.INPUTS, Tensor.OUTPUTS),
            (arch.weight_bytes, arch.input_bytes, arch.output_bytes),
            strict=True,
        )
    )
    operands = arch.weight_bytes + arch.input_bytes + 2 * arch.partial_bytes
    one = Level(tile=(1, 1, 1, 1, 1, 1), order="KCYXRS", parallel=arch.outer_parallel[0])
    inner = replace(one, parallel=arch.inner_parallel[0])
    smallest = model.cost(Mapping(outer=one, inner=inner, clusters=1, cluster_size=1))
    return Floors(
        cycles=max(nest.macs / arch.pes, once / arch.dram_bytes_per_cycle),
        energy=nest.macs * (arch.mac_energy + operands * arch.l1_energy)
        + once * (arch.dram_energy + arch.l2_energy)
        or once * arch.noc_energy,  # each byte is delivered at least once
        area=arch.pe_area + arch.noc_bytes_per_cycle * arch.noc_area or smallest["area"],
    )


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a batch of proposals came to; one row per lane."""

    rows: Batch  # the mappings that were paid for, legal ones
    costs: Reals  # shape ``[lanes]``, of the objective
    observations: npt.NDArray[np.float32]  # float32 of shape ``[lanes, len(OBSERVED)]``
    rewards: Reals  # shape ``[lanes]``
    repaired: npt.NDArray[np.bool_]  # shape ``[lanes]``, where the buffers refused the proposal


class MappingGame:
    """Proposals and rewards of one nest on one architecture, for lanes side by side."""

    def __init__(
        self,
        space: MappingSpace,
        objective: Objective,
        *,
        reward: Reward = Reward.INVERSE,
        lanes: int = 1,
        optimum: float | None = None,
        evaluate: Callable[[Batch], Costs] | None = None,
    ) -> None:
        if type(lanes) is not int or lanes < 1:
            raise ConfigError("must be an integer of at least 1", field="lanes", value=lanes)
        require_priced(space.model.arch, objective)
        number = isinstance(optimum, (int, float)) and 0 < optimum < np.inf
        if reward is Reward.REGRET and not number:
            raise ConfigError(
                "a regret needs the positive cost of the optimum",
                field="optimum",
                value=optimum,
                remedy="give what the exact mapper certifies, or choose another reward",
            )
        self.space: Final = space
        self.objective: Final = objective
        self.reward: Final = reward
        self.lanes: Final = lanes
        self.floors: Final = floors_of(space.model)
        self._optimum = optimum
        self._evaluate: Final = evaluate or space.model.costs
        self.best: Reals = np.full(lanes, np.inf)

    def reset(self) -> npt.NDArray[np.float32]:
        """Forget; the observations before a first proposal: zeros."""
        self.best = np.full(self.lanes, np.inf)
        return np.zeros((self.lanes, len(OBSERVED)), dtype=np.float32)

    def propose(self, indices: Proposals) -> Outcome:
        """Pay for one proposal per lane."""
        indices = np.asarray(indices)
        shape = (self.lanes, len(self.space.knobs))
        lengths = [len(knob) for knob in self.space.knobs]
        whole = np.issubdtype(indices.dtype, np.integer) and indices.shape == shape
        if not whole or (indices < 0).any() or (indices >= lengths).any():
            raise ConfigError(
                f"must be positions of the {shape[1]} knobs, of {shape[0]} lanes",
                field="proposals",
                value=indices.tolist(),
            )
        wanted = self.space.decode_batch(indices.astype(np.int32))
        rows = self.space.repair(wanted)
        costs = self._evaluate(rows)
        cost, floors = costs.of(self.objective), self.floors
        latency, energy = costs["cycles"] / floors.cycles, _over(costs["energy"], floors.energy)
        area = _over(costs["area"], floors.area)
        seen = np.stack([latency, energy / latency, energy, area], axis=1)
        rewards = self._rewards(cost)
        self.best = np.minimum(self.best, cost)
        return Outcome(
            rows=rows,
            costs=cost,
            observations=np.log(seen).astype(np.float32),
            rewards=rewards,
            repaired=(rows != wanted).any(axis=1),
        )

    def _rewards(self, cost: Reals) -> Reals:
        if self.reward is Reward.REGRET:
            assert self._optimum is not None
            return 1 - cost / self._optimum
        if self.reward is Reward.IMPROVEMENT:
            gain = np.log(np.where(np.isinf(self.best), cost, self.best) / cost)
            return np.maximum(gain, 0.0)
        inverse = self.floors.of(self.objective) / cost
        return inverse if self.reward is Reward.INVERSE else np.log(inverse)


def _over(costs: Reals, floor: float) -> Reals:
    """Costs over their floor; ones where nothing has a price."""
    return costs / floor if floor else np.ones_like(costs)
