# SPDX-License-Identifier: Apache-2.0
"""Layers become programs that compute what the definition says."""

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from support.programs.drawing import any_layer
from support.programs.hazards import check_hazards
from support.programs.lowered import checked
from support.programs.refused_schedules import CASES, HARDWARE, SCHEDULE, TINY, WORKLOAD
from support.randomness import fresh_rng, generator, where

from tilewright.host.common.errors import ProgramError, ScheduleError, WorkloadError
from tilewright.host.lowering import default_schedule, legal, legality, lower
from tilewright.host.lowering.geometry import geometry
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.isa import Instruction, Memory, Opcode
from tilewright.host.network.golden import conv2d_int8, random_tensors
from tilewright.host.network.schedule import Fusion, LoopOrder, Schedule
from tilewright.host.network.workload import Kind, Workload, conv2d, dense, depthwise, maxpool
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.verify.randconfig import any_hwconfig
from tilewright.sim.verilator.device import VerilatorDevice

SMALL = st.integers(1, 3)


@st.composite
def workloads(draw):
    kind = draw(st.sampled_from([Kind.CONV2D, Kind.CONV2D, Kind.CONV2D, Kind.DEPTHWISE]))
    channels = draw(st.sampled_from([1, 2, 3, 4, 5, 8, 13, 24]))
    values = {
        "n": draw(SMALL), "height": draw(st.integers(1, 9)), "width": draw(st.integers(1, 9)),
        "channels_in": channels,
        "channels_out": channels if kind is Kind.DEPTHWISE
        else draw(st.sampled_from([1, 4, 9, 16, 33])),
        "kernel_h": draw(SMALL), "kernel_w": draw(st.integers(1, 5)),
        **{k: draw(SMALL) for k in ("stride_h", "stride_w")},
        **{k: draw(st.integers(1, 2)) for k in ("dilation_h", "dilation_w")},
        **{k: draw(st.integers(0, 3)) for k in ("pad_top", "pad_bottom", "pad_left",
                                                "pad_right")},
    }  # fmt: skip
    flags = {"relu": draw(st.booleans()), "residual": draw(st.booleans())}
    try:
        return Workload(name="w", kind=kind, **values, **flags)
    except WorkloadError:
        assume(False)


