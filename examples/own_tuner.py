# SPDX-License-Identifier: Apache-2.0
"""Your own search algorithm in a whole study: a subclass of `tw.Tuner`, used by `tw.tune`.

    python examples/own_tuner.py

The study searches on the cycle-exact twin and confirms what it found on the RTL, bit-exact. It is
stored in `runs/`: run this again, and the answer comes from there.
"""

from __future__ import annotations

import tilewright as tw


class Hillclimber(tw.Tuner[tw.Schedule]):
    """Try the neighbours of the best schedule so far; jump when there is none left."""

    def _propose(self) -> tuple[int, ...] | None:
        if self.best is None:
            return None  # the base class draws a legal schedule at random
        near = [index for index in self.space.neighbours(self.best.index) if self.is_new(index)]
        return near[int(self.rng.integers(len(near)))] if near else self.sample_new()

    def _learn(self, result: tw.Result) -> None:
        """`self.best` is all that this algorithm needs."""


def main() -> None:
    """Tune two layers on the smallest configuration."""
    study = tw.tune(
        "vta-resnet18", layers=["C4", "C10"], hw="tiny-4x4", tuner=Hillclimber, budget=60, seed=0
    )
    for layer in study.layers:
        print(f"{layer.name}: {layer.cycles:,} cycles; untuned {layer.untuned_cycles:,}")
    print(
        f"network {study.cycles:,} cycles, {study.milliseconds:.1f} ms, bound "
        f"{study.bound_cycles:,}; report {study.report}"
    )


if __name__ == "__main__":
    main()
