# SPDX-License-Identifier: Apache-2.0
"""Results that nothing in a region reads leave as views of the memory, where that costs less."""

from dataclasses import replace
from itertools import product, starmap
from math import prod

import numpy as np
import pytest
from support.networks.region_runs import image_over_residue, int8_inputs, layer_of, region_of
from support.programs.hazards import check_hazards
from support.randomness import fresh_rng, often

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.lower.executable import RegionExecutable
from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.lower.layer_graph import LayerGraph
from tilewright.host.compiler.lower.layers import layer_graph
from tilewright.host.compiler.lower.lower_executable import make_executable
from tilewright.host.compiler.lower.qgraph import (
    QConv,
    QGraph,
    QStack,
    from_normal_form,
    is_channels_last,
)
from tilewright.host.compiler.pack.latency import region_seconds
from tilewright.host.lowering import default_schedule
from tilewright.host.machine.board import Board, load_board
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.network.layout import input_block
from tilewright.host.network.schedule import Fusion, LoopOrder, Schedule
from tilewright.host.network.workload import Workload
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.twin.network_timing import time_layers

PYNQ = load_hwconfig("pynq-16x16")
ROOMY = load_hwconfig("tiny-4x4").with_(
    inp_bytes=1 << 15, wgt_bytes=1 << 16, acc_bytes=1 << 16, out_bytes=1 << 14,
    res_bytes=1 << 14, param_bytes=1 << 14, uop_bytes=1 << 15,
)  # fmt: skip
ARRAYS = {
    "4x4": ROOMY,
    "8x4": ROOMY.with_(name="8x4", block_in=8),
    "4x8": ROOMY.with_(name="4x8", block_out=8),
    "4x16": ROOMY.with_(name="4x16", block_out=16),
}
BOARD = load_board("pynq-z2")
TOKENS = 13


def with_cpu(bytes_per_second: float) -> Board:
    return replace(BOARD, cpu=replace(BOARD.cpu, bytes_per_second=bytes_per_second))


SLOW = with_cpu(1e5)
"""Its CPU takes longer than STORE to write anything."""


def dense(inputs: tuple[str, ...], output: str, shape: tuple[int, int]) -> QConv:
    """A dense layer of so many outputs and inputs."""
    numbers = {"weight_scales": np.full(shape[0], 1e-3), "bias": np.linspace(-0.2, 0.2, shape[0])}
    return layer_of(fresh_rng(), inputs, output, *shape, **numbers)


def graph_of(
    operators: tuple[QConv, ...],
    channels: dict[str, int],
    outputs: tuple[str, ...],
    *,
    tokens: int = TOKENS,
    images: int = 1,
    last: bool = True,
) -> QGraph:
    """A region on sequences; ``last``: channels are the last axis of the model's results."""
    shapes = {name: (images, count, tokens, 1) for name, count in channels.items()}
    of_model = {name: (images, tokens, channels[name]) for name in outputs} if last else {}
    return region_of(operators, shapes, outputs, model_shapes=of_model)


def logits(
    outputs: int = 48, inputs: int = 16, *, tokens: int = TOKENS, images: int = 1, last: bool = True
) -> QGraph:
    """One dense layer."""
    operator = dense(("x",), "y", (outputs, inputs))
    channels = {"x": inputs, "y": outputs}
    return graph_of((operator,), channels, ("y",), tokens=tokens, images=images, last=last)


def compiled(
    graph: QGraph, hw: HwConfig, board: Board | None, schedule: Schedule | None = None
) -> tuple[RegionExecutable, LayerGraph]:
    def schedule_of(workload: Workload) -> Schedule:
        return default_schedule(hw, workload) if schedule is None else schedule

    layers = layer_graph(graph, hw)
    return make_executable(graph, layers, hw, schedule_of, board), layers


