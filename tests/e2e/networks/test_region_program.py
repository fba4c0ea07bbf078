# SPDX-License-Identifier: Apache-2.0
"""Regions of networks: real arithmetic, integer layers and one program on the devices agree."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from e2e.test_lowering_on_rtl import MEMORIES, device_of
from support.networks import qgraphs
from support.networks.qgraph_floats import apply, dequantised
from support.programs.hazards import check_hazards
from support.randomness import generator, sample, where

from tilewright.host.common.errors import ScheduleError, WorkloadError
from tilewright.host.compiler.lower.fuse import fuse
from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.lower.layers import layer_graph
from tilewright.host.compiler.lower.lower_executable import make_executable
from tilewright.host.compiler.lower.qgraph import QLayerNorm, QReshape, QSoftmax, from_normal_form
from tilewright.host.compiler.lower.region import as_computed
from tilewright.host.lowering import default_schedule
from tilewright.host.machine.hwconfig import load_hwconfig, named_configs
from tilewright.host.network.layout import output_block
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.verify.randconfig import any_hwconfig


def layers_of(graph, hw, *, keep_rounding=False):
    fused = fuse(graph, keep_rounding=keep_rounding)
    return fused, layer_graph(fused, hw)


ROUNDING = 0.2
"""Steps: what multipliers of 15 bits and rounded biases add to the half step of a rounding."""


SLACK = {QSoftmax: 0.5, QLayerNorm: 2.0}
"""The same of functions of rows (`docs/explanation/rows.md`), of rows of few steps too."""


def check_integers(fused, layers, values, facts, *, keep_rounding=False):
    """Each operator on the integers that reach it, in real arithmetic: at most a step apart."""

    def stored(name):
        """A tensor of the model as it is stored: parts have scales of their own, or the whole's."""
        at = layers.lies.get(name)
        if at is None or not at.scales:
            tensor = layers.tensors[name if at is None else at.tensor]
            return SimpleNamespace(scale=tensor.scale, zero_point=tensor.zero_point)
        scale, zero_point = (np.array(c)[None, :, None, None] for c in zip(*at.scales, strict=True))
        return SimpleNamespace(scale=scale, zero_point=zero_point)

    for operator in fused.operators:
        tensor, got = stored(operator.output), values[operator.output]
        own = fused.tensors[operator.output]
        if keep_rounding and operator.lookup is None:
            tensor = own
        real = [dequantised(stored(n), values[n]) for n in operator.inputs]
        if isinstance(operator, QReshape):
            continue
        rounded = tensor if operator.lookup is None else operator.lookup
        exact = apply(operator, real)
        if fused.saturates and operator.lookup is None:
            exact = np.clip(exact, own.real(-128), own.real(127))
        steps = np.clip(exact / rounded.scale + rounded.zero_point, -128, 127)
        if operator.lookup is not None:
            near = [np.rint(steps + d).clip(-128, 127).astype(int) for d in (-ROUNDING, ROUNDING)]
            real = [dequantised(own, operator.lookup.entries[index + 128]) for index in near]
            steps = [np.clip(x / tensor.scale + tensor.zero_point, -128, 127) for x in real]
            gap = np.minimum(*(np.abs(x - got) for x in steps))
        else:
            gap = np.abs(steps - got)
        slack = SLACK.get(type(operator), ROUNDING)
        assert gap.max() <= 0.5 + slack, f"{operator.name}: {gap.max()}: {facts}"


def check_region(device, graph, inputs, facts, *, keep_rounding=False):
    """Real, integer and device results of one region; returns the executable."""
    hw = device.hw
    fused, layers = layers_of(graph, hw, keep_rounding=keep_rounding)
    expected = evaluate(layers, inputs)
    check_integers(fused, layers, expected, facts, keep_rounding=keep_rounding)
    executable = make_executable(graph, layers, hw, lambda w: default_schedule(hw, w))
    outputs, _ = executable.run(device, [inputs[name] for name in graph.inputs])
    for name, got in zip(graph.outputs, outputs, strict=True):
        shape = graph.tensors[name].shape
        assert np.array_equal(got, from_normal_form(expected[name], shape)), f"{name}: {facts}"
    return executable


