# SPDX-License-Identifier: Apache-2.0
"""Lowered layers and random programs on the RTL: bit-exact, with the reference's work counters."""

import shutil
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from support.programs.drawing import any_built, any_layer, any_schedule
from support.randomness import generator, sample, where

from tilewright.host.lowering import default_schedule, legal, lower
from tilewright.host.machine.board import MemoryModel, load_memory
from tilewright.host.machine.hwconfig import load_hwconfig, named_configs
from tilewright.host.network.golden import conv2d_int8, random_tensors
from tilewright.host.network.workload import Workload, conv2d, dense, depthwise
from tilewright.sim.programs.randprog import random_program
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.verilator.build import build_model
from tilewright.sim.verilator.device import VerilatorDevice
from tilewright.testing.device_contract import COUNTED

IDEAL = load_memory("ideal")
STALLING = MemoryModel(
    name="stalling", read_latency=23, write_latency=9, read_bytes_per_cycle=7,
    write_bytes_per_cycle=5, shared_bytes_per_cycle=9, max_reads=5, max_writes=3,
    stall_percent=25, stall_seed=77,
)  # fmt: skip
MEMORIES = (IDEAL, STALLING)

ATROUS = Workload(
    name="atrous", height=11, width=9, channels_in=13, channels_out=19, kernel_h=3, kernel_w=2,
    stride_w=2, dilation_h=2, dilation_w=3, pad_top=2, pad_left=1, pad_right=3, relu=False,
)  # fmt: skip
LAYERS = {
    "3x3": conv2d("3x3", 8, 16, 16, 3, 1, 1),
    "first": conv2d("first", 14, 3, 8, 7, 3, 2),
    "residual": conv2d("residual", 7, 9, 21, 3, 1, 1, residual=True, relu=False),
    "depthwise": depthwise("depthwise", 9, 20, 3, 1, 2),
    "dense": dense("dense", 5, 70, 37),
    "atrous": ATROUS,
    "pointwise": conv2d("pointwise", 9, 33, 17, 1, 0, 2),
    "batch": replace(conv2d("batch", 6, 8, 24, 3, 1, 1), n=3),
}


@contextmanager
def device_of(hw, memory, **options):
    device = VerilatorDevice(hw, memory, **options)
    try:
        yield device
    finally:
        device.close()


@contextmanager
def model(hw, *, keep):
    """The library of a configuration; it goes where no later test will ask for it again."""
    library = build_model(hw)
    try:
        yield library
    finally:
        if not keep:
            shutil.rmtree(library.parent)


def check_layer(device, workload, schedule, rng):
    """Output against the golden model, work against the reference; returns the counters."""
    facts = where(hw=device.hw, workload=workload, schedule=schedule)
    low = lower(device.hw, workload, schedule)
    tensors = random_tensors(workload, rng)
    image = low.image(tensors)
    result = device.run(low.program, image, max_cycles=50_000_000)
    assert np.array_equal(low.output(result.memory), conv2d_int8(workload, tensors)), facts
    expected = ReferenceDevice(device.hw).run(low.program, image)
    assert np.array_equal(result.memory, expected.memory), facts
    for name in COUNTED:
        assert result.counters[name] == expected.counters[name], f"{name}: {facts}"
    assert result.counters["macs_tiles"] == low.macs_tiles, facts
    assert result.counters["bytes_written"] == low.bytes_written, facts
    assert result.counters["bytes_read"] >= low.bytes_read, facts
    return result.counters


def check_program(device, rng):
    program, image = random_program(device.hw, rng)
    facts = where(hw=device.hw, memory=device.memory.name)
    result = device.run(program, image, max_cycles=10_000_000)
    expected = ReferenceDevice(device.hw).run(program, image)
    assert np.array_equal(result.memory, expected.memory), facts
    for name in COUNTED:
        assert result.counters[name] == expected.counters[name], f"{name}: {facts}"


# -- named configurations ---------------------------------------------------------------------


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("name", named_configs())
def test_named_configurations_compute_every_kind_of_layer(name, layer):
    """With the default schedule on the ideal memory and a random one on the stalling memory."""
    rng, hw, workload = generator(f"{name} {layer}"), load_hwconfig(name), LAYERS[layer]
    with device_of(hw, IDEAL) as device:
        check_layer(device, workload, default_schedule(hw, workload), rng)
    schedule = any_schedule(rng, hw, workload)
    assert schedule is not None
    with device_of(hw, STALLING) as device:
        check_layer(device, workload, schedule, rng)


