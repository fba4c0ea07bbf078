# SPDX-License-Identifier: Apache-2.0
"""Weights of 4 bits: packed where the array unpacks them, int8 elsewhere, with equal results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.hazards import check_hazards

from tilewright.host.common.errors import WorkloadError
from tilewright.host.lowering import default_schedule, lower
from tilewright.host.lowering.cycle_bound import bound
from tilewright.host.lowering.layer import LoweredLayer
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.machine.isa import Instruction, Memory, Opcode
from tilewright.host.network.golden import conv2d_int8, random_tensors
from tilewright.host.network.workload import Workload, conv2d, dense
from tilewright.sim.reference.device import ReferenceDevice

TINY = load_hwconfig("tiny-4x4")
ARRAYS = {
    "tiny": TINY,
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
@pytest.mark.parametrize("option", [0, 1])
def test_results_do_not_depend_on_how_weights_are_kept(name, layer, option):
    hw, narrow = ARRAYS[name].with_(int4_weights=option), replace(layer, weight_bits=4)
    low, tensors = lowered(hw, narrow), random_tensors(narrow, np.random.default_rng(3))
    assert tensors.weights.min() == -8
    assert tensors.weights.max() == 7
    result = ReferenceDevice(hw).run(low.program, low.image(tensors))
    assert np.array_equal(low.output(result.memory), conv2d_int8(narrow, tensors))
    assert result.counters["bytes_read"] == low.bytes_read
    check_hazards(hw, low.program)
    assert {i.values["int4"] for i in weight_loads(low)} == {option}
    whole = lowered(hw, layer).program.regions["wgt"].nbytes
    assert low.program.regions["wgt"].nbytes == whole >> option


def test_layers_of_8_bits_have_the_programs_of_an_array_without_the_option():
    for layer in LAYERS:
        plain, option = lowered(TINY, layer), lowered(TINY.with_(int4_weights=1), layer)
        assert plain.program.instructions == option.program.instructions


def test_the_bound_counts_half_the_weights():
    layer, memory = dense("d", 1, 64, 48), load_memory("ideal")
    narrow, option = replace(layer, weight_bits=4), TINY.with_(int4_weights=1)
    whole = bound(TINY, layer, memory).read_bytes
    assert bound(TINY, narrow, memory).read_bytes == whole
    assert bound(option, narrow, memory).read_bytes == whole - 64 * 48 // 2


def test_weights_that_do_not_fit_are_refused_by_name():
    narrow = replace(LAYERS[0], weight_bits=4)
    tensors = random_tensors(LAYERS[0], np.random.default_rng(1))
    with pytest.raises(WorkloadError, match="must be from -8 to 7") as caught:
        lowered(TINY, narrow).image(tensors)
    assert caught.value.field == "dense.weights"
