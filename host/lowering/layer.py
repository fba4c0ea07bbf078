# SPDX-License-Identifier: Apache-2.0
"""`lower` turns a workload and a schedule into a program; `legal` says whether that is possible."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import ProgramError, ScheduleError
from tilewright.host.common.summaries import Summarised
from tilewright.host.lowering.emission import Emitted, OperandPlacement
from tilewright.host.lowering.emit import LayersBefore, emit
from tilewright.host.lowering.geometry import geometry
from tilewright.host.lowering.legality import LEGAL, Legality
from tilewright.host.lowering.plan import Plan, make_plan
from tilewright.host.lowering.pooling import PoolPlan, make_pool_plan
from tilewright.host.lowering.pooling_emit import emit_pool
from tilewright.host.lowering.products import ProductPlan, emit_product, make_product_plan
from tilewright.host.lowering.program_builder import ProgramBuilder
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.isa import TABLE_ENTRIES, TABLE_ROW_ENTRIES
from tilewright.host.machine.program import Program, layout_regions
from tilewright.host.network.golden import Int8Array, LayerTensors
from tilewright.host.network.int4_tiles import pack_int4
from tilewright.host.network.layout import (
    fold_activations,
    folds,
    input_block,
    output_block,
    pack_activations,
    pack_params,
    pack_table,
    unpack_activations,
    weight_tiles,
)
from tilewright.host.network.requant import clip_bounds
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload

Bytes = npt.NDArray[np.uint8]
AnyPlan = Plan | PoolPlan | ProductPlan


@dataclass(frozen=True, kw_only=True, repr=False)
class LoweredLayer(Summarised):
    """A workload lowered to a program.

    Attributes:
        hw, workload, schedule: what was lowered.
        program: ready to run; regions ``inp``, ``wgt`` (of convolutions), ``factor`` (of
            products), ``param``, ``res`` (with a residual), ``out``, ``table`` (with one), ``uop``,
            ``insn``.
    """

    hw: HwConfig
    workload: Workload
    schedule: Schedule
    program: Program
    clip: tuple[int, int]  # int8 bounds that the program clips to
    factor_zero: int  # int8 that stands for 0 in a product's factor
    folded: bool  # kernel columns are unrolled into channels by `image`
    macs_tiles: int  # tile products that GEMM issues
    bytes_read: int  # bytes that LOAD reads, micro-ops included, instruction fetch not
    bytes_written: int  # bytes that STORE writes

    def _told(self) -> Mapping[str, object]:
        return {
            "workload": self.workload.name,
            "configuration": self.hw.name,
            "macs_tiles": f"{self.macs_tiles:,} tile products",
            "bytes_read": f"{self.bytes_read:,} bytes",
            "bytes_written": f"{self.bytes_written:,} bytes",
            "schedule": self.schedule,
        }

    def image(self, tensors: LayerTensors) -> Bytes:
        """The memory image: program and packed operands; uint8 of ``program.memory_bytes``."""
        hw, workload, program = self.hw, self.workload, self.program
        tensors.check(workload)
        clip = (tensors.requant.clip_min, tensors.requant.clip_max)
        if clip != self.clip:
            raise ProgramError(
                f"the program clips to {self.clip}",
                field="requant.clip",
                value=clip,
                remedy="lower the workload with that clip",
            )
        if tensors.factor_zero != self.factor_zero:
            raise ProgramError(
                f"the program takes the factor's zero point to be {self.factor_zero}",
                field="factor_zero",
                value=tensors.factor_zero,
                remedy="lower the workload with that factor_zero",
            )
        table = tensors.requant.table
        if (table is not None) != ("table" in program.regions):
            raise ProgramError(
                "a table must be given exactly when the program looks results up",
                field="requant.table",
                value=table is not None,
                remedy="lower the workload with table=True, or give no table",
            )
        data, weights = tensors.data, tensors.weights
        memory = program.image()
        if weights is None:  # no GEMM: its input lies as its output does
            block, planes = output_block(hw), None
        else:
            block, planes = input_block(hw), geometry(hw, workload).in_planes
        if self.folded:
            data = fold_activations(
                data,
                kernel_w=workload.kernel_w,
                stride_w=workload.stride_w,
                dilation_w=workload.dilation_w,
                pad_left=workload.pad_left,
                out_width=workload.out_width,
            )
        packed = pack_activations(data, batch=hw.batch, block=block, channel_blocks=planes)
        program.write(memory, "inp", packed)
        if weights is not None:
            shape = geometry(hw, workload)
            packed = weight_tiles(weights, hw, depthwise=shape.depthwise, folded=shape.folded)
            if shape.int4:
                packed = pack_int4(packed, hw, f"{workload.name}.weights")
            program.write(memory, "wgt", packed)
        if tensors.factor is not None:
            packed = pack_activations(tensors.factor, batch=hw.batch, block=block)
            program.write(memory, "factor", packed)
        program.write(memory, "param", pack_params(tensors.requant, block_out=hw.block_out))
        if table is not None:
            program.write(memory, "table", pack_table(table, axi_bytes=hw.axi_bytes))
        if tensors.residual is not None:
            program.write(
                memory,
                "res",
                pack_activations(tensors.residual, batch=hw.batch, block=output_block(hw)),
            )
        return memory

    def output(self, memory: Bytes) -> Int8Array:
        """The output tensor, int8 NCHW, from a memory image after a run."""
        return unpack_activations(
            self.program.read(memory, "out"),
            self.workload.output_shape,
            batch=self.hw.batch,
            block=output_block(self.hw),
        )


def legal(hw: HwConfig, workload: Workload, schedule: Schedule) -> Legality:
    """Whether `lower` accepts a schedule, and the reason if it does not.

    Exact: the answer comes from the plan that `lower` emits. Costs tens of microseconds.

    Args:
        hw: the configuration to lower for.
        workload: what to compute.
        schedule: how.
    """
    found = _plan(hw, workload, schedule)
    return found if isinstance(found, Legality) else LEGAL


def lower(
    hw: HwConfig,
    workload: Workload,
    schedule: Schedule,
    *,
    clip: tuple[int, int] | None = None,
    table: bool = False,
    factor_zero: int = 0,
) -> LoweredLayer:
    """Lower a workload with a schedule.

    Args:
        hw: the configuration to lower for.
        workload: what to compute.
        schedule: how.
        clip: int8 bounds of the output; by default the workload's (`clip_bounds`).
        table: look results up in an activation table, which is an operand as the parameters are.
        factor_zero: int8 that stands for 0 in a product's factor.

    Raises:
        ScheduleError: the schedule is not legal; the text is that of `legal`.
        ProgramError: a clip that is not int8 or not in order, or a table that ``hw`` lacks.
    """
    plan = _legal_plan(hw, workload, schedule)
    bounds = _checked_clip(clip_bounds(workload) if clip is None else clip)
    builder, sizes = ProgramBuilder(hw), plan.region_sizes()
    if table:
        sizes["table"] = TABLE_ENTRIES // TABLE_ROW_ENTRIES * hw.axi_bytes
    regions, uop_offset = layout_regions(sizes)
    offsets = {name: region.offset for name, region in regions.items()}
    placement = OperandPlacement(offsets=offsets, uop=uop_offset, factor_zero=factor_zero)
    emitted = _emit(builder, plan, bounds, placement)
    program = builder.finish({**sizes, "uop": len(emitted.uops)}, {"uop": emitted.uops})
    return LoweredLayer(
        hw=hw,
        workload=workload,
        schedule=schedule,
        program=program,
        clip=bounds,
        factor_zero=factor_zero,
        folded=folds(hw, workload),
        macs_tiles=emitted.macs_tiles,
        bytes_read=emitted.bytes_read,
        bytes_written=emitted.bytes_written,
    )


def append_layer(
    builder: ProgramBuilder,
    workload: Workload,
    schedule: Schedule,
    *,
    clip: tuple[int, int],
    placement: OperandPlacement,
    before: LayersBefore | None = None,
) -> Emitted:
    """Append a workload to a program that has other layers.

    Args:
        builder: of the program; a `ProgramBuilder.fence` parts the layers.
        workload: what to compute.
        schedule: how.
        clip: int8 bounds of the output.
        placement: where the operands lie; all regions that `lower` would lay out.
        before: of the run that the layer belongs to, of a workload with weights.
    """
    plan = _legal_plan(builder.hw, workload, schedule)
    return _emit(builder, plan, _checked_clip(clip), placement, before)


def _plan(hw: HwConfig, workload: Workload, schedule: Schedule) -> AnyPlan | Legality:
    if workload.kind.pools:
        return make_pool_plan(hw, workload, schedule)
    if workload.kind.pairs:
        return make_product_plan(hw, workload, schedule)
    return make_plan(hw, workload, schedule)


def _emit(
    builder: ProgramBuilder,
    plan: AnyPlan,
    clip: tuple[int, int],
    placement: OperandPlacement,
    before: LayersBefore | None = None,
) -> Emitted:
    if isinstance(plan, PoolPlan):
        return emit_pool(builder, plan, clip, placement)
    if isinstance(plan, ProductPlan):
        return emit_product(builder, plan, clip, placement)
    return emit(builder, plan, clip, placement, before)


def _legal_plan(hw: HwConfig, workload: Workload, schedule: Schedule) -> AnyPlan:
    plan = _plan(hw, workload, schedule)
    if isinstance(plan, Legality):
        raise ScheduleError(
            plan.detail,
            field=f"{workload.name} on {hw.name} ({plan.rule})",
            remedy=(
                "choose larger tiles"
                if plan.rule == "program_length"
                else "choose smaller tiles, less threading or larger buffers"
            ),
        )
    return plan


def _checked_clip(clip: tuple[int, int]) -> tuple[int, int]:
    if not -128 <= clip[0] <= clip[1] <= 127:
        raise ProgramError(
            "clip bounds must be int8 and in order",
            field="clip",
            value=clip,
            remedy="give -128 <= low <= high <= 127, or None for the workload's own",
        )
    return clip
