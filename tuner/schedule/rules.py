# SPDX-License-Identifier: Apache-2.0
"""`Rules`: the host's judgements that a search relies on, passed in as one value.

The tuner owns no legality rule, bound or area figure of its own. Everything it knows about them
comes through this record, so a test can replace the whole accelerator by an analytic one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tilewright.host.lowering import Legality, default_schedule, legal, lower
from tilewright.host.lowering.cycle_bound import Bound, bound
from tilewright.host.lowering.geometry import geometry
from tilewright.host.machine.area import Area, Fit, estimate, fits
from tilewright.host.machine.board import Board, MemoryModel
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload
from tilewright.sim.twin.estimate import Estimator
from tilewright.tuner.schedule.space_prior import JointPrior, SchedulePrior
from tilewright.tuner.search.prior import SpacePrior

PREDICTED_STEPS: Final = 256
"""Tile steps above which a schedule is not lowered to be predicted: it costs more than it tells.

Such a schedule gets a cost far above any other, growing with its steps."""


def _any_tile_ci(hw: HwConfig, workload: Workload) -> int:
    del hw, workload
    return 1


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The judgements of the host.

    Attributes:
        legal: whether a schedule lowers.
        default_schedule: the untuned schedule of a workload.
        bound: lower bound of the cycles.
        estimate: area of a configuration.
        fits: whether a configuration fits a board.
        channel_blocks: (input, output) channel blocks of a workload on a configuration: the
            extents of ``tile_ci`` and ``tile_co``.
        tile_ci_unit: what ``tile_ci`` is a multiple of, unless it covers its extent.
        predicted_cycles: the `model` fidelity's estimate for a legal schedule; a prior, never a
            measurement.
        schedule_prior: the closed-form prior of a task on a configuration; None: the tuner gets
            ``predicted_cycles``, a point at a time.
        joint_prior: the same over a list of configurations.
    """

    legal: Callable[[HwConfig, Workload, Schedule], Legality]
    default_schedule: Callable[[HwConfig, Workload], Schedule]
    bound: Callable[[HwConfig, Workload, MemoryModel], Bound]
    estimate: Callable[[HwConfig], Area]
    fits: Callable[[HwConfig, Board], Fit]
    channel_blocks: Callable[[HwConfig, Workload], tuple[int, int]]
    predicted_cycles: Callable[[HwConfig, Workload, Schedule, MemoryModel], float]
    tile_ci_unit: Callable[[HwConfig, Workload], int] = _any_tile_ci
    schedule_prior: Callable[[HwConfig, Workload, MemoryModel], SpacePrior] | None = None
    joint_prior: Callable[[Sequence[HwConfig], Workload, MemoryModel], SpacePrior] | None = None

    def prior(
        self, hw: HwConfig, workload: Workload, memory: MemoryModel
    ) -> SpacePrior | Callable[[Schedule], float]:
        """The best prior of a task's schedules that there is."""
        if self.schedule_prior is not None:
            return self.schedule_prior(hw, workload, memory)
        return lambda schedule: self.predicted_cycles(hw, workload, schedule, memory)


def channel_blocks(hw: HwConfig, workload: Workload) -> tuple[int, int]:
    """See `Rules.channel_blocks`."""
    shape = geometry(hw, workload)
    return shape.reduce_blocks, shape.out_blocks


def tile_ci_unit(hw: HwConfig, workload: Workload) -> int:
    """See `Rules.tile_ci_unit`."""
    return geometry(hw, workload).tile_ci_unit


def predicted_cycles(
    hw: HwConfig, workload: Workload, schedule: Schedule, memory: MemoryModel
) -> float:
    """See `Rules.predicted_cycles`."""
    steps = tile_steps(hw, workload, schedule, channel_blocks)
    if steps > PREDICTED_STEPS:
        return workload.macs * (steps / PREDICTED_STEPS)
    return float(Estimator(hw, memory).cycles(lower(hw, workload, schedule).program))


def tile_steps(
    hw: HwConfig,
    workload: Workload,
    schedule: Schedule,
    channel_blocks: Callable[[HwConfig, Workload], tuple[int, int]],
) -> int:
    """Tiles that a schedule steps through: output tiles times input-channel tiles."""
    in_blocks, out_blocks = channel_blocks(hw, workload)
    steps = -(-workload.out_height // schedule.tile_h) * -(-workload.out_width // schedule.tile_w)
    return steps * -(-in_blocks // schedule.tile_ci) * -(-out_blocks // schedule.tile_co)


def host_rules() -> Rules:
    """The judgements of this Tilewright's own host modules."""
    return Rules(
        legal=legal,
        default_schedule=default_schedule,
        bound=bound,
        estimate=estimate,
        fits=fits,
        channel_blocks=channel_blocks,
        tile_ci_unit=tile_ci_unit,
        predicted_cycles=predicted_cycles,
        schedule_prior=SchedulePrior,
        joint_prior=JointPrior,
    )
