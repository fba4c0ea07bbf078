# SPDX-License-Identifier: Apache-2.0
"""Your own search loop: ask a tuner for schedules, measure them on the RTL, tell it the cycles.

    python examples/ask_tell.py

Any source of schedules can take the tuner's place: `space.sample`, `space.neighbours`, your model.
"""

from __future__ import annotations

import tilewright as tw


def main() -> None:
    """Search the schedules of one layer on the smallest configuration."""
    layer = tw.conv2d("example", 14, 16, 16, kernel=3, pad=1, stride=1)
    space = tw.schedule_space(layer, "tiny-4x4")
    tuner = tw.make_tuner("coordinate", space, seed=1)
    best = tw.simulate(layer, hw=space.hw)
    print(f"untuned {best.cycles:,} cycles, bound {best.bound_cycles:,}")
    for _ in range(8):
        for candidate in tuner.ask(4):
            measured = tw.simulate(layer, candidate.point, hw=space.hw)
            tuner.tell([tw.Result(index=candidate.index, value=measured.cycles)])
            if measured.cycles < best.cycles:
                best = measured
    print(
        f"best of {tuner.asked} {best.cycles:,} cycles, {best.of_bound:.1%} of the bound, "
        f"bit-exact: {best.output_checked}"
    )
    print(best.schedule)


if __name__ == "__main__":
    main()