def draw_fitting(rng, *, zero_points, fixed=None, draw=qgraphs.draw_cnn, **options):
    """A configuration, and a region whose layers have a schedule on it."""
    while True:
        hw = fixed or any_hwconfig(rng).with_(**options)
        graph, inputs = draw(rng, output_block(hw), zero_points=zero_points)
        graph = replace(graph, saturates=bool(rng.integers(2)))
        try:
            for layer in layers_of(graph, hw)[1].layers:
                default_schedule(hw, as_computed(hw, layer, from_host=False))
                default_schedule(hw, layer.workload)
        except (ScheduleError, WorkloadError) as error:  # buffers too small for a kernel or a row
            if isinstance(error, WorkloadError) and "must fit ACC" not in str(error):
                raise
            continue
        return hw, graph, inputs


@pytest.mark.parametrize("number", sample(12, 400))
def test_random_regions_on_random_configurations_equal_their_layers(number):
    hw, graph, inputs = draw_fitting(generator(f"region {number}"), zero_points=bool(number % 2))
    facts = where(hw=hw, number=number)
    executable = check_region(ReferenceDevice(hw), graph, inputs, facts)
    for step in executable.steps:
        operands = {w.inner: None for w in step.reads}
        if set(operands) <= set(inputs):
            image = step.program.image({name: inputs[name] for name in operands})
            check_hazards(hw, step.program.program, image)


@pytest.mark.parametrize("number", sample(12, 400))
def test_random_splits_and_shuffles_on_random_configurations_equal_their_layers(number):
    rng = generator(f"channels {number}")
    hw, graph, inputs = draw_fitting(rng, zero_points=bool(number % 2), draw=qgraphs.draw_channels)
    check_region(ReferenceDevice(hw), graph, inputs, where(hw=hw, number=number))


