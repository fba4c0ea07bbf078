# SPDX-License-Identifier: Apache-2.0
"""Pools lowered, run on the reference device, and refused."""

from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from support.programs.lowered import checked

from tilewright.host.common.errors import ScheduleError, WorkloadError
from tilewright.host.lowering import default_schedule, legal, lower
from tilewright.host.lowering.cycle_bound import bound
from tilewright.host.lowering.pooling_rows import streamed_rows
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.golden import conv2d_int8, random_tensors
from tilewright.host.network.schedule import Fusion, LoopOrder, Schedule
from tilewright.host.network.workload import Kind, Workload, maxpool
from tilewright.sim.twin.native_lowering import NativeLowering

TINY = load_hwconfig("tiny-4x4")
PYNQ = load_hwconfig("pynq-16x16")
HARDWARE = {
    "tiny": TINY,
    "batch 2": TINY.with_(batch=2),
    "wide out": TINY.with_(block_out=16, wgt_bytes=16384, acc_bytes=16384, vector_lanes=8),
    "wide in": TINY.with_(block_in=16, inp_bytes=16384, wgt_bytes=16384),
    "batch 2, wide in": TINY.with_(batch=2, block_in=16, inp_bytes=16384, wgt_bytes=16384),
    "small res": TINY.with_(res_bytes=1024, block_in=8),
    "batch2-8x16": load_hwconfig("batch2-8x16"),
    "pynq-16x32": load_hwconfig("pynq-16x32"),
}
ORDERS = (LoopOrder.OUTPUT_STATIONARY, LoopOrder.INPUT_STATIONARY)
SMALL = st.integers(1, 3)
POOL = maxpool("p", 8, 16, 3, 1, 2)
SCHEDULE = Schedule(tile_h=2, tile_w=2, tile_ci=1, tile_co=1)


@st.composite
def pools(draw):
    values = {
        "n": draw(SMALL), "height": draw(st.integers(1, 9)), "width": draw(st.integers(1, 9)),
        "kernel_h": draw(st.integers(1, 5)), "kernel_w": draw(st.integers(1, 5)),
        **{k: draw(st.integers(1, 4)) for k in ("stride_h", "stride_w")},
        **{k: draw(st.integers(0, 6)) for k in ("pad_top", "pad_bottom")},
        **{k: draw(st.integers(0, 3)) for k in ("pad_left", "pad_right")},
    }  # fmt: skip
    channels = draw(st.sampled_from([1, 3, 4, 5, 8, 13, 24, 40]))
    kind = draw(st.sampled_from([Kind.MAXPOOL, Kind.MAXPOOL, Kind.AVGPOOL]))
    if kind is Kind.AVGPOOL:
        values |= dict.fromkeys(("pad_top", "pad_bottom", "pad_left", "pad_right"), 0)
    try:
        return Workload(
            name="p", kind=kind, channels_in=channels, channels_out=channels,
            relu=draw(st.booleans()), **values,
        )  # fmt: skip
    except WorkloadError:
        assume(False)


