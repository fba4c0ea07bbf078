# SPDX-License-Identifier: Apache-2.0
"""`tw_stepper` against loops over the tiles of a region, step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from builds import open_unit
from support.randomness import fresh_rng, often, where

from tilewright.host.machine.isa import pack_fields
from tilewright.host.machine.wires import FIRST_STEP

REGIONS = 150
Region = dict[str, int]
Step = dict[str, int]


def draw(rng: np.random.Generator, beat: int) -> Region:
    """Tiles of 4 bytes to 8 beats; rows of up to 200 tiles, which start at any tile of a beat."""
    shift = int(rng.integers(2, beat.bit_length() + 3))
    lanes = max(1, beat >> shift)
    longest = int(rng.choice([2, lanes + 2, 4 * lanes, 200])) if shift < 6 else 4

    def within() -> int:
        return int(rng.integers(lanes)) << shift if lanes > 1 else 0

    return {
        "tile": int(rng.integers(1 << 20)), "base": within(), "shift": shift,
        "parts": int(rng.random() < 0.4), "x_size": int(rng.integers(1, longest + 1)),
        "y_size": int(rng.integers(1, 5)), "z_size": int(rng.integers(1, 4)),
        "y_step": within(), "z_step": within(), "row_jump": int(rng.integers(128)),
        "plane_jump": int(rng.integers(1 << 20)),
    }  # fmt: skip


def first(region: Region, beat: int) -> int:
    """The first step, as the unit is told of it."""
    step, lanes = next(walk(region, beat)), beat >> region["shift"]
    return pack_fields(FIRST_STEP, {
        "lane": step["lane"], "lane_end": int(step["lane"] == lanes - 1), "count": step["count"],
        "beyond": step["count"] - 1, "ends_row": int(step["count"] == region["x_size"]),
        "few": int(region["x_size"] <= lanes),
    })  # fmt: skip


def walk(region: Region, beat: int) -> Iterator[Step]:
    """What each step covers, and what ends with it."""
    slices, lanes = max(1, (1 << region["shift"]) // beat), beat >> region["shift"]
    wide, tile = lanes <= 1, region["tile"]
    most = 1 if wide or region["parts"] else lanes
    for z in range(region["z_size"]):
        for y in range(region["y_size"]):
            start = region["base"] + z * region["z_step"] + y * region["y_step"]
            lane, left = (0 if wide else start % beat >> region["shift"]), region["x_size"]
            while left:
                count = min(left, most, 1 if wide else lanes - lane)
                left -= count
                for part in range(slices):
                    row_done = not left and part == slices - 1
                    plane_done = row_done and y == region["y_size"] - 1
                    filled = wide or not region["parts"] or lane + count == lanes
                    yield {
                        "tile": tile, "last_tile": (tile + count - 1) % (1 << 20), "slice": part,
                        "lane": lane, "count": count, "beat_done": int(filled or row_done),
                        "row_done": int(row_done),
                        "done": int(plane_done and z == region["z_size"] - 1),
                    }  # fmt: skip
                tile = (tile + count) % (1 << 20)
                lane = 0 if wide else (lane + count) % lanes
            last = y == region["y_size"] - 1
            tile = (tile + region["plane_jump" if last else "row_jump"]) % (1 << 20)


@pytest.mark.parametrize("beat", often("beats of the stepper", [4, 8, 16, 32, 64], 2))
def test_every_step_is_that_of_the_loops(beat: int) -> None:
    rng, seen = fresh_rng(), Counter[str]()
    with open_unit("tw_stepper", BeatBytes=beat) as sim:
        io = sim.io
        left: Iterator[Step] = iter(())
        region: Region = {}
        step: Step | None = None
        started = 0
        while started < REGIONS or step:
            # A region starts behind the last step of another, with it, or now and then within it.
            ends = step is None or step["done"]
            start = started < REGIONS and rng.random() < (0.5 if ends else 0.002)
            go = step is not None and rng.random() < 0.7
            fields = draw(rng, beat)
            for name, value in fields.items():
                setattr(io, f"{name}_i", value)  # those of a step without a start mean nothing
            io.first_i = first(fields, beat)
            io.start_i, io.step_i = int(start), int(go)
            sim.settle()
            if step is not None:
                told = {name: getattr(io, f"{name}_o") for name in step}
                assert told == step, where(beat=beat, region=region)
                seen[
                    f"{'wide' if beat >> region['shift'] <= 1 else 'narrow'} {region['parts']}"
                ] += 1
                seen["row within a beat"] += step["row_done"] and step["lane"] > 0
            sim.clock.tick()
            if start:
                seen["with the last step"] += step is not None and step["done"] and go
                region, left = fields, walk(fields, beat)
                started += 1
            if start or go:
                step = next(left, None)
    kinds = {"wide 0", "wide 1"} | (
        {"narrow 0", "narrow 1", "row within a beat"} if beat > 4 else set()
    )
    assert all(seen[kind] for kind in kinds | {"with the last step"}), f"{seen}: {where()}"
