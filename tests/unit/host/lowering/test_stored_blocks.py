# SPDX-License-Identifier: Apache-2.0
"""Weights as blocks and of 4 bits, where they are stored."""

from dataclasses import replace
from itertools import product, starmap

import numpy as np
import pytest
from support.programs.drawing import any_schedule
from support.programs.lowered import checked
from support.randomness import generator, often, sample, where

from tilewright.host.common.errors import ConfigError
from tilewright.host.lowering import LoweredLayer, default_schedule, lower
from tilewright.host.lowering.cycle_bound import bound
from tilewright.host.lowering.geometry import geometry
from tilewright.host.lowering.operands import random_operands
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.machine.isa import Instruction, Memory, Opcode
from tilewright.host.network.golden import conv2d_int8, random_tensors
from tilewright.host.network.layout import behind_a_layer, chains, input_block, output_block
from tilewright.host.network.schedule import Fusion, LoopOrder, Schedule
from tilewright.host.network.workload import Kind, Workload, conv2d, dense
from tilewright.sim.twin.native_lowering import NativeLowering

ROOMY = load_hwconfig("tiny-4x4").with_(
    inp_bytes=1 << 16, wgt_bytes=1 << 18, acc_bytes=1 << 17, out_bytes=1 << 16,
    res_bytes=1 << 16, param_bytes=1 << 15, uop_bytes=1 << 15,
)  # fmt: skip
WIDE_OUT = ROOMY.with_(block_in=4, block_out=16)
WIDE_IN = ROOMY.with_(block_in=16, block_out=4)
KERNELS = ((1, 0), (3, 1), (3, 0), (2, 1))


def unequal_blocks(rng) -> HwConfig:
    """A configuration of batch 1 with room for many schedules whose blocks differ."""
    while True:
        block_in, block_out = (int(2 ** rng.integers(2, 7)) for _ in range(2))
        if block_in == block_out or block_in * block_out > 1024:
            continue
        try:
            return ROOMY.with_(
                block_in=block_in, block_out=block_out, vector_lanes=int(rng.choice([1, 2, 4]))
            )
        except ConfigError:
            continue


def channels(rng, block: int) -> int:
    """Around a few blocks, whole and not."""
    return max(1, int(rng.integers(1, 4)) * block + int(rng.integers(-3, 4)))


def next_layer(rng, shape: tuple[int, int, int, int], block: int) -> Workload:
    """A convolution, dense or depthwise layer that reads a tensor of an NCHW shape."""
    kind = Kind.DEPTHWISE if rng.random() < 0.25 else Kind.CONV2D
    n, inputs, height, width = shape
    fitting = [k for k in KERNELS if min(height, width) + 2 * k[1] >= k[0]]
    kernel, pad = fitting[rng.integers(len(fitting))]
    return Workload(
        name="layer", kind=kind, n=n, height=height, width=width, channels_in=inputs,
        channels_out=inputs if kind is Kind.DEPTHWISE else channels(rng, block),
        kernel_h=kernel, kernel_w=kernel, stride_h=int(rng.integers(1, 3)),
        stride_w=int(rng.integers(1, 3)), pad_top=pad, pad_left=pad, pad_bottom=pad,
        pad_right=pad, relu=bool(rng.integers(2)), residual=bool(rng.integers(2)),
    )  # fmt: skip


def some_schedule(rng, hw: HwConfig, workload: Workload) -> Schedule:
    """A legal schedule; the default one where a hundred random ones are not."""
    return any_schedule(rng, hw, workload) or default_schedule(hw, workload)


def check(hw: HwConfig, workload: Workload, schedule: Schedule, *, seed: int = 0) -> LoweredLayer:
    """Right on the reference, and the same from the native lowering."""
    low = lower(hw, workload, schedule)
    tensors = random_tensors(workload, np.random.default_rng(seed))
    checked(low, low.image(tensors), conv2d_int8(workload, tensors))
    assert low.macs_tiles == geometry(hw, workload).mac_tiles
    facts = where(hw=hw.parameters(), workload=workload, schedule=schedule)
    assert NativeLowering(hw, workload).lower(schedule) == low, facts
    return low


# -- random layers -------------------------------------------------------------------------------