def check_bits(executable: RegionExecutable, graph: QGraph, layers: LayerGraph) -> None:
    """Its results are those of its layers, whatever memory held; and no unit races another one."""
    (step,) = executable.steps
    program, hw, rng = step.program, step.program.hw, fresh_rng()
    data = int8_inputs(graph, rng)
    expected = evaluate(layers, data)
    memory = image_over_residue(program, data, rng)
    check_hazards(hw, program.program, memory)
    found = program.read_outputs(ReferenceDevice(hw).run(program.program, memory).memory)
    for buffer in program.outputs:
        name = buffer.tensor
        assert np.array_equal(found[name], expected[name])
    results, (ran,) = executable.run(ReferenceDevice(hw), [data[name] for name in graph.inputs])
    for name, result in zip(graph.outputs, results, strict=True):
        shape = graph.model_shapes.get(name, expected[name].shape)
        assert np.array_equal(result, from_normal_form(expected[name], shape))
        if name in executable.views:
            assert np.shares_memory(result, ran.memory)
        else:
            assert result.flags.c_contiguous


@pytest.mark.parametrize(
    ("array", "fusion", "threads", "order"),
    often(
        "schedules of logits",
        starmap(pytest.param, product(ARRAYS, Fusion, [(1, 1), (2, 1), (1, 2)], LoopOrder)),
        20,
    ),
)
def test_logits_lie_as_the_model_has_them_with_every_schedule(
    array: str, fusion: Fusion, threads: tuple[int, int], order: LoopOrder
) -> None:
    hw, graph = ARRAYS[array], logits()
    stored = input_block(hw) // hw.block_in
    for tile_h, tile_co in ((5, 1), (13, 2), (4, 3)):
        schedule = Schedule(
            tile_h=tile_h, tile_w=1, tile_ci=stored, tile_co=tile_co, h_threading=threads[0],
            oc_threading=threads[1], loop_order=order, fusion=fusion,
        )  # fmt: skip
        executable, layers = compiled(graph, hw, SLOW, schedule)
        assert executable.views == {"y"}
        check_bits(executable, graph, layers)
        assert executable.steps[0].program.layers[0].bytes_written == TOKENS * 48


def test_nothing_is_moved_to_hand_them_over() -> None:
    executable, _ = compiled(logits(), PYNQ, SLOW)
    program = executable.steps[0].program
    memory = program.program.image()
    (plain,) = program.read_outputs(memory).values()
    assert np.shares_memory(plain, memory)
    assert np.shares_memory(from_normal_form(plain, (1, TOKENS, 48)), memory)


def test_a_result_that_a_layer_reads_stays_in_blocks() -> None:
    first = dense(("x",), "y", (32, 16))
    second = dense(("y",), "z", (48, 32))
    graph = graph_of((first, second), {"x": 16, "y": 32, "z": 48}, ("y", "z"))
    executable, layers = compiled(graph, PYNQ, SLOW)
    assert executable.views == {"z"}
    check_bits(executable, graph, layers)


def added() -> QGraph:
    operator = dense(("x", "r"), "y", (48, 16))
    return graph_of((operator,), {"x": 16, "r": 48, "y": 48}, ("y",))


OTHERS = {
    "pixels are the last axis": lambda: logits(last=False),
    "channels fill no blocks": lambda: logits(46),
    "one pixel": lambda: logits(tokens=1),
    "two images": lambda: logits(images=2),
    "a residual lies in blocks": added,
}


@pytest.mark.parametrize("why", OTHERS)
def test_other_results_stay_in_blocks(why: str) -> None:
    graph = OTHERS[why]()
    executable, layers = compiled(graph, PYNQ, SLOW)
    (buffer,) = executable.steps[0].program.outputs
    assert buffer.block == PYNQ.block_out
    assert not executable.views
    check_bits(executable, graph, layers)


def test_an_output_in_order_is_read_but_not_written_anew() -> None:
    graph = logits()
    plain, _ = compiled(graph, PYNQ, None)
    ordered, _ = compiled(graph, PYNQ, SLOW)
    assert not plain.views
    spent = [region_seconds(each, BOARD.cpu) for each in (plain, ordered)]
    moved = TOKENS * 16, TOKENS * 48
    rate = BOARD.cpu.bytes_per_second
    assert spent[0] == pytest.approx(BOARD.cpu.call_seconds + 2 * sum(moved) / rate)
    assert spent[0] - spent[1] == pytest.approx(moved[1] / rate)


