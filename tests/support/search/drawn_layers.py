# SPDX-License-Identifier: Apache-2.0
"""Small layers of every kind that is tuned, with a configuration and a memory, drawn at random."""

from dataclasses import replace

import numpy as np

from tilewright.host.common.errors import TilewrightError
from tilewright.host.machine.board import MemoryModel, load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.workload import Kind, Workload, conv2d, dense, depthwise
from tilewright.sim.twin.native_lowering import NativeLowering, Points
from tilewright.sim.verify.randconfig import any_hwconfig
from tilewright.tuner.exhaustive.exhaust import points_of
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.schedule.spaces import ScheduleSpace

CONFIGS = (
    "tiny-4x4", "edge-8x8", "pynq-16x16", "pynq-16x32", "wide-8x32", "batch2-8x16", "zu-32x32",
)  # fmt: skip
KINDS = ("conv", "strided", "residual", "depthwise", "pooling", "dense", "odd")
"""Average pooling is a depthwise layer; max pooling is not tuned. "odd" has unequal sides, and may
have tiles that lie in the padding."""


def drawn_task(rng: np.random.Generator, kind: str) -> Workload:
    """A layer of a kind."""
    size, kernel = int(rng.integers(4, 13)), int(rng.choice([1, 2, 3, 5]))
    channels_in, channels_out = (int(n) for n in rng.choice([3, 8, 16, 24, 40, 64], 2))
    if kind == "dense":
        return dense("layer", rows=size, features_in=8 * channels_in, features_out=2 * channels_out)
    if kind == "depthwise":
        return depthwise("layer", size, channels_out, kernel, kernel // 2, int(rng.integers(1, 3)))
    if kind == "pooling":
        return depthwise("layer", size, channels_out, min(size, kernel + 1), 0, 2)
    stride = 2 if kind == "strided" else 1
    task = conv2d(
        "layer", size, channels_in, channels_out, kernel, kernel // 2, stride,
        residual=kind == "residual",
    )  # fmt: skip
    if kind == "odd":
        task = replace(
            task,
            n=int(rng.integers(1, 4)),
            height=int(rng.integers(5, 20)),
            stride_w=int(rng.integers(1, 3)),
            pad_top=int(rng.integers(0, 3)),
            pad_left=int(rng.integers(0, 4)),  # with a narrow kernel some tiles are padding alone
            pad_right=int(rng.integers(0, 4)),
            dilation_h=int(rng.integers(1, 3)),
            weight_bits=int(rng.choice([4, 8])),
        )
    return task


def drawn_memory(rng: np.random.Generator) -> MemoryModel:
    """Ideal, a board's, or one with other latencies, rates and transfers in flight.

    A beat of a slow memory takes hundreds of cycles, of odd rates a fraction of one more.
    """
    memory = load_memory(str(rng.choice(["ideal", "pynq-z2", "zcu104"])))
    if rng.random() < 0.5:
        return memory
    latencies = [int(n) for n in rng.choice([1, 2, 7, 40, 120], 2)]
    flights = [int(n) for n in rng.choice([1, 2, 8], 2)]
    if rng.random() < 0.5:
        rates = [float(rate) for rate in rng.choice([0.0625, 0.3, 1, 3.7, 8, 64], 2)]
        shared = float(rng.choice([0, 0.5, 6.3, 15.75]))
        memory = replace(
            memory,
            read_bytes_per_cycle=rates[0],
            write_bytes_per_cycle=rates[1],
            shared_bytes_per_cycle=shared,
        )
    return replace(
        memory,
        name="drawn",
        read_latency=latencies[0],
        write_latency=latencies[1],
        max_reads=flights[0],
        max_writes=flights[1],
    )


def drawn_space(
    rng: np.random.Generator, kind: str, *, most: int = 1 << 30
) -> tuple[ScheduleSpace, MemoryModel]:
    """A layer that some schedule runs, on a named or drawn configuration, of so many points."""
    while True:
        named = rng.random() < 0.5
        hw = load_hwconfig(str(rng.choice(CONFIGS))) if named else any_hwconfig(rng)
        memory = drawn_memory(rng)
        try:
            task = drawn_task(rng, kind)
        except TilewrightError:  # a kernel larger than its image
            continue
        space = ScheduleSpace(task, hw, host_rules(), "full")
        if space.raw_size <= most and len(legal_points(space)):
            return space, memory


def legal_points(space: ScheduleSpace) -> Points:
    """All legal points of a space."""
    assert space.workload.kind in (Kind.CONV2D, Kind.DEPTHWISE)
    points = points_of(space, 0, space.raw_size)
    legal: Points = points[NativeLowering(space.hw, space.workload).rules(points) == 0]
    return legal