@st.composite
def schedules(draw, workload, hw):
    """Mostly within the workload and with knobs of a pool, now and then one beyond."""
    beyond = draw(st.sampled_from([0] * 9 + [1]))
    unit = max(1, hw.block_in // hw.block_out) if hw.batch == 1 else 1
    blocks = -(-workload.channels_out // hw.block_out)
    planes = draw(st.integers(1, -(-blocks // unit) + beyond))
    odd = draw(st.sampled_from([False] * 12 + [True]))
    return Schedule(
        tile_b=draw(st.integers(1, -(-workload.n // hw.batch) + beyond)),
        tile_h=draw(st.integers(1, workload.out_height)),
        tile_w=draw(st.integers(1, workload.out_width)),
        tile_ci=1 + (odd and draw(st.integers(0, 1))),
        tile_co=draw(st.integers(1, blocks)) if odd else min(planes * unit, blocks + beyond),
        h_threading=draw(st.sampled_from([1, 2])),
        oc_threading=draw(st.sampled_from([1, 2])) if odd else 1,
        loop_order=draw(st.sampled_from(list(LoopOrder) if odd else ORDERS)),
        fusion=draw(st.sampled_from(list(Fusion))) if odd else Fusion.TILE,
    )


def run_and_check(hw, workload, schedule, *, seed=0):
    """Lower, run, compare with the golden output, the counted work and the race checker."""
    low = lower(hw, workload, schedule)
    tensors = random_tensors(workload, np.random.default_rng(seed))
    result = checked(low, low.image(tensors), conv2d_int8(workload, tensors))
    assert result.counters["macs_tiles"] == 0
    parts = hw.out_tile_bytes // hw.vector_lanes
    least = bound(hw, workload, load_memory("ideal"))
    assert result.counters["vector_tiles"] * parts >= least.vector_cycles
    assert low.bytes_read >= least.read_bytes
    assert low.bytes_written >= least.write_bytes
    return low


@settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(data=st.data(), name=st.sampled_from(list(HARDWARE)), workload=pools())
def test_legal_exactly_when_it_lowers_and_then_the_answer_is_right(data, name, workload):
    hw = HARDWARE[name]
    schedule = data.draw(schedules(workload, hw))
    verdict = legal(hw, workload, schedule)
    event(verdict.rule or "legal")
    if verdict.ok:
        run_and_check(hw, workload, schedule)
    else:
        with pytest.raises(ScheduleError) as refusal:
            lower(hw, workload, schedule)
        assert refusal.value.rule == verdict.detail
        assert verdict.rule in refusal.value.field


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["tiny", "wide out", "wide in", "batch 2", "batch 2, wide in"])
@pytest.mark.parametrize(
    "workload",
    [
        replace(maxpool("one side", 9, 20, 3, 0, 2), pad_right=2, pad_bottom=1),
        maxpool("kernel > stride", 7, 9, 5, 2, 1),
        maxpool("stride > kernel", 11, 9, 2, 0, 3),
        maxpool("global", 7, 24, 7, 0, 1),
        replace(maxpool("images", 6, 12, 2, 0, 2), n=5),
        maxpool("pixels", 5, 8, 1, 0, 1),
        replace(maxpool("padding alone", 2, 20, 2, 0, 1), pad_top=5, pad_left=4, pad_bottom=3),
    ],
    ids=lambda w: w.name,
)
def test_every_form_of_a_pool_is_right(name, workload, threads, order):
    hw = HARDWARE[name]
    blocks = -(-workload.channels_out // hw.block_out)
    schedule = Schedule(
        tile_b=min(2, -(-workload.n // hw.batch)),
        tile_h=min(2, workload.out_height), tile_w=min(3, workload.out_width), tile_ci=1,
        tile_co=min(4, blocks), h_threading=threads, loop_order=order,
    )  # fmt: skip
    verdict = legal(hw, workload, schedule)
    if verdict.ok:
        run_and_check(hw, workload, schedule)
    else:  # the whole image at once has no second load, or does not fit twice
        assert verdict.rule in ("pool_threading", "res_capacity")
        assert threads == 2
        run_and_check(hw, workload, replace(schedule, h_threading=1))


@pytest.mark.parametrize(
    ("hw", "workload"),
    [
        (PYNQ, replace(maxpool("3x3", 6, 40, 3, 1, 2), n=2)),
        (PYNQ, maxpool("2x2", 4, 20, 2, 0, 2)),
        (PYNQ, maxpool("1x1", 3, 20, 1, 0, 2)),
        (PYNQ, maxpool("one", 3, 16, 3, 0, 1)),
        (HARDWARE["wide in"], maxpool("interleaved", 4, 20, 2, 0, 1)),
    ],
    ids=lambda value: value.name,
)
def test_no_two_schedules_name_one_program(hw, workload):
    programs = {}
    blocks = -(-workload.channels_out // hw.block_out)
    for tile_b, tile_h, tile_w, tile_ci, tile_co, h, oc, order, fusion in product(
        range(1, workload.n + 1), range(1, workload.out_height + 1),
        range(1, workload.out_width + 1), (1, 2), range(1, blocks + 1), (1, 2), (1, 2),
        LoopOrder, Fusion,
    ):  # fmt: skip
        schedule = Schedule(
            tile_b=tile_b, tile_h=tile_h, tile_w=tile_w, tile_ci=tile_ci, tile_co=tile_co,
            h_threading=h, oc_threading=oc, loop_order=order, fusion=fusion,
        )  # fmt: skip
        if legal(hw, workload, schedule).ok:
            program = lower(hw, workload, schedule).program.instructions
            assert program not in programs, (schedule, programs[program])
            programs[program] = schedule
    assert programs


# -- refusals ----------------------------------------------------------------------------------
ROOMY = TINY.with_(res_bytes=1 << 20, acc_bytes=1 << 20, out_bytes=1 << 20)
WHOLE = LoopOrder.INPUT_STATIONARY
ONE = Schedule(tile_h=1, tile_w=1, tile_ci=1, tile_co=1)
CASES = {
    "tile_b_extent": (TINY, POOL, replace(SCHEDULE, tile_b=2)),
    "tile_h_extent": (TINY, POOL, replace(SCHEDULE, tile_h=5)),
    "tile_w_extent": (TINY, POOL, replace(SCHEDULE, tile_w=5)),
    "tile_co_extent": (TINY, POOL, replace(SCHEDULE, tile_co=5)),
    "tile_ci_extent": (TINY, POOL, replace(SCHEDULE, tile_ci=2)),
    "tile_co_interleave": (HARDWARE["wide in"], maxpool("p", 8, 32, 2, 0, 2), SCHEDULE),
    "program_length": (TINY, maxpool("p", 4000, 64, 2, 0, 1), replace(ONE, tile_h=2)),
    "res_capacity": (TINY, maxpool("p", 64, 4, 64, 0, 1), replace(ONE, loop_order=WHOLE)),
    "acc_capacity": (
        TINY.with_(acc_bytes=1024), maxpool("p", 16, 4, 2, 0, 1), replace(ONE, tile_h=15, tile_w=9),
    ),
    "out_capacity": (
        TINY.with_(out_bytes=1024), maxpool("p", 16, 8, 2, 0, 1),
        replace(ONE, tile_h=15, tile_w=9, h_threading=2),
    ),
    "param_capacity": (
        TINY.with_(param_bytes=1024), maxpool("p", 2, 128, 2, 0, 2),
        replace(ONE, tile_co=9, h_threading=2),
    ),
    "pool_threading": (TINY, maxpool("p", 2, 4, 2, 0, 2), replace(ONE, h_threading=2)),
    "field_pad_rows": (
        TINY, replace(maxpool("p", 4, 4, 2, 0, 1), pad_top=70),
        replace(ONE, tile_h=70, loop_order=WHOLE),
    ),
    "field_pad_columns": (
        TINY, replace(maxpool("p", 4, 4, 2, 0, 1), pad_left=70), replace(ONE, tile_w=70),
    ),
    "field_input_rows": (
        ROOMY, replace(maxpool("p", 1, 4, 1, 0, 1), height=70000),
        replace(ONE, tile_h=70000, loop_order=WHOLE),
    ),
    "field_input_columns": (
        ROOMY, replace(maxpool("p", 1, 4, 1, 0, 1), width=70000), replace(ONE, tile_w=70000),
    ),
    "field_taps": (
        ROOMY, replace(maxpool("p", 1, 4, 1, 0, 1), width=65500, pad_left=50, kernel_w=65550),
        ONE,
    ),
    "field_pixels": (
        ROOMY, maxpool("p", 300, 4, 1, 0, 1), replace(ONE, tile_h=300, tile_w=300),
    ),
    "field_output_columns": (
        ROOMY.with_(block_in=64, inp_bytes=16384),
        replace(maxpool("p", 1, 4, 1, 0, 1), width=4090, pad_left=3, pad_right=3),
        replace(ONE, tile_w=4096),
    ),
    "field_blocks": (ROOMY, maxpool("p", 1, 70000 * 4, 1, 0, 1), replace(ONE, tile_co=70000)),
    "field_row_stride": (
        TINY, replace(maxpool("p", 1, 4, 1, 0, 1), width=2**24, stride_w=2**12), ONE,
    ),
    "field_plane_stride": (TINY, maxpool("p", 2**13, 4, 1, 0, 2**7), ONE),
    "field_image_stride": (
        TINY, replace(maxpool("p", 2**8, 4 * 2**9, 1, 0, 1), n=2),
        replace(ONE, tile_b=2, tile_h=16, tile_w=16),
    ),
    "memory": (
        TINY, replace(maxpool("p", 2**11, 4, 1, 0, 2**7), n=2**18),
        replace(ONE, tile_b=16, tile_h=16, tile_w=16),
    ),
}  # fmt: skip
REPEATS = {
    "weights": ("pool_loop_order", replace(SCHEDULE, loop_order=LoopOrder.WEIGHT_STATIONARY)),
    "fusion": ("pool_fusion", replace(SCHEDULE, fusion=Fusion.BLOCK)),
    "channels": ("pool_threading", replace(SCHEDULE, oc_threading=2)),
    "window": ("pool_loop_order", replace(SCHEDULE, tile_h=1, loop_order=WHOLE)),
}


def refused(hw, workload, schedule, rule):
    verdict = legal(hw, workload, schedule)
    assert (verdict.ok, verdict.rule) == (False, rule)
    with pytest.raises(ScheduleError) as refusal:
        lower(hw, workload, schedule)
    assert verdict.detail in str(refusal.value)
    return verdict


@pytest.mark.parametrize("rule", list(CASES))
def test_refuses_with_the_rule_and_both_figures(rule):
    verdict = refused(*CASES[rule], rule)
    assert verdict.needed > verdict.available
    assert f"needs {verdict.needed}, has {verdict.available}" in verdict.detail


@pytest.mark.parametrize("name", list(REPEATS))
def test_refuses_a_choice_that_repeats_a_program(name):
    rule, schedule = REPEATS[name]
    refused(TINY, maxpool("p", 8, 16, 2, 0, 2), schedule, rule)


def test_native_lowering_refuses_a_pool():
    with pytest.raises(WorkloadError, match=r"p\.kind: native lowering.*not maxpool"):
        NativeLowering(TINY, POOL)


# -- the untuned default -----------------------------------------------------------------------


def test_default_schedule_says_what_the_smallest_tile_lacks():
    with pytest.raises(ScheduleError, match="the smallest tile: RES must hold 1 x 300 tiles"):
        default_schedule(TINY.with_(res_bytes=1024), maxpool("p", 300, 4, 300, 0, 1))


# -- the rows that a pool streams, against enumeration --------------------------------------------


@settings(max_examples=300, deadline=None)
@given(
    height=st.integers(1, 12), kernel=st.integers(1, 6), stride=st.integers(1, 5),
    pad=st.integers(0, 9), below=st.integers(0, 9), data=st.data(),
)  # fmt: skip
def test_every_output_row_gathers_each_row_that_it_sees_once_and_starts_fresh(
    height, kernel, stride, pad, below, data
):
    assume(height + pad + below >= kernel)
    outs = (height + pad + below - kernel) // stride + 1
    first = data.draw(st.integers(0, outs - 1))
    count = data.draw(st.integers(1, outs - first))
    most = data.draw(st.integers(1, 12))
    pieces = streamed_rows(
        first, count, height=height, stride=stride, pad=pad, kernel=kernel, most=most
    )
    loaded, gathered, fresh = Counter(), Counter(), Counter()
    for piece in pieces:
        rows = range(piece.span.source, piece.span.source + piece.span.size)
        assert len(rows) <= min(kernel, stride, most)
        assert all(0 <= row < height for row in rows)
        loaded.update(rows)
        for use in piece.uses:
            assert use.outs == 1
            assert use.row + use.taps <= len(rows)
            assert use.fresh == (use.out not in fresh)
            fresh[use.out] += 1
            seen = rows[use.row : use.row + use.taps]
            assert all(0 <= row - (first + use.out) * stride + pad < kernel for row in seen)
            gathered.update((use.out, row) for row in seen)
    expected = {
        (out, row)
        for out in range(count)
        for row in range(height)
        if 0 <= row - (first + out) * stride + pad < kernel
    }
    assert gathered == Counter(expected)
    assert loaded == Counter({row for _, row in expected})
    assert set(fresh) == set(range(count))