def image_of(channels: int, *, inputs: int = 16, free: bool = True) -> QGraph:
    """A 1x1 convolution of an image of 3 x 5 pixels, as a head of a detector ends."""
    shapes = {"x": (1, inputs, 3, 5), "y": (1, channels, 3, 5)}
    layer = dense(("x",), "y", (channels, inputs))
    return region_of((layer,), shapes, any_strides=frozenset("y" if free else ""))


def stacked() -> QGraph:
    """Heads of two scales, joined along the pixels: (1, 46, 21)."""
    shapes = {"x": (1, 16, 5, 3), "z": (1, 16, 2, 3), "x/head": (1, 46, 5, 3)}
    shapes |= {"z/head": (1, 46, 2, 3), "y": (1, 46, 7, 3)}
    heads = [dense((name,), f"{name}/head", (46, 16)) for name in "xz"]
    stack = QStack(name="stack", inputs=("x/head", "z/head"), output="y")
    return region_of(
        (*heads, stack), shapes, model_shapes={"y": (1, 46, 21)}, any_strides=frozenset("y")
    )


def head(channels: int, model_shape: tuple[int, ...] | None) -> QGraph:
    graph = image_of(channels)
    return graph if model_shape is None else replace(graph, model_shapes={"y": model_shape})


def tokens(channels: int, model_shape: tuple[int, ...]) -> QGraph:
    graph = logits(channels, tokens=15, last=False)
    return replace(graph, model_shapes={"y": model_shape}, any_strides=frozenset("y"))


VIEWS = {
    "an image, 46 of 48 channels": (lambda: head(46, None), 48),
    "an image, 48 channels": (lambda: head(48, None), 48),
    "an image, 12 of 16 channels": (lambda: head(12, None), 16),
    "pixels in a row": (lambda: head(46, (1, 46, 15)), 48),
    "tokens": (lambda: tokens(46, (1, 15, 46)), 48),
    "heads of attention": (lambda: tokens(46, (1, 2, 15, 23)), 48),
    "an image with channels last": (lambda: tokens(46, (1, 3, 5, 46)), 48),
    "heads of two scales": (stacked, 48),
}
"""By what it is: a result of a region, and the channels that its pixels have in memory."""


