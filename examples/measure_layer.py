# SPDX-License-Identifier: Apache-2.0
"""Measure one layer under two schedules on the RTL, from Python.

    python examples/measure_layer.py

Builds the smallest configuration (a few seconds, cached), runs a 3x3 convolution serially and with
double-buffered operands, checks both outputs bit-exact, and prints what hiding latency is worth.
"""

from __future__ import annotations

import tilewright as tw


def main() -> None:
    """Measure and print."""
    hw = tw.load_hwconfig("tiny-4x4")
    layer = tw.conv2d("example", 14, 16, 16, kernel=3, pad=1, stride=1)
    hidden = tw.Schedule(tile_h=2, tile_w=14, tile_ci=1, tile_co=2, h_threading=2)
    for name, schedule in (("untuned", tw.default_schedule(hw, layer)), ("threaded", hidden)):
        run = tw.simulate(layer, schedule, hw=hw, memory="pynq-z2")
        print(
            f"{name:9} {run.cycles:>8,} cycles, {run.of_bound:.0%} of the bound, "
            f"gemm busy {run.counters['gemm_busy']:,}, bit-exact: {run.output_checked}"
        )


if __name__ == "__main__":
    main()
