# SPDX-License-Identifier: Apache-2.0
"""For each rule of legality a configuration, a layer and a schedule that breaks it."""

from dataclasses import replace

from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.schedule import LoopOrder, Schedule
from tilewright.host.network.workload import conv2d, dense, depthwise

TINY = load_hwconfig("tiny-4x4")
HARDWARE = {
    "tiny": TINY,
    "batch 2": TINY.with_(batch=2),
    "wide out": TINY.with_(block_out=16, wgt_bytes=16384, acc_bytes=16384, vector_lanes=8),
    "wide in": TINY.with_(block_in=16, inp_bytes=16384, wgt_bytes=16384),
    "two banks": TINY.with_(
        block_out=64, batch=2, acc_bytes=1024, wgt_bytes=65536, param_bytes=8192
    ),
    "batch2-8x16": load_hwconfig("batch2-8x16"),
}  # fmt: skip
WORKLOAD = conv2d("w", 8, 16, 16, 3, 1, 1)
SCHEDULE = Schedule(tile_h=2, tile_w=4, tile_ci=2, tile_co=1)
BIG = conv2d("w", 64, 64, 64, 3, 1, 1, residual=True)
CASES = {
    "tile_b_extent": (TINY, WORKLOAD, replace(SCHEDULE, tile_b=2)),
    "tile_h_extent": (TINY, WORKLOAD, replace(SCHEDULE, tile_h=9)),
    "tile_w_extent": (TINY, WORKLOAD, replace(SCHEDULE, tile_w=9)),
    "tile_co_extent": (TINY, WORKLOAD, replace(SCHEDULE, tile_co=5)),
    "tile_ci_extent": (TINY, depthwise("d", 8, 16, 3, 1, 1), SCHEDULE),
    "tile_ci_interleave": (HARDWARE["wide out"], BIG, replace(SCHEDULE, tile_ci=6)),
    "depthwise_loop_order": (
        TINY,
        depthwise("d", 8, 16, 3, 1, 1),
        replace(SCHEDULE, tile_ci=1, loop_order=LoopOrder.INPUT_STATIONARY),
    ),
    "program_length": (
        TINY, conv2d("w", 4000, 64, 64, 3, 1, 1),
        Schedule(tile_h=2, tile_w=2, tile_ci=1, tile_co=1),
    ),
    "inp_capacity": (TINY, BIG, Schedule(tile_h=1, tile_w=64, tile_ci=16, tile_co=1)),
    "wgt_capacity": (TINY, BIG, Schedule(tile_h=1, tile_w=1, tile_ci=4, tile_co=16)),
    "acc_capacity": (TINY, BIG, Schedule(tile_h=8, tile_w=8, tile_ci=1, tile_co=5)),
    "out_capacity": (
        TINY.with_(out_bytes=1024, acc_bytes=65536), BIG,
        Schedule(tile_h=8, tile_w=8, tile_ci=1, tile_co=5),
    ),
    "res_capacity": (
        TINY.with_(res_bytes=1024, acc_bytes=65536), BIG,
        Schedule(tile_h=8, tile_w=8, tile_ci=1, tile_co=5),
    ),
    "param_capacity": (
        TINY.with_(param_bytes=1024), conv2d("w", 8, 4, 128, 1, 0, 1),
        Schedule(tile_h=4, tile_w=4, tile_ci=1, tile_co=1),
    ),
    "uop_capacity": (
        TINY.with_(uop_bytes=1024, wgt_bytes=65536, inp_bytes=65536),
        conv2d("w", 8, 64, 8, 3, 1, 1),
        Schedule(tile_h=2, tile_w=2, tile_ci=16, tile_co=1),
    ),
    "field_pad_rows": (
        TINY, replace(conv2d("w", 8, 4, 4, 1, 0, 1), pad_top=70),
        Schedule(tile_h=70, tile_w=1, tile_ci=1, tile_co=1),
    ),
    "field_pad_columns": (
        TINY, replace(conv2d("w", 8, 4, 4, 1, 0, 1), pad_left=70),
        Schedule(tile_h=1, tile_w=70, tile_ci=1, tile_co=1),
    ),
    "field_input_columns": (
        TINY, replace(conv2d("w", 1, 4, 4, 1, 0, 1), width=70000),
        Schedule(tile_h=1, tile_w=70000, tile_ci=1, tile_co=1),
    ),
    "field_input_rows": (
        TINY, replace(conv2d("w", 1, 4, 4, 1, 0, 1), height=70000),
        Schedule(tile_h=70000, tile_w=1, tile_ci=1, tile_co=1),
    ),
    "field_pixels": (
        TINY, conv2d("w", 300, 4, 4, 1, 0, 1),
        Schedule(tile_h=300, tile_w=300, tile_ci=1, tile_co=1),
    ),
    "field_output_columns": (
        HARDWARE["wide in"], replace(conv2d("w", 1, 4, 16, 1, 0, 1), width=20000),
        Schedule(tile_h=1, tile_w=20000, tile_ci=1, tile_co=1),
    ),
    "field_blocks": (
        TINY, dense("w", 1, 4, 70000 * 4), Schedule(tile_h=1, tile_w=1, tile_ci=1, tile_co=70000),
    ),
    "field_planes": (
        TINY.with_(block_out=16), replace(depthwise("d", 1, 16 * 20000, 1, 0, 1), count=1),
        Schedule(tile_h=1, tile_w=1, tile_ci=1, tile_co=20000),
    ),
    "field_weight_row": (
        TINY, depthwise("d", 260, 4, 260, 0, 1), Schedule(tile_h=1, tile_w=1, tile_ci=1, tile_co=1),
    ),
    "field_row_stride": (
        TINY, replace(conv2d("w", 1, 4, 4, 1, 0, 1), width=2**24, stride_w=2**12),
        Schedule(tile_h=1, tile_w=1, tile_ci=1, tile_co=1),
    ),
    "field_plane_stride": (
        TINY, conv2d("w", 2**13, 4, 4, 1, 0, 2**7),
        Schedule(tile_h=1, tile_w=1, tile_ci=1, tile_co=1),
    ),
    "field_image_stride": (
        TINY, replace(conv2d("w", 2**8, 4, 4 * 2**9, 1, 0, 1), n=2),
        Schedule(tile_b=2, tile_h=16, tile_w=16, tile_ci=1, tile_co=1),
    ),
    "memory": (
        TINY, replace(conv2d("w", 2**11, 4, 4, 1, 0, 2**7), n=2**16),
        Schedule(tile_h=16, tile_w=16, tile_ci=1, tile_co=1),
    ),
}  # fmt: skip
