# SPDX-License-Identifier: Apache-2.0
"""Max pools on random configurations: bit-exact, race-free, and counted alike by RTL and twin."""

import numpy as np
import pytest
from e2e.test_lowering_on_rtl import IDEAL, STALLING, check_layer, device_of, model
from support.programs.lowered import checked
from support.randomness import generator, sample, where

from tilewright.host.common.errors import WorkloadError
from tilewright.host.lowering import default_schedule, legal, lower
from tilewright.host.lowering.cycle_bound import bound
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig, named_configs
from tilewright.host.network.golden import conv2d_int8, random_tensors
from tilewright.host.network.layout import output_block
from tilewright.host.network.schedule import LoopOrder, Schedule
from tilewright.host.network.workload import Kind, Workload, maxpool
from tilewright.sim.twin.device import Twin
from tilewright.sim.twin.first_difference import first_difference
from tilewright.sim.verify.randconfig import any_hwconfig
from tilewright.sim.verilator.device import VerilatorDevice

BOARD = load_memory("pynq-z2")
NAMES = [
    "tiny-4x4",
    "wide-8x32",
    *(pytest.param(n, marks=pytest.mark.slow) for n in named_configs() if n[0] not in "tw"),
]
ORDERS = (LoopOrder.OUTPUT_STATIONARY, LoopOrder.INPUT_STATIONARY)


def any_pool(rng: np.random.Generator, hw: HwConfig) -> Workload:
    """A small pool of any shape, with channels around multiples of the blocks."""
    block = max(hw.block_in, hw.block_out)
    while True:
        channels = max(1, int(block * rng.choice([0.25, 0.5, 1, 1, 2, 3]) + rng.integers(-1, 2)))
        sides = {name: int(rng.integers(1, 14)) for name in ("height", "width")}
        whole = rng.random() < 0.15
        try:
            return Workload(
                name="pool",
                kind=Kind.MAXPOOL,
                n=int(rng.choice([1, 1, hw.batch, hw.batch + 1])),
                channels_in=channels,
                channels_out=channels,
                kernel_h=sides["height"] if whole else int(rng.choice([1, 2, 3, 3, 5])),
                kernel_w=sides["width"] if whole else int(rng.choice([1, 2, 3, 3, 5])),
                relu=bool(rng.integers(2)),
                **sides,
                **{f"stride_{axis}": int(rng.choice([1, 2, 2, 3, 4])) for axis in "hw"},
                **{
                    f"pad_{side}": 0 if whole else int(rng.choice([0, 0, 1, 2, 3]))
                    for side in ("top", "bottom", "left", "right")
                },
            )
        except WorkloadError:
            continue


def any_pool_schedule(rng: np.random.Generator, hw: HwConfig, workload: Workload) -> Schedule:
    """A schedule, legal or not; mostly double-buffered."""

    def tile(extent: int) -> int:
        return int(rng.integers(1, extent + 1))

    unit, blocks = interleaved(hw), -(-workload.channels_out // hw.block_out)
    return Schedule(
        tile_b=tile(-(-workload.n // hw.batch)),
        tile_h=tile(workload.out_height),
        tile_w=tile(workload.out_width),
        tile_ci=1,
        tile_co=min(blocks, unit * tile(-(-blocks // unit))),
        h_threading=int(rng.choice([1, 2, 2])),
        loop_order=ORDERS[tile(2) - 1],
    )


def interleaved(hw: HwConfig) -> int:
    """Output blocks of a stored block."""
    return output_block(hw) // hw.block_out


def any_legal_pool(rng: np.random.Generator, hw: HwConfig) -> tuple[Workload, Schedule]:
    """A pool with a schedule that the configuration takes."""
    while True:
        workload = any_pool(rng, hw)
        for _ in range(20):
            schedule = any_pool_schedule(rng, hw, workload)
            if legal(hw, workload, schedule).ok:
                return workload, schedule


@pytest.mark.parametrize("number", sample(30, 400))
def test_random_pools_are_bit_exact_and_free_of_races(number: int) -> None:
    rng = generator(f"pool {number}")
    hw = any_hwconfig(rng)
    for _ in range(4):
        workload, schedule = any_legal_pool(rng, hw)
        low, tensors = lower(hw, workload, schedule), random_tensors(workload, rng)
        checked(low, low.image(tensors), conv2d_int8(workload, tensors))


def check_on_rtl(device: VerilatorDevice, rng: np.random.Generator, *, counts: bool) -> None:
    """A random pool on the RTL: data against the golden model, counters against the twin."""
    hw = device.hw
    workload, schedule = any_legal_pool(rng, hw)
    counters = check_layer(device, workload, schedule, rng)
    if counts:
        twin, program = Twin(hw, device.memory), lower(hw, workload, schedule).program
        if twin.counters(program).values != counters.values:
            facts = where(hw=hw, memory=device.memory, workload=workload, schedule=schedule)
            pytest.fail(f"{first_difference(device, twin, program, program.image())}; {facts}")
        twin.close()


@pytest.mark.parametrize("name", NAMES)
def test_pools_on_the_rtl_are_exact_and_counted_as_by_the_twin(name: str) -> None:
    rng, hw = generator(f"pools on {name}"), load_hwconfig(name)
    for memory in (IDEAL, BOARD, STALLING):
        with device_of(hw, memory) as device:
            for _ in range(12):
                check_on_rtl(device, rng, counts=memory is not STALLING)


@pytest.mark.parametrize("ratio", [4, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 16))])
def test_pools_of_interleaved_blocks_on_the_rtl(ratio: int) -> None:
    """Configurations with more input than output channels a block."""
    rng = generator(f"pools with {ratio} interleaved blocks")
    tiny = load_hwconfig("tiny-4x4")
    hw = tiny.with_(block_in=4 * ratio, inp_bytes=16384, wgt_bytes=16384, res_bytes=4096)
    for memory in (IDEAL, BOARD):
        with device_of(hw, memory) as device:
            for _ in range(15):
                check_on_rtl(device, rng, counts=True)


@pytest.mark.parametrize("number", sample(0, 12))
def test_random_configurations_run_random_pools(number: int) -> None:
    rng = generator(f"pools on configuration {number}")
    hw = any_hwconfig(rng)
    with model(hw, keep=False) as library:
        for memory in (IDEAL, BOARD):
            with device_of(hw, memory, library=library) as device:
                for _ in range(10):
                    check_on_rtl(device, rng, counts=True)


@pytest.mark.parametrize(("name", "share"), [("pynq-16x16", 0.95), ("pynq-16x32", 0.97)])
def test_the_pool_of_resnet18_comes_close_to_its_bound(name: str, share: float) -> None:
    hw, workload = load_hwconfig(name), maxpool("pool", 112, 64, 3, 1, 2)
    program = lower(hw, workload, default_schedule(hw, workload)).program
    for memory in (IDEAL, BOARD):
        twin = Twin(hw, memory)
        reached = bound(hw, workload, memory).cycles / twin.counters(program).cycles
        twin.close()
        assert reached > share
