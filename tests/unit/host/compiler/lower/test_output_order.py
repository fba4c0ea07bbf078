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
)
from tilewright.host.lowering import default_schedule
from tilewright.host.machine.board import Board, load_board
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.network.layout import input_block
from tilewright.host.network.schedule import Fusion, LoopOrder, Schedule
from tilewright.host.network.workload import Workload
from tilewright.sim.reference.device import ReferenceDevice

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


def test_parts_of_a_result_count_together() -> None:
    """What STORE loses in all layers that write a result is held against what the CPU saves."""
    for rate, seen in ((1e5, True), (1e12, False)):
        executable, _ = compiled(stacked(), PYNQ, with_cpu(rate), Schedule(
            tile_h=1, tile_w=3, tile_ci=1, tile_co=1
        ))  # fmt: skip
        assert bool(executable.views) == seen


def test_an_array_that_no_rule_leads_to_is_refused() -> None:
    data = np.zeros((1, 6, 2, 2), np.int8)
    for model_shape in ((1, 4, 6), (1, 2, 2, 6)):
        with pytest.raises(WorkloadError, match="has no rule that leads to it"):
            from_normal_form(data, model_shape)
