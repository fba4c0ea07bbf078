# SPDX-License-Identifier: Apache-2.0
"""Moves of pixels: boxes that cover a result, and the bits of their programs."""

from dataclasses import replace

import numpy as np
import pytest
from support.qgraph_floats import evaluate as evaluate_floats
from support.randomness import fresh_rng

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.lower.fuse import fuse
from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.lower.layers import layer_graph
from tilewright.host.compiler.lower.qgraph import QGather, QGraph, QReshape, QTensor
from tilewright.host.compiler.lower.region import lower_region
from tilewright.host.lowering import default_schedule
from tilewright.host.lowering.gathers import PixelBox, pieces_of
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.reference.device import ReferenceDevice

TINY = load_hwconfig("tiny-4x4")


def windows(side: int, window: int, shift: int = 0) -> np.ndarray:
    """Pixels of a square image, window by window, after a roll."""
    pixels = np.roll(np.arange(side * side).reshape(side, side), (-shift, -shift), (0, 1))
    count = side // window
    return pixels.reshape(count, window, count, window).swapaxes(1, 2).reshape(-1)


def taken(piece: list[PixelBox]) -> list[int]:
    return [b.source + r * b.stride + p for b in piece for r in range(b.rows)
            for p in range(b.length)]  # fmt: skip


def test_boxes_cover_any_pixels_in_their_order_and_windows_are_one_box_each() -> None:
    rng = fresh_rng()
    patterns = [rng.integers(0, 40, 60), rng.permutation(64), windows(12, 4), windows(12, 4, 1),
                np.argsort(windows(12, 4, 1)), np.zeros(7, int), np.arange(30)]  # fmt: skip
    for pixels in patterns:
        for most in (1, 3, 16, 1000):
            pieces = pieces_of(pixels, most)
            sizes = [len(taken(piece)) for piece in pieces]
            assert [pixel for piece in pieces for pixel in taken(piece)] == pixels.tolist()
            assert all(size == most for size in sizes[:-1])
            assert 0 < sizes[-1] <= most
    (piece,) = pieces_of(windows(12, 4), 1000)
    assert len(piece) == 9
    assert {(b.length, b.rows, b.stride) for b in piece} == {(4, 4, 12)}


def graph(pixels: np.ndarray, channels: int, before: tuple[int, int], after: tuple[int, int],
          count: int = 1) -> QGraph:  # fmt: skip
    """One move after the other, the first from another shape than the last leaves."""
    names = [f"t{index}" for index in range(count + 1)]
    shapes = [before, *[after] * count]
    return QGraph(
        name="g",
        tensors={n: QTensor(name=n, shape=(1, channels, *s), scale=0.1, zero_point=3)
                 for n, s in zip(names, shapes, strict=True)},
        operators=tuple(QGather(name=f"g{i}", inputs=(names[i],), output=names[i + 1],
                                pixels=pixels) for i in range(count)),
        inputs=(names[0],),
        outputs=(names[-1],),
    )  # fmt: skip


@pytest.mark.parametrize("more", [{}, {"block_in": 8}, {"block_out": 8, "block_in": 4}])
@pytest.mark.parametrize("channels", [3, 13])
def test_a_program_moves_pixels_bit_by_bit(more, channels) -> None:
    hw = TINY.with_(**more)
    rng = fresh_rng()
    data = rng.integers(-128, 128, (1, channels, 12, 12)).astype(np.int8)
    for pixels in (windows(12, 4, 1), np.argsort(windows(12, 4, 3)), rng.permutation(144)):
        layers = layer_graph(graph(pixels, channels, (12, 12), (144, 1)), hw)
        moved = evaluate(layers, {"t0": data})["t1"]
        assert np.array_equal(moved[0, :, :, 0], data.reshape(channels, -1)[:, pixels])
        program = lower_region(layers, hw, lambda workload: default_schedule(hw, workload))
        run = ReferenceDevice(hw).run(program.program, program.image({"t0": data}))
        assert np.array_equal(program.read_outputs(run.memory)["t1"], moved)


def test_rows_longer_than_the_scratchpads_are_refused() -> None:
    tall = graph(np.arange(4)[::-1], 1 << 16, (2, 2), (2, 2))
    with pytest.raises(WorkloadError, match="must fit RES and OUT"):
        lower_region(layer_graph(tall, TINY), TINY, lambda w: default_schedule(TINY, w))


def test_moves_that_follow_each_other_are_one_and_those_that_cancel_are_none() -> None:
    pixels = fresh_rng().permutation(36)
    (both,) = fuse(graph(pixels, 4, (6, 6), (36, 1), count=2)).operators
    assert isinstance(both, QGather)
    assert np.array_equal(both.pixels, pixels[pixels])
    two = graph(pixels, 4, (6, 6), (36, 1), count=2)
    back = replace(two.operators[1], pixels=np.argsort(pixels))
    (none,) = fuse(replace(two, operators=(two.operators[0], back))).operators
    assert isinstance(none, QReshape)
    kept = fuse(replace(two, outputs=("t1", "t2"))).operators
    assert len(kept) == 2
    assert kept[1].inputs == ("t0",)


def test_a_move_stays_where_a_shape_between_it_and_the_next_one_is_read() -> None:
    pixels = fresh_rng().permutation(36)
    shapes = {"t0": (6, 6), "t1": (36, 1), "t2": (4, 9), "t3": (9, 4), "t4": (36, 1)}
    tensors = {n: QTensor(name=n, shape=(1, 4, *s), scale=0.1) for n, s in shapes.items()}
    operators = (
        QGather(name="first", inputs=("t0",), output="t1", pixels=pixels),
        QReshape(name="one", inputs=("t1",), output="t2"),
        QReshape(name="two", inputs=("t2",), output="t3"),
        QGather(name="second", inputs=("t3",), output="t4", pixels=pixels),
    )
    given = QGraph(name="g", tensors=tensors, operators=operators, inputs=("t0",),
                   outputs=("t2", "t4"))  # fmt: skip
    data = fresh_rng().integers(-128, 128, (1, 4, 6, 6)).astype(np.int8)
    for expected, found in zip(
        evaluate_floats(given, [data]), evaluate_floats(fuse(given), [data]), strict=True
    ):
        assert np.array_equal(found, expected)
    (both,) = fuse(replace(given, outputs=("t4",))).operators
    assert isinstance(both, QGather)