@pytest.mark.parametrize("option", [1, 2])
@pytest.mark.parametrize("layer", ["3x3", "first", "residual", "dense", "pointwise"])
def test_weights_of_4_bits(layer, option):
    rng = generator(f"int4 {layer} {option}")
    hw = load_hwconfig("tiny-4x4").with_(block_out=8, int4_weights=option)
    workload = replace(LAYERS[layer], weight_bits=4)
    with device_of(hw, IDEAL) as device:
        check_layer(device, workload, default_schedule(hw, workload), rng)
    schedule = any_schedule(rng, hw, workload)
    assert schedule is not None
    with device_of(hw, STALLING) as device:
        check_layer(device, workload, schedule, rng)


@pytest.mark.parametrize("number", sample(3, 40))
@pytest.mark.parametrize("name", named_configs())
def test_random_layers_on_named_configurations(name, number):
    rng, hw = generator(f"{name} layer {number}"), load_hwconfig(name)
    with device_of(hw, MEMORIES[number % 2]) as device:
        check_layer(device, *any_layer(rng, hw), rng)


# -- blocks that differ -----------------------------------------------------------------------

UNEQUAL = {
    "4x16": {"block_in": 4, "block_out": 16, "vector_lanes": 8},
    "16x4": {"block_in": 16, "block_out": 4, "vector_lanes": 2},
}


@pytest.mark.parametrize("number", sample(4, 40))
@pytest.mark.parametrize("name", UNEQUAL)
def test_random_layers_with_interleaved_blocks(name, number):
    rng = generator(f"{name} unequal {number}")
    hw = load_hwconfig("tiny-4x4").with_(
        name=name, inp_bytes=8192, wgt_bytes=16384, acc_bytes=16384, out_bytes=4096,
        res_bytes=4096, param_bytes=4096, **UNEQUAL[name],
    )  # fmt: skip
    with device_of(hw, MEMORIES[number % 2]) as device:
        for _ in range(6):
            check_layer(device, *any_layer(rng, hw), rng)


# -- random configurations --------------------------------------------------------------------


@pytest.mark.parametrize("number", sample(1, 20))
def test_random_configurations_run_random_programs_and_layers(number):
    rng = generator(f"configuration {number}")
    hw = any_built(number, rng)
    with model(hw, keep=not number) as library:
        for memory in MEMORIES:
            with device_of(hw, memory, library=library) as device:
                for _ in range(10):
                    check_program(device, rng)
                for _ in range(8):
                    check_layer(device, *any_layer(rng, hw), rng)


# -- properties that tuners rely on -----------------------------------------------------------

SHALLOW = load_hwconfig("tiny-4x4")
DEPTHS = ("inp_bytes", "wgt_bytes", "acc_bytes", "out_bytes", "uop_bytes", "res_bytes",
          "param_bytes")  # fmt: skip
DEEP = SHALLOW.with_(name="deep-4x4", **{name: 4 * getattr(SHALLOW, name) for name in DEPTHS})


@pytest.mark.parametrize("number", sample(20, 200))
def test_buffer_depths_do_not_change_any_counter(number):
    rng = generator(f"depths {number}")
    workload, schedule = any_layer(rng, SHALLOW, DEEP)
    assert legal(DEEP, workload, schedule).ok
    counters = []
    for hw in (SHALLOW, DEEP):
        with device_of(hw, MEMORIES[number % 2]) as device:
            counters.append(check_layer(device, workload, schedule, rng).values)
    assert counters[0] == counters[1], where(workload=workload, schedule=schedule)


@pytest.mark.parametrize(
    "name",
    [
        "tiny-4x4",
        *(pytest.param(n, marks=pytest.mark.slow) for n in named_configs() if n[0] != "t"),
    ],
)
def test_the_packed_mac_gives_the_memory_of_the_reference(name):
    hw, rng = load_hwconfig(name).with_(mac_packed=1), generator(f"packed {name}")
    layers = [any_layer(rng, hw) for _ in range(4)]
    runs = [random_program(hw, rng)]
    for workload, schedule in layers:
        low = lower(hw, workload, schedule)
        runs.append((low.program, low.image(random_tensors(workload, rng))))
    extremes = lower(hw, *layers[0])  # products of -128 by -128 are the hard case of packing
    tensors = random_tensors(layers[0][0], rng)
    lowest = replace(
        tensors, data=np.full_like(tensors.data, -128), weights=np.full_like(tensors.weights, -128)
    )
    runs.append((extremes.program, extremes.image(lowest)))
    with device_of(hw, IDEAL) as packed:
        for program, image in runs:
            expected = ReferenceDevice(hw).run(program, image)
            assert np.array_equal(packed.run(program, image).memory, expected.memory), name