@pytest.mark.parametrize("number", sample(6, 120))
def test_random_layers_are_right_and_the_same_natively(number):
    rng = generator(f"stored blocks {number}")
    for _ in range(6):
        hw = unequal_blocks(rng)
        shape = (
            int(rng.integers(1, 3)), channels(rng, hw.block_in), int(rng.integers(1, 9)),
            int(rng.integers(1, 9)),
        )  # fmt: skip
        if rng.random() < 0.2:
            shape = (shape[0], 3, *shape[2:])  # folds its kernel columns
        workload = next_layer(rng, shape, hw.block_out)
        check(hw, workload, some_schedule(rng, hw, workload), seed=number)


EVERY = product((WIDE_OUT, WIDE_IN), LoopOrder, Fusion, ((1, 1), (2, 1), (1, 2), (2, 2)))


@pytest.mark.parametrize(
    ("hw", "order", "fusion", "threads"), often("stored blocks", starmap(pytest.param, EVERY), 8)
)
def test_every_order_fusion_and_threading_is_right(hw, order, fusion, threads):
    workload = replace(conv2d("w", 4, 38, 45, 3, 1, 1, residual=True), n=2)
    unit = geometry(hw, workload).tile_ci_unit
    for tile_co in (1, 2, 3):
        schedule = Schedule(
            tile_b=1 + tile_co % 2, tile_h=2, tile_w=3, tile_ci=unit, tile_co=tile_co,
            h_threading=threads[0], oc_threading=threads[1], loop_order=order, fusion=fusion,
        )  # fmt: skip
        check(hw, workload, schedule)


# -- layers that chain ---------------------------------------------------------------------------


def chained(rng, hw: HwConfig, layers: int) -> None:
    """Run layers on the bytes that the layer before left; input and residual are both its output.

    Padded channels that no layer writes hold random bytes.
    """
    assert chains(hw)
    shape = (
        int(rng.integers(1, 3)), channels(rng, input_block(hw)), int(rng.integers(2, 9)),
        int(rng.integers(2, 9)),
    )  # fmt: skip
    stored: np.ndarray | None = None
    tensor = np.empty(0, dtype=np.int8)
    for _ in range(layers):
        workload = behind_a_layer(next_layer(rng, shape, output_block(hw)))
        if stored is not None and workload.residual and workload.output_shape != shape:
            workload = replace(workload, residual=False)
        schedule = some_schedule(rng, hw, workload)
        facts = where(hw=hw.parameters(), workload=workload, schedule=schedule)
        low = lower(hw, workload, schedule)
        tensors = random_tensors(workload, rng)
        image = low.image(tensors)
        if stored is not None:
            assert stored.size == low.program.regions["inp"].nbytes, facts
            low.program.write(image, "inp", stored)
            tensors = replace(tensors, data=tensor)
            if workload.residual:
                low.program.write(image, "res", stored)
                tensors = replace(tensors, residual=tensor)
        padding = rng.integers(0, 256, low.program.regions["out"].nbytes, dtype=np.uint8)
        low.program.write(image, "out", padding)
        tensor = conv2d_int8(workload, tensors)
        memory = checked(low, image, tensor).memory
        stored, shape = low.program.read(memory, "out").copy(), workload.output_shape


@pytest.mark.parametrize("number", sample(6, 120))
def test_the_bytes_of_an_output_are_the_next_input(number):
    rng = generator(f"chain {number}")
    for _ in range(4):
        chained(rng, unequal_blocks(rng), 4)


# -- Weights of 4 bits: packed where the array unpacks them, int8 elsewhere, with equal results
TINY = load_hwconfig("tiny-4x4")
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
    checked(low, low.image(tensors), conv2d_int8(narrow, tensors))
    assert {i.values["int4"] for i in weight_loads(low)} == {min(option, 1)}
    tiles = lowered(hw, layer).program.regions["wgt"].nbytes // hw.wgt_tile_bytes
    size = hw.int4_tile_bytes or hw.wgt_tile_bytes
    assert low.program.regions["wgt"].nbytes == tiles * size


@pytest.mark.parametrize(("option", "share"), [(1, 1 / 2), (2, 17 / 32)])
def test_the_bound_counts_half_the_weights_and_their_scales(option, share):
    layer, memory = dense("d", 1, 64, 48), load_memory("ideal")
    hw = load_hwconfig("pynq-16x16")
    narrow = replace(layer, weight_bits=4)
    whole = bound(hw, layer, memory).read_bytes
    assert bound(hw, narrow, memory).read_bytes == whole
    found = bound(hw.with_(int4_weights=option), narrow, memory).read_bytes
    assert found == whole - 64 * 48 * (1 - share)