@pytest.mark.parametrize("array", ["pynq", *ARRAYS])
@pytest.mark.parametrize("what", VIEWS)
def test_results_of_any_strides_are_views_of_whole_pixels(what: str, array: str) -> None:
    graph, room = VIEWS[what][0](), VIEWS[what][1]
    hw = PYNQ if array == "pynq" else ARRAYS[array]
    executable, layers = compiled(graph, hw, SLOW)
    assert executable.views == {"y"}
    check_bits(executable, graph, layers)
    (buffer,) = executable.steps[0].program.outputs
    channels, pixels = buffer.shape[1], prod(buffer.shape[2:])
    blocks = -(-channels // hw.block_out) * hw.block_out
    assert buffer.nbytes == executable.viewed_bytes == pixels * blocks
    assert array != "pynq" or blocks == room
    data = [np.zeros(graph.tensors[name].shape, np.int8) for name in graph.inputs]
    (result,), _ = executable.run(ReferenceDevice(hw), data)
    assert sorted(set(result.strides))[0] == 1  # channels follow each other
    assert blocks in result.strides


def test_results_that_need_the_models_order_stay_in_blocks() -> None:
    for graph in (image_of(46, free=False), image_of(12, free=False)):
        executable, layers = compiled(graph, PYNQ, SLOW)
        assert not executable.views
        assert executable.steps[0].program.outputs[0].block == PYNQ.block_out
        check_bits(executable, graph, layers)


def test_arrays_of_two_rows_hand_out_copies() -> None:
    graph = image_of(46)
    for hw in (ROOMY.with_(batch=2), ROOMY.with_(batch=2, block_out=8)):
        executable, layers = compiled(graph, hw, SLOW)
        assert not executable.views
        data = fresh_rng().integers(-128, 128, (1, 16, 3, 5)).astype(np.int8)
        (found,), _ = executable.run(ReferenceDevice(hw), [data])
        assert np.array_equal(found, evaluate(layers, {"x": data})["y"])
        assert found.flags.c_contiguous


def test_a_result_of_few_channels_of_a_block_is_copied() -> None:
    """To read 16 bytes for 8 of them costs as much as a copy, and each reader would pay it."""
    for channels, seen in ((8, False), (9, True)):
        graph = image_of(channels)
        executable, layers = compiled(graph, PYNQ, SLOW)
        assert bool(executable.views) == seen
        check_bits(executable, graph, layers)


def test_a_view_is_read_with_what_fills_up_its_blocks() -> None:
    graph = image_of(46)
    copied, _ = compiled(graph, PYNQ, None)
    viewed, _ = compiled(graph, PYNQ, SLOW)
    spent = [region_seconds(each, BOARD.cpu) for each in (copied, viewed)]
    assert spent[0] - spent[1] == pytest.approx((2 * 46 - 48) * 15 / BOARD.cpu.bytes_per_second)


def test_parts_of_a_result_count_together() -> None:
    """What STORE loses in all layers that write a result is held against what the CPU saves."""
    for rate, seen in ((1e5, True), (1e12, False)):
        executable, _ = compiled(stacked(), PYNQ, with_cpu(rate), Schedule(
            tile_h=1, tile_w=3, tile_ci=1, tile_co=1
        ))  # fmt: skip
        assert bool(executable.views) == seen


def cycles(graph: QGraph, board: Board | None, schedule: Schedule) -> int:
    executable, _ = compiled(graph, PYNQ, board, schedule)
    return time_layers(executable.steps[0].program, BOARD.memory)[0].cycles


def test_rows_of_a_burst_cost_no_cycles() -> None:
    graph = logits(512, 64, tokens=64)
    schedule = Schedule(tile_h=64, tile_w=1, tile_ci=4, tile_co=8, oc_threading=2)
    assert cycles(graph, SLOW, schedule) <= 1.01 * cycles(graph, None, schedule)


def test_the_cost_decides_where_rows_are_short() -> None:
    graph = logits(512, 16, tokens=64)
    schedule = Schedule(tile_h=64, tile_w=1, tile_ci=1, tile_co=1, oc_threading=2)
    blocks, in_order = (cycles(graph, board, schedule) for board in (None, SLOW))
    lost = (in_order - blocks) / (BOARD.clock_mhz * 1e6)
    assert in_order > 1.5 * blocks
    even = 64 * 512 / lost  # a CPU of this rate saves as much as STORE loses
    for rate, expected in ((even / 2, True), (even * 2, False)):
        executable, _ = compiled(graph, PYNQ, with_cpu(rate), schedule)
        assert ("y" in executable.views) == expected


@pytest.mark.parametrize(
    ("shape", "model_shape", "last"),
    [
        ((1, 6, 4, 1), (1, 4, 6), True),
        ((1, 6, 4, 1), (1, 6, 4), False),
        ((1, 4, 4, 1), (1, 4, 4), True),
        ((1, 6, 4, 1), (1, 2, 2, 6), True),
        ((1, 6, 4, 1), (1, 2, 4, 3), False),
        ((1, 6, 2, 2), (1, 6, 4), False),
        ((1, 6, 2, 2), (1, 6, 2, 2), False),
        ((1, 6, 1, 1), (1, 6), False),
    ],
)
def test_channels_are_last_where_an_array_is_the_tensor_turned(
    shape: tuple[int, ...], model_shape: tuple[int, ...], last: bool
) -> None:
    data = np.arange(np.prod(shape), dtype=np.int8).reshape(shape)
    array = from_normal_form(data, model_shape)
    turned = np.moveaxis(data, 1, 3).reshape(model_shape)
    assert is_channels_last(shape, model_shape) == last
    if shape[2] > 1:
        assert np.array_equal(array, turned) == last


def test_an_array_that_no_rule_leads_to_is_refused() -> None:
    data = np.zeros((1, 6, 2, 2), np.int8)
    for model_shape in ((1, 4, 6), (1, 2, 2, 6)):
        with pytest.raises(WorkloadError, match="has no rule that leads to it"):
            from_normal_form(data, model_shape)