@st.composite
def schedules(draw, workload, hw):
    shape = geometry(hw, workload)
    blocks_in = shape.reduce_blocks
    blocks_out = -(-workload.channels_out // hw.block_out)
    # Mostly within the workload, now and then one beyond it.
    beyond = draw(st.sampled_from([0] * 9 + [1]))
    unit = draw(st.sampled_from([shape.tile_ci_unit] * 9 + [1]))
    units_in = draw(st.integers(1, -(-blocks_in // unit)))
    return Schedule(
        tile_b=draw(st.integers(1, -(-workload.n // hw.batch) + beyond)),
        tile_h=draw(st.integers(1, workload.out_height)),
        tile_w=draw(st.integers(1, workload.out_width)),
        tile_ci=1 if workload.kind is Kind.DEPTHWISE else min(units_in * unit, blocks_in) + beyond,
        tile_co=draw(st.integers(1, blocks_out)),
        h_threading=draw(st.sampled_from([1, 2])),
        oc_threading=draw(st.sampled_from([1, 2])),
        loop_order=draw(st.sampled_from(list(LoopOrder))),
        fusion=draw(st.sampled_from(list(Fusion))),
    )


def run_and_check(hw, workload, schedule, *, seed=0):
    """Lower, run, compare with the golden output, the counted work and the race checker."""
    low = lower(hw, workload, schedule)
    tensors = random_tensors(workload, np.random.default_rng(seed))
    checked(low, low.image(tensors), conv2d_int8(workload, tensors))
    return low


@settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(data=st.data(), name=st.sampled_from(list(HARDWARE)))
def test_legal_exactly_when_it_lowers_and_then_the_answer_is_right(data, name):
    hw, workload = HARDWARE[name], data.draw(workloads())
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


# -- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", list(CASES))
def test_refuses_with_the_rule_and_both_figures(rule):
    hw, workload, schedule = CASES[rule]
    verdict = legal(hw, workload, schedule)
    assert (verdict.ok, verdict.rule) == (False, rule)
    if rule != "depthwise_loop_order":
        assert verdict.needed > verdict.available
        assert f"needs {verdict.needed}, has {verdict.available}" in verdict.detail
    with pytest.raises(ScheduleError) as refusal:
        lower(hw, workload, schedule)
    assert verdict.detail in str(refusal.value)


@pytest.mark.parametrize("number", range(20))
def test_no_program_is_shorter_than_the_length_that_refuses_it(number, monkeypatch):
    rng = generator(f"program length {number}")
    hw = any_hwconfig(rng)
    workload, schedule = any_layer(rng, hw)
    count = lower(hw, workload, schedule).program.instruction_count
    monkeypatch.setattr(legality, "INSTRUCTIONS_MAX", count)
    assert legal(hw, workload, schedule).ok, where(workload=workload, schedule=schedule)


def test_refuses_parameters_with_another_clip():
    low = lower(TINY, WORKLOAD, SCHEDULE)
    tensors = random_tensors(WORKLOAD, np.random.default_rng(0))
    other = replace(tensors, requant=replace(tensors.requant, clip_max=6))
    with pytest.raises(ProgramError, match="the program clips to"):
        low.image(other)
    with pytest.raises(ProgramError, match="clip bounds"):
        lower(TINY, WORKLOAD, SCHEDULE, clip=(5, 2))


# -- Layers whose results are looked up in an activation table, against the definition
TABLED = TINY.with_(activation_table=1)
LAYERS = (
    conv2d("conv", 9, 5, 12, 3, 1, 2, relu=False),
    conv2d("residual", 6, 8, 8, 3, 1, 1, relu=False, residual=True),
    depthwise("depthwise", 7, 9, 3, 1, 1),
    dense("dense", 3, 20, 13),
    maxpool("pool", 8, 6, 2, 0, 2),
)


def with_table(layer, rng):
    tensors = random_tensors(layer, rng)
    table = rng.integers(-128, 128, 256).astype(np.int8)
    return replace(tensors, requant=replace(tensors.requant, table=table))


def check(device, layer, rng):
    tensors = with_table(layer, rng)
    low = lower(TABLED, layer, default_schedule(TABLED, layer), table=True)
    image = low.image(tensors)
    check_hazards(TABLED, low.program, image)
    run = device.run(low.program, image)
    assert np.array_equal(low.output(run.memory), conv2d_int8(layer, tensors)), where(layer=layer)
    return low, run.counters


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_results_are_the_entries_of_what_the_parameters_give(layer):
    low, counters = check(ReferenceDevice(TABLED), layer, fresh_rng())
    stream = list(map(Instruction.decode, low.program.executed()))
    loads = [i.values for i in stream if i.opcode == Opcode.LOAD]
    tables = [v for v in loads if v["memory"] == Memory.TABLE]
    assert [v["x_size"] for v in tables] == [TABLED.table_depth], "once a layer"
    assert low.bytes_read == counters["bytes_read"]


@pytest.mark.slow
def test_the_rtl_looks_up_what_the_definition_does():
    with closing(VerilatorDevice(TABLED, load_memory("ideal"))) as device:
        for layer in LAYERS:
            check(device, layer, fresh_rng())


def test_hardware_without_a_table_refuses_the_layer():
    layer = LAYERS[0]
    with pytest.raises(ProgramError, match="activation_table: 1"):
        lower(TINY, layer, default_schedule(TINY, layer), table=True)


def test_a_table_and_a_program_that_do_not_match_are_refused():
    layer, rng = LAYERS[0], fresh_rng()
    schedule = default_schedule(TABLED, layer)
    for tensors, table in ((with_table(layer, rng), False), (random_tensors(layer, rng), True)):
        with pytest.raises(ProgramError, match="table"):
            lower(TABLED, layer, schedule, table=table).image(tensors)


@pytest.mark.parametrize("table", [np.zeros(255, np.int8), np.zeros(256, np.int16)])
def test_a_table_has_256_int8_entries(table):
    tensors = random_tensors(LAYERS[0], fresh_rng())
    with pytest.raises(WorkloadError, match="256"):
        replace(tensors.requant, table=table)
