# SPDX-License-Identifier: Apache-2.0
"""Weights of 4 bits: packed where the array unpacks them, int8 elsewhere, with equal results.

With scales of groups and without.
"""

from dataclasses import replace

import numpy as np
import pytest
from support.programs.hazards import check_hazards

from tilewright.host.common.errors import WorkloadError
from tilewright.host.lowering import default_schedule, lower
from tilewright.host.lowering.cycle_bound import bound
from tilewright.host.lowering.layer import LoweredLayer
from tilewright.host.lowering.operands import random_operands
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.machine.isa import Instruction, Memory, Opcode
from tilewright.host.network.golden import conv2d_int8, random_tensors
from tilewright.host.network.workload import Workload, conv2d, dense
from tilewright.sim.reference.device import ReferenceDevice

TINY = load_hwconfig("tiny-4x4")
SCALED = TINY.with_(block_out=8, int4_weights=2)
ARRAYS = {
    "tiny": TINY.with_(block_out=8),
    "wide in": TINY.with_(block_in=16, inp_bytes=16384, wgt_bytes=16384),
    "batch": load_hwconfig("batch2-8x16"),
}
LAYERS = (
    dense("dense", 1, 70, 37),
    conv2d("3x3", 6, 9, 12, 3, 1, 1, residual=True),
    conv2d("folded", 9, 3, 8, 3, 1, 2),
)


def lowered(hw: HwConfig, layer: Workload) -> LoweredLayer:
    return lower(hw, layer, default_schedule(hw, layer))


def weight_loads(low: LoweredLayer) -> list[Instruction]:
    found = map(Instruction.decode, low.program.executed())
    return [i for i in found if i.opcode is Opcode.LOAD and i.values["memory"] == Memory.WGT]


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("option", [0, 1, 2])
def test_results_do_not_depend_on_how_weights_are_kept(name, layer, option):
    hw, narrow = ARRAYS[name].with_(int4_weights=option), replace(layer, weight_bits=4)
    low, tensors = lowered(hw, narrow), random_operands(hw, narrow, np.random.default_rng(3))
    lowest, highest = tensors.weights.min(), tensors.weights.max()
    assert (lowest, highest) == (-8, 7) if option < 2 else lowest < -8
    result = ReferenceDevice(hw).run(low.program, low.image(tensors))
    assert np.array_equal(low.output(result.memory), conv2d_int8(narrow, tensors))
    assert result.counters["bytes_read"] == low.bytes_read
    check_hazards(hw, low.program)
    assert {i.values["int4"] for i in weight_loads(low)} == {min(option, 1)}
    tiles = lowered(hw, layer).program.regions["wgt"].nbytes // hw.wgt_tile_bytes
    size = hw.int4_tile_bytes or hw.wgt_tile_bytes
    assert low.program.regions["wgt"].nbytes == tiles * size


def test_layers_of_8_bits_have_the_programs_of_an_array_without_the_option():
    for layer in LAYERS:
        plain, option = lowered(TINY, layer), lowered(TINY.with_(int4_weights=1), layer)
        assert plain.program.instructions == option.program.instructions


@pytest.mark.parametrize(("option", "share"), [(1, 1 / 2), (2, 17 / 32)])
def test_the_bound_counts_half_the_weights_and_their_scales(option, share):
    layer, memory = dense("d", 1, 64, 48), load_memory("ideal")
    hw = load_hwconfig("pynq-16x16")
    narrow = replace(layer, weight_bits=4)
    whole = bound(hw, layer, memory).read_bytes
    assert bound(hw, narrow, memory).read_bytes == whole
    found = bound(hw.with_(int4_weights=option), narrow, memory).read_bytes
    assert found == whole - 64 * 48 * (1 - share)


@pytest.mark.parametrize(
    ("option", "why"), [(1, "must be from -8 to 7"), (2, "times a scale from 1 to 16")]
)
def test_weights_that_do_not_fit_are_refused_by_name(option, why):
    narrow = replace(LAYERS[0], weight_bits=4)
    tensors = random_tensors(LAYERS[0], np.random.default_rng(1))
    with pytest.raises(WorkloadError, match=why) as caught:
        lowered(SCALED.with_(int4_weights=option), narrow).image(tensors)
    assert caught.value.field == "dense.weights"


def test_tiles_whose_scales_take_what_4_bits_save_stay_int8():
    hw, narrow = TINY.with_(int4_weights=2), replace(LAYERS[0], weight_bits=4)
    assert hw.int4_tile_bytes == hw.wgt_tile_bytes
    low = lowered(hw, narrow)
    assert {i.values["int4"] for i in weight_loads(low)} == {0}
    random_operands(hw, narrow, np.random.default_rng(1))


def test_operands_differ_by_configuration_only_where_groups_have_scales():
    def drawn(hw):
        tensors = random_operands(hw, replace(LAYERS[1], weight_bits=4), np.random.default_rng(2))
        return tensors.weights.tobytes(), tensors.data.tobytes()

    plain, packed, scaled = (drawn(SCALED.with_(int4_weights=form)) for form in (0, 1, 2))
    assert plain == packed
    assert plain[1] == scaled[1]
    assert plain[0] != scaled[0]
