# SPDX-License-Identifier: Apache-2.0
"""Softmax and layer normalisation as programs against their specification."""

from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.networks.qgraph_floats import evaluate as evaluate_floats
from support.networks.rows import masked_softmax, some_function
from support.programs.lowered import checked
from support.randomness import fresh_rng

from tilewright.host.common.errors import ProgramError, WorkloadError
from tilewright.host.compiler.lower.fuse import fuse
from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.lower.layers import layer_graph
from tilewright.host.compiler.lower.qgraph import QGather, QGraph, QReshape, QTensor
from tilewright.host.compiler.lower.region import lower_region
from tilewright.host.lowering import default_schedule
from tilewright.host.lowering.gathers import PixelBox, pieces_of
from tilewright.host.lowering.row_layers import compute_rows, lower_rows
from tilewright.host.lowering.row_plan import plan_rows
from tilewright.host.lowering.vector_loops import ITERATIONS_MAX, VectorLoop, passes
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.network.row_functions import LayerNorm, Softmax, mask_scale
from tilewright.sim.reference.device import ReferenceDevice

ROWED = load_hwconfig("tiny-4x4").with_(row_unit=1)
CONFIGS = (
    ROWED,
    ROWED.with_(name="interleaved", block_in=16),
    ROWED.with_(name="batch", batch=2, vector_lanes=2),
    ROWED.with_(name="one piece", res_bytes=1024, out_bytes=1024, acc_bytes=8192),
)