@pytest.mark.parametrize("number", sample(12, 400))
def test_random_tables_and_rows_on_random_configurations_equal_their_layers(number):
    """Between joins and shuffles of channels, of one image or two, fused or as the model rounds."""
    rng = generator(f"functions {number}")
    options = {"draw": qgraphs.draw_functions, "activation_table": 1, "row_unit": 1}
    hw, graph, inputs = draw_fitting(rng, zero_points=bool(number % 2), **options)
    keep = bool(number // 2 % 2)
    facts = where(hw=hw, number=number)
    check_region(ReferenceDevice(hw), graph, inputs, facts, keep_rounding=keep)


@pytest.mark.parametrize("number", sample(2, 40))
def test_splits_and_shuffles_on_the_rtl_equal_the_reference_bit_by_bit(number):
    rng = generator(f"channels on rtl {number}")
    fixed = load_hwconfig("tiny-4x4")
    hw, graph, inputs = draw_fitting(rng, zero_points=True, fixed=fixed, draw=qgraphs.draw_channels)
    with device_of(hw, MEMORIES[number % 2]) as device:
        check_region(device, graph, inputs, where(hw=hw, number=number))


@pytest.mark.slow
@pytest.mark.parametrize("number", sample(4, 40))
def test_tables_and_rows_on_the_rtl_equal_the_reference_bit_by_bit(number):
    rng = generator(f"functions on rtl {number}")
    fixed = load_hwconfig("tiny-4x4").with_(activation_table=1, row_unit=1)
    hw, graph, inputs = draw_fitting(
        rng, zero_points=True, fixed=fixed, draw=qgraphs.draw_functions
    )
    with device_of(hw, MEMORIES[number % 2]) as device:
        check_region(device, graph, inputs, where(hw=hw, number=number))


@pytest.mark.parametrize("number", sample(3, 60))
@pytest.mark.parametrize("name", ["tiny-4x4", "edge-8x8", "4x8", "8x4"])
def test_attention_runs_on_the_accelerator(name, number):
    rng = generator(f"attention {name} {number}")
    tiny = load_hwconfig("tiny-4x4")
    rectangles = {"4x8": tiny.with_(block_out=8), "8x4": tiny.with_(block_in=8)}
    hw = rectangles.get(name) or load_hwconfig(name)
    graph, inputs = qgraphs.draw_attention(rng, hw.block_in)
    check_region(ReferenceDevice(hw), graph, inputs, where(hw=hw))


@pytest.mark.parametrize("number", sample(3, 40))
def test_regions_on_the_rtl_equal_the_reference_bit_by_bit(number):
    rng = generator(f"region on rtl {number}")
    fixed = load_hwconfig("tiny-4x4")
    hw, graph, inputs = draw_fitting(rng, zero_points=bool(number % 2), fixed=fixed)
    with device_of(hw, MEMORIES[number % 2]) as device:
        check_region(device, graph, inputs, where(hw=hw, number=number))


@pytest.mark.parametrize("name", named_configs())
def test_every_named_configuration_runs_a_region(name):
    rng = generator(f"named {name}")
    hw, graph, inputs = draw_fitting(rng, zero_points=False, fixed=load_hwconfig(name))
    executable = check_region(ReferenceDevice(hw), graph, inputs, where(hw=hw))
    assert (len(executable.steps) == 1) == (hw.batch == 1 or hw.block_in == hw.block_out)


def test_kept_rounding_keeps_the_scales_of_what_is_joined():
    maker = qgraphs.GraphMaker(generator("joined rounding"), (1, 9, 6, 6))
    joined = maker.concat(maker.conv("x0", 4), maker.conv("x0", 8))
    graph, inputs = maker.graph(maker.conv(joined, 3)), maker.arguments()
    hw = load_hwconfig("tiny-4x4")
    kept, layers = layers_of(graph, hw, keep_rounding=True)
    assert len(layers.layers) == 5  # each part is copied
    check_integers(kept, layers, evaluate(layers, inputs), where(hw=hw), keep_rounding=True)
    assert len(layers_of(graph, hw)[1].layers) == 3


def test_kept_rounding_gives_the_integers_of_the_model():
    maker = qgraphs.GraphMaker(generator("rounding"), (1, 9, 6, 6))
    conv = maker.conv("x0", 9, 3, pad=1)
    graph = maker.graph(maker.rescale(maker.add(conv, "x0"), (0.0, None)))
    narrow = replace(graph.tensors[conv], scale=graph.tensors[conv].scale / 8)  # it saturates
    graph, inputs = replace(graph, tensors={**graph.tensors, conv: narrow}), maker.arguments()
    hw = load_hwconfig("tiny-4x4")
    kept, layers = layers_of(graph, hw, keep_rounding=True)
    assert len(layers.layers) == 3
    check_integers(kept, layers, evaluate(layers, inputs), where(hw=hw))
    # The residual of a float model is added before any rounding. That of a quantised one is added
    # to what saturates first.
    assert len(layers_of(replace(graph, saturates=False), hw)[1].layers) == 1
    assert len(layers_of(graph, hw)[1].layers) == 2
    assert kept.outputs == graph.outputs


def test_activations_share_memory_and_nothing_that_is_needed_is_overwritten():
    rng = generator("arena")
    hw = load_hwconfig("edge-8x8")
    maker = qgraphs.GraphMaker(rng, (1, 8, 12, 12))
    x = "x0"
    for _ in range(6):
        x = maker.conv(x, 8, 3, pad=1)
    graph = maker.graph(x)
    executable = check_region(ReferenceDevice(hw), graph, maker.arguments(), where(hw=hw))
    program = executable.steps[0].program
    one = 12 * 12 * 8
    assert program.program.regions["activations"].nbytes < 3 * (one + 4096)
    assert program.program.regions["activations"].nbytes == program.activation_peak


def test_an_input_that_is_folded_may_be_the_residual_of_its_layer():
    """A layer of few channels takes its data with several pixels in a block, its residual plain."""
    rng = generator("folded residual")
    hw = load_hwconfig("pynq-16x16")
    maker = qgraphs.GraphMaker(rng, (1, 3, 6, 6))
    graph = maker.graph(maker.conv("x0", 3, 3, pad=1, residual="x0"))
    check_region(ReferenceDevice(hw), graph, maker.arguments(), where(hw=hw))
