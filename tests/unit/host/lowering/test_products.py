# SPDX-License-Identifier: Apache-2.0
"""Products of two tensors: what programs compute, which schedules are legal, what they cost."""

from contextlib import closing
from operator import mul

import numpy as np
import pytest
from support.programs.hazards import check_hazards
from support.randomness import fresh_rng, generator, often, where

from tilewright.host.common.errors import ProgramError, WorkloadError
from tilewright.host.lowering.cycle_bound import bound
from tilewright.host.lowering.default import default_schedule
from tilewright.host.lowering.layer import legal, lower
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.machine.isa import Instruction, Opcode, VectorOp
from tilewright.host.network.golden import conv2d_int8, random_tensors
from tilewright.host.network.schedule import Fusion, LoopOrder, Schedule
from tilewright.host.network.workload import Kind, Workload
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.verify.randconfig import any_hwconfig
from tilewright.sim.verilator.device import VerilatorDevice

TINY = load_hwconfig("tiny-4x4")
KINDS = [kind for kind in Kind if kind.pairs]


def product(kind=Kind.SCALE, height=5, width=6, channels=10, n=1):
    return Workload(
        name="product",
        kind=kind,
        n=n,
        height=height,
        width=width,
        channels_in=channels,
        channels_out=channels,
        relu=False,
    )


def run(device, workload, schedule, rng, zero=0, table=False):
    hw = device.hw
    tensors = random_tensors(workload, rng, factor_zero=zero)
    low = lower(hw, workload, schedule, factor_zero=zero, table=table)
    image = low.image(tensors)
    check_hazards(hw, low.program, image)
    found = device.run(low.program, image)
    place = where(hw=hw.parameters(), workload=workload, schedule=schedule)
    assert np.array_equal(low.output(found.memory), conv2d_int8(workload, tensors)), place
    if isinstance(device, ReferenceDevice):  # the RTL counts what it fetches too
        assert low.bytes_read == found.counters["bytes_read"], place
    return low, found


def by_hand(kind, tensors):
    """The definition, element by element, in Python's integers."""
    data, factor, p = tensors.data, tensors.factor, tensors.requant
    out = np.zeros(data.shape, dtype=np.int8)
    for at in np.ndindex(data.shape):
        n, c, h, w = at
        f = int(factor[n, c, h % factor.shape[2], w % factor.shape[3]])
        other = f - tensors.factor_zero
        combine = {Kind.MAXIMUM: max, Kind.MINIMUM: min}.get(kind, mul)
        acc = combine(int(data[at]), other)
        total = (acc + int(p.bias[c])) * int(p.m1[c]) + f * int(p.m2[c]) * 256
        quotient, rest = divmod(total, 1 << int(p.shift[c]))
        twice = 2 * rest - (1 << int(p.shift[c]))
        quotient += twice > 0 or (twice == 0 and quotient & 1)
        out[at] = min(max(quotient + int(p.zero_point[c]), p.clip_min), p.clip_max)
    return out


@pytest.mark.parametrize("kind", KINDS)
def test_the_definition_is_that_of_integers(kind):
    tensors = random_tensors(product(kind, 3, 4, 3, n=2), generator("product"), factor_zero=-128)
    assert np.array_equal(conv2d_int8(product(kind, 3, 4, 3, n=2), tensors), by_hand(kind, tensors))


@pytest.mark.parametrize("zero", [0, -128, 127])
@pytest.mark.parametrize("kind", KINDS)
def test_every_zero_point_of_the_factor_gives_the_definition(kind, zero):
    workload, device = product(kind), ReferenceDevice(TINY)
    low, _ = run(device, workload, default_schedule(TINY, workload), fresh_rng(), zero)
    adds = [
        i for i in map(Instruction.decode, low.program.executed())
        if i.opcode == Opcode.VECTOR and i.values["op"] == VectorOp.ADD
    ]  # fmt: skip
    assert bool(adds) == bool(zero)


def schedules(workload, blocks, rng):
    return Schedule(
        tile_h=int(rng.integers(1, workload.height + 1)),
        tile_w=workload.width,
        tile_ci=1,
        tile_co=int(rng.integers(1, blocks + 1)),
        h_threading=int(rng.integers(1, 3)),
    )


@pytest.mark.parametrize("kind", often("products", KINDS, 2))
def test_any_legal_schedule_on_any_configuration_gives_the_definition(kind):
    rng, ran = generator(f"products {kind}"), 0
    for _ in range(100):
        hw = any_hwconfig(rng)
        channels = int(rng.integers(1, 5 * hw.block_out))
        sizes = (int(rng.integers(1, 7)), int(rng.integers(1, 7)), channels)
        workload = product(kind, *sizes, n=int(rng.integers(1, 4)))
        schedule = schedules(workload, -(-channels // hw.block_out), rng)
        if legal(hw, workload, schedule).ok:
            run(ReferenceDevice(hw), workload, schedule, rng, int(rng.integers(-128, 128)))
            ran += 1
    assert ran > 15


def test_the_rtl_computes_the_definition_in_cycles_near_the_bound():
    memory = load_memory("ideal")
    with closing(VerilatorDevice(TINY, memory)) as device:
        for kind in KINDS:
            workload = product(kind, 14, 14, 64)
            _, found = run(device, workload, default_schedule(TINY, workload), fresh_rng(), -3)
            least = bound(TINY, workload, memory).cycles
            assert least <= found.counters.cycles < 1.6 * least, kind


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"tile_w": 3}, "product_columns"),
        ({"tile_h": 6}, "tile_h_extent"),
        ({"tile_ci": 2}, "tile_ci_extent"),
        ({"tile_co": 4}, "tile_co_extent"),
        ({"oc_threading": 2}, "product_threading"),
        ({"h_threading": 2}, "product_threading"),
        ({"loop_order": LoopOrder.WEIGHT_STATIONARY}, "product_loop_order"),
        ({"fusion": Fusion.BLOCK}, "product_fusion"),
    ],
)
def test_a_schedule_that_says_nothing_more_is_refused_by_name(change, rule):
    values = {"tile_h": 5, "tile_w": 6, "tile_ci": 1, "tile_co": 3, **change}
    assert legal(TINY, product(), Schedule(**values)).rule == rule


def test_operands_that_do_not_match_the_program_are_refused():
    workload = product()
    tensors = random_tensors(workload, fresh_rng(), factor_zero=3)
    with pytest.raises(ProgramError, match="zero point"):
        lower(TINY, workload, default_schedule(TINY, workload)).image(tensors)
    with pytest.raises(WorkloadError, match="factor"):
        random_tensors(product(Kind.MULTIPLY), fresh_rng()).check(product())
