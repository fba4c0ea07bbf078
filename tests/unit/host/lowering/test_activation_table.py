# SPDX-License-Identifier: Apache-2.0
"""Layers whose results are looked up in an activation table, against the definition."""

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from support.programs.hazards import check_hazards
from support.randomness import fresh_rng, where

from tilewright.host.common.errors import ProgramError, WorkloadError
from tilewright.host.lowering import default_schedule, lower
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.machine.isa import Instruction, Memory, Opcode
from tilewright.host.network.golden import conv2d_int8, random_tensors
from tilewright.host.network.workload import conv2d, dense, depthwise, maxpool
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.verilator.device import VerilatorDevice

TINY = load_hwconfig("tiny-4x4")
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


def test_a_program_without_a_table_is_the_same_on_hardware_with_one():
    for layer in LAYERS:
        schedule = default_schedule(TINY, layer)
        plain, tabled = (lower(hw, layer, schedule).program for hw in (TINY, TABLED))
        assert plain.instructions == tabled.instructions


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