@settings(max_examples=30, deadline=None)
@given(
    hw=st.sampled_from(CONFIGS),
    kind=st.sampled_from(["softmax", "layer norm", "masked"]),
    shape=st.tuples(*(st.integers(1, high) for high in (3, 26, 4, 30))),
    seed=st.integers(0, 2**32 - 1),
)
def test_programs_compute_what_is_specified(
    hw: HwConfig, kind: str, shape: tuple[int, int, int, int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    masked = kind == "masked"
    function = masked_softmax(shape, rng) if masked else some_function(kind, shape[1], rng)
    data = rng.integers(-128, 128, shape).astype(np.int8)
    lowered = lower_rows(hw, shape, function)
    checked(lowered, lowered.image(data), compute_rows(data, function))


@settings(max_examples=20, deadline=None)
@given(
    hw=st.sampled_from(CONFIGS),
    causal=st.booleans(),
    shape=st.tuples(*(st.integers(1, high) for high in (26, 4, 30))),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_mask_that_is_given_at_run_time_is_part_of_what_is_specified(
    hw: HwConfig, causal: bool, shape: tuple[int, int, int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    channels, height, width = shape
    function = Softmax.of(0.1, mask_scale=mask_scale(0.1))
    if causal:
        addend = np.where(rng.random((1, height, width, channels)) < 0.3, -np.inf, 0.0)
        function = Softmax.of(0.1, addend=addend, mask_scale=mask_scale(0.1))
    data = rng.integers(-128, 128, (1, *shape)).astype(np.int8)
    lowered = lower_rows(hw, (1, *shape), function)
    for _ in range(2):  # one program, two masks
        mask = rng.integers(-128, 1, (1, channels, 1, 1)).astype(np.int8)
        checked(lowered, lowered.image(data, mask), compute_rows(data, function, mask))


def test_a_mask_of_several_images_is_refused() -> None:
    with pytest.raises(WorkloadError, match="batch of 1"):
        lower_rows(ROWED, (2, 4, 3, 1), Softmax.of(0.1, mask_scale=1.0))


@pytest.mark.parametrize("kind", ["softmax", "layer norm"])
@pytest.mark.parametrize("block_in", [4, 16])
def test_rows_of_more_blocks_than_the_parameters_that_fit(kind: str, block_in: int) -> None:
    hw = ROWED.with_(block_in=block_in, param_bytes=1024, acc_bytes=16384)
    rng = np.random.default_rng(8)
    shape = (1, 150, 3, 7)
    assert plan_rows(hw, shape).held < plan_rows(hw, shape).blocks
    function = some_function(kind, shape[1], rng)
    data = rng.integers(-128, 128, shape).astype(np.int8)
    lowered = lower_rows(hw, shape, function)
    checked(lowered, lowered.image(data), compute_rows(data, function))


@pytest.mark.parametrize("bias", [0.0, 0.02])
def test_rows_without_a_mask_do_not_load_one(bias: float) -> None:
    rng, shape = np.random.default_rng(5), (1, 8, 64, 1)
    counts = []
    for masked in (64, 20):
        addend = rng.normal(0, bias, (1, 64, 1, 8))
        addend[:, :masked, :, 5:] = -np.inf
        function = Softmax.of(0.1, addend=addend)
        data = rng.integers(-128, 128, shape).astype(np.int8)
        lowered = lower_rows(ROWED, shape, function)
        checked(lowered, lowered.image(data), compute_rows(data, function))
        counts.append(lowered.program.instruction_count)
    assert counts[1] < counts[0]


def test_a_configuration_without_the_unit_is_refused() -> None:
    with pytest.raises(ProgramError, match="row_unit: 1"):
        lower_rows(load_hwconfig("tiny-4x4"), (1, 4, 1, 1), Softmax.of(0.1))


def test_a_row_that_is_longer_than_the_scratchpads_is_refused() -> None:
    with pytest.raises(WorkloadError, match="must fit ACC"):
        lower_rows(ROWED, (1, 4096, 1, 1), Softmax.of(0.1))


def test_parameters_of_other_rows_are_refused() -> None:
    function = LayerNorm.of(np.ones(8), np.zeros(8), 1.0)
    with pytest.raises(WorkloadError, match="8 channels"):
        lower_rows(ROWED, (1, 4, 1, 1), function)


def test_an_addend_of_other_rows_is_refused() -> None:
    function = masked_softmax((1, 8, 3, 1), np.random.default_rng(0))
    with pytest.raises(WorkloadError, match="rows' shape"):
        lower_rows(ROWED, (1, 8, 4, 1), function)


# -- loop nests as instructions of two loops: every visit once, few instructions ------------------

AXES = st.lists(
    st.builds(VectorLoop, st.integers(1, 4), st.integers(0, 9), st.integers(0, 9)), max_size=5
).map(tuple)


def visits(axes, acc, res):
    return Counter(
        (
            acc + sum(a.acc * i for a, i in zip(axes, at, strict=True)),
            res + sum(a.res * i for a, i in zip(axes, at, strict=True)),
        )
        for at in product(*(range(axis.trips) for axis in axes))
    )


@settings(deadline=None)
@given(AXES, st.integers(0, 50), st.integers(0, 50))
def test_the_passes_visit_what_the_nest_visits(axes, acc, res):
    found = passes(axes, acc, res)
    total = Counter()
    for part in found:
        total += visits((part.outer, part.inner), part.acc, part.res)
        last = max(a for a, _ in visits((part.outer, part.inner), part.acc, part.res))
        assert part.acc + part.acc_span == last + 1
    assert total == visits(axes, acc, res)


@settings(deadline=None)
@given(AXES)
def test_no_choice_of_two_axes_takes_fewer_instructions(axes):
    trips = sorted((axis.trips for axis in axes), reverse=True)
    unrolled = 1
    for count in trips[2:]:
        unrolled *= count
    assert len(passes(axes, 0, 0)) <= unrolled


def test_a_joined_loop_stays_within_the_counter():
    half = ITERATIONS_MAX // 2 + 1
    (whole,) = passes((VectorLoop(half, 1, 1), VectorLoop(2, half, half)), 0, 0)
    assert (whole.inner.trips, whole.outer.trips) == (half, 2)


# -- moves of pixels: boxes that cover a result, and the bits of their programs -------------------

TINY = load_hwconfig("tiny-4x4")


def windows(side: int, window: int, shift: int = 0) -> np.ndarray:
    """Pixels of a square image, window by window, after a roll."""
    pixels = np.roll(np.arange(side * side).reshape(side, side), (-shift, -shift), (0, 1))
    count = side // window
    return pixels.reshape(count, window, count, window).swapaxes(1, 2).reshape(-1)


def taken(piece: list[PixelBox]) -> list[int]:
    return [b.source + r * b.stride + p for b in piece for r in range(b.rows)
            for p in range(b.length) for _ in range(b.times)]  # fmt: skip


def nearest(rng: np.random.Generator, height: int, width: int, most: int) -> np.ndarray:
    """Pixels of an image, each of them a few times along each axis: by one factor, or by any."""
    rows, columns = (rng.integers(1, most + 1, (2, side)) for side in (height, width))
    image = np.arange(height * width).reshape(height, width)
    rows, columns = (times[0] if rng.random() < 0.5 else times[1, :1] for times in (rows, columns))
    return np.repeat(np.repeat(image, rows, 0), columns, 1).reshape(-1)


def test_boxes_cover_any_pixels_in_their_order_and_windows_are_one_box_each() -> None:
    rng = fresh_rng()
    patterns = [rng.integers(0, 40, 60), rng.permutation(64), windows(12, 4), windows(12, 4, 1),
                np.argsort(windows(12, 4, 1)), np.zeros(7, int), np.arange(30),
                *(nearest(rng, 4, 5, most) for most in (2, 3, 9) for _ in range(4))]  # fmt: skip
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
    orders = [windows(12, 4, 1), np.argsort(windows(12, 4, 3)), rng.permutation(144)]
    for pixels in (*orders, *(nearest(rng, 12, 12, most) for most in (2, 5))):
        layers = layer_graph(graph(pixels, channels, (12, 12), (pixels.size, 1)), hw)
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
