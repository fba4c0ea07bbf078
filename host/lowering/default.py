# SPDX-License-Identifier: Apache-2.0
"""The untuned schedule: what a careful user would choose without measuring."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from tilewright.host.common.errors import ScheduleError
from tilewright.host.lowering.gathers import room_of
from tilewright.host.lowering.geometry import Geometry, geometry
from tilewright.host.lowering.layer import legal
from tilewright.host.lowering.legality import Legality
from tilewright.host.lowering.plan import make_plan
from tilewright.host.lowering.pooling import default_pool_schedule
from tilewright.host.lowering.products import default_product_schedule
from tilewright.host.lowering.row_plan import plan_rows
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.layout import blocks_of
from tilewright.host.network.schedule import LoopOrder, Schedule
from tilewright.host.network.workload import Kind, Workload


def _even_parts(extent: int) -> list[int]:
    """Tile sizes that cut an extent into 1, 2, 4, ... even parts, largest first."""
    sizes, parts = [], 1
    while parts < extent:
        sizes.append(blocks_of(extent, parts))
        parts *= 2
    return list(dict.fromkeys([*sizes, 1]))


def _candidates(shape: Geometry, order: LoopOrder) -> Iterator[Schedule]:
    """Single-buffered schedules with square-ish image tiles."""
    blocks, unit = 1 if shape.depthwise else shape.reduce_blocks, shape.tile_ci_unit
    depths = [min(units * unit, blocks) for units in _even_parts(blocks_of(blocks, unit))]
    for side in _even_parts(max(shape.out_height, shape.out_width)):
        for tile_co in _even_parts(shape.out_blocks):
            for tile_ci in depths:
                yield Schedule(
                    tile_h=min(side, shape.out_height),
                    tile_w=min(side, shape.out_width),
                    tile_ci=tile_ci,
                    tile_co=tile_co,
                    loop_order=order,
                )


def default_schedule(hw: HwConfig, workload: Workload) -> Schedule:
    """The largest square-ish tile that fits, single-buffered, output-stationary, as VTA does.

    "Largest" counts the output pixels and channels first (they set how often operands are
    reloaded), then the depth of the reduction step. If nothing fits output-stationary,
    weight-stationary is tried. Pools and products have defaults of their own
    (`default_pool_schedule`, `default_product_schedule`). Rows
    and moves of pixels have no choices: their schedule says nothing.

    Args:
        hw: the configuration to lower for.
        workload: what to compute.

    Raises:
        ScheduleError: no such schedule is legal; the text says what the smallest one lacks.
    """
    try:
        return _known(hw, workload.renamed("layer"))
    except ScheduleError:
        return _found(hw, workload)  # which refuses it by its name


@lru_cache(maxsize=4096)  # the offload decision, the lowering and the report ask in turn
def _known(hw: HwConfig, workload: Workload) -> Schedule:
    return _found(hw, workload)


def _found(hw: HwConfig, workload: Workload) -> Schedule:
    if workload.kind.pools:
        return default_pool_schedule(hw, workload)
    if workload.kind.pairs:
        return default_product_schedule(hw, workload)
    if not workload.kind.alone:  # refuse what does not fit
        if workload.kind is Kind.ROWS:
            plan_rows(hw, workload.input_shape)
        else:
            room_of(hw, workload.channels_in)
        return Schedule(tile_h=1, tile_w=1, tile_ci=1, tile_co=1)
    shape = geometry(hw, workload)
    for order in (LoopOrder.OUTPUT_STATIONARY, LoopOrder.WEIGHT_STATIONARY):
        largest_first = sorted(
            _candidates(shape, order),
            key=lambda s: (s.tile_h * s.tile_w * s.tile_co, s.tile_h * s.tile_w, s.tile_ci),
            reverse=True,
        )
        for schedule in largest_first:
            if legal(hw, workload, schedule).ok:
                return schedule
    least = min(shape.tile_ci_unit, shape.reduce_blocks)
    smallest = Schedule(tile_h=1, tile_w=1, tile_ci=least, tile_co=1)
    lacks = make_plan(hw, workload, smallest, any_length=True)
    verdict = lacks if isinstance(lacks, Legality) else legal(hw, workload, smallest)
    raise ScheduleError(
        f"no default schedule is legal; the smallest tile: {verdict.detail}",
        field=f"{workload.name} on {hw.name}",
        remedy="enlarge the buffers or run this operator on the CPU",
    )
