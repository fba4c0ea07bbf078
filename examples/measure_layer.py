# SPDX-License-Identifier: Apache-2.0
"""Measure one layer under two schedules on the RTL, from Python.

    python examples/measure_layer.py

Builds the smallest configuration (a few seconds, cached), runs a 3x3 convolution serially and with
double-buffered operands, checks both outputs bit-exact, and prints what hiding latency is worth.
"""

from __future__ import annotations

import numpy as np

from tilewright.host.lowering import default_schedule, legal, lower
from tilewright.host.lowering.cycle_bound import bound
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.golden import conv2d_int8, random_tensors
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import conv2d
from tilewright.sim.verilator.device import VerilatorDevice


def main() -> None:
    """Measure and print."""
    hw = load_hwconfig("tiny-4x4")
    memory = load_memory("pynq-z2")
    layer = conv2d("example", 14, 16, 16, kernel=3, pad=1, stride=1)
    hidden = Schedule(tile_h=2, tile_w=14, tile_ci=1, tile_co=2, h_threading=2)
    verdict = legal(hw, layer, hidden)
    if not verdict.ok:
        raise SystemExit(verdict.detail)
    tensors = random_tensors(layer, np.random.default_rng(0))
    golden = conv2d_int8(layer, tensors)
    device = VerilatorDevice(hw, memory)
    limit = bound(hw, layer, memory).cycles
    for name, schedule in (("untuned", default_schedule(hw, layer)), ("threaded", hidden)):
        lowered = lower(hw, layer, schedule)
        run = device.run(lowered.program, lowered.image(tensors), max_cycles=100 * limit)
        exact = np.array_equal(lowered.output(run.memory), golden)
        cycles = run.counters.cycles
        print(
            f"{name:9} {cycles:>8,} cycles, {100 * limit / cycles:.0f} % of the bound, "
            f"gemm busy {run.counters['gemm_busy']:,}, bit-exact: {exact}"
        )
    device.close()


if __name__ == "__main__":
    main()
