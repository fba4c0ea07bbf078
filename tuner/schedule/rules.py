# SPDX-License-Identifier: Apache-2.0
"""`Rules`: the host's judgements that a search relies on, passed in as one value.

The tuner owns no legality rule, bound or area figure of its own. Everything it knows about them
comes through this record, so a test can replace the whole accelerator by an analytic one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.host.lowering import Legality, default_schedule, legal
from tilewright.host.lowering.cycle_bound import Bound, bound
from tilewright.host.lowering.geometry import geometry
from tilewright.host.machine.area import Area, Fit, estimate, fits
from tilewright.host.machine.board import Board, MemoryModel
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload
from tilewright.tuner.schedule.space_prior import JointPrior, SchedulePrior
from tilewright.tuner.search.tuner import SpacePrior

Prior = SpacePrior | Callable[[Any], float]
"""What predicts points of a space, or one point at a time."""


def _any_tile_ci(hw: HwConfig, workload: Workload) -> int:
    del hw, workload
    return 1


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The judgements of the host.

    Attributes:
        channel_blocks: (input, output) channel blocks of a workload on a configuration: the
            extents of ``tile_ci`` and ``tile_co``.
        tile_ci_unit: what ``tile_ci`` is a multiple of, unless it covers its extent.
        prior: of a task's schedules on a configuration; never a measurement.
        joint_prior: of a task's schedules on each of a list of configurations.
        ranks: whether the priors judge whole spaces, so that they can rank configurations.
        bounds_schedules: whether `schedule_bound` holds for the accelerator of these rules.
    """

    legal: Callable[[HwConfig, Workload, Schedule], Legality]  # whether a schedule lowers
    default_schedule: Callable[[HwConfig, Workload], Schedule]  # the untuned schedule of a workload
    bound: Callable[[HwConfig, Workload, MemoryModel], Bound]  # lower bound of the cycles
    estimate: Callable[[HwConfig], Area]  # area of a configuration
    fits: Callable[[HwConfig, Board], Fit]  # whether a configuration fits a board
    channel_blocks: Callable[[HwConfig, Workload], tuple[int, int]]
    prior: Callable[[HwConfig, Workload, MemoryModel], Prior]
    joint_prior: Callable[[Sequence[HwConfig], Workload, MemoryModel], Prior]
    ranks: bool = True
    bounds_schedules: bool = False
    tile_ci_unit: Callable[[HwConfig, Workload], int] = _any_tile_ci


def channel_blocks(hw: HwConfig, workload: Workload) -> tuple[int, int]:
    """See `Rules.channel_blocks`."""
    shape = geometry(hw, workload)
    return shape.reduce_blocks, shape.out_blocks


def tile_ci_unit(hw: HwConfig, workload: Workload) -> int:
    """See `Rules.tile_ci_unit`."""
    return geometry(hw, workload).tile_ci_unit


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
        prior=SchedulePrior,
        joint_prior=JointPrior,
        bounds_schedules=True,
    )
