# SPDX-License-Identifier: Apache-2.0
"""Windows of any kernel, dilation and padding run on the accelerator, with the bits of the model.

Expected values are those of ONNX Runtime on the same quantised model.
"""

import numpy as np
import pytest
from support.networks.compiled_runs import run_compiled
from support.networks.qdq_runs import run_all
from support.networks.small_models import Model
from support.randomness import generator, sample

from tilewright.host.compiler.pipeline import compile_model
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.workload import Kind

HW, BOARD = load_hwconfig("tiny-4x4"), load_board("pynq-z2")
INPUT, STEP = 0.05, 0.08


def window(model: Model, x: str, kind: str, channels: int, sides: tuple[int, int]) -> str:
    """A window of any reach on an image; its result is quantised."""
    rng = model.rng
    kernel = [int(n) for n in rng.choice([1, 2, 3, 5, 9, 17], 2)]
    if kind != "depthwise" or np.prod(kernel) > HW.wgt_depth:
        kernel = [min(n, 9) for n in kernel]
    dilations = [int(rng.choice([1, 2, 7, 12, 24, 36])) for _ in range(2)]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    if kind == "MaxPool":
        before = [int(rng.integers(0, k)) for k in kernel]
        behind = [max(r - n - b, 0) for r, n, b in zip(reach, sides, before, strict=True)]
        if any(b >= k for b, k in zip(behind, kernel, strict=True)):
            dilations = [1, 1]
            kernel = [min(k, n) for k, n in zip(kernel, sides, strict=True)]
            before, behind = ([int(rng.integers(0, k)) for k in kernel] for _ in range(2))
    else:
        before = [int(rng.integers(0, r)) for r in reach]
        behind = [max(r - n - b, int(rng.integers(0, r))) for r, n, b in
                  zip(reach, sides, before, strict=True)]  # fmt: skip
    attributes = {
        "pads": [*before, *behind],
        "strides": [int(n) for n in rng.integers(1, 4, 2)],
        "dilations": dilations,
    }
    if kind == "MaxPool":
        return model.add("MaxPool", x, kernel_shape=kernel, **attributes)
    shape = (channels, 1 if kind == "depthwise" else channels, *kernel)
    weights = model.constant(rng.integers(-128, 128, shape).astype(np.int8))
    scale = np.float32(1 / 128 / max(np.prod(shape[1:]), 1) ** 0.5)
    real = model.add("DequantizeLinear", weights, scale, np.int8(0))
    group = channels if kind == "depthwise" else 1
    y = model.add("Conv", x, real, group=group, **attributes)
    return model.quantised(y, STEP, int(rng.integers(-20, 20)))


@pytest.mark.parametrize("kind", ["conv", "depthwise", "MaxPool"])
@pytest.mark.parametrize("number", sample(3, 12))
def test_windows_of_any_reach_have_the_bits_of_the_model(kind: str, number: int) -> None:
    rng = generator(f"reach {kind} {number}")
    model, channels = Model(rng), 8
    sides = (int(rng.integers(3, 34)), int(rng.integers(3, 34)))
    x = model.quantised(model.input(1, channels, *sides), INPUT, int(rng.integers(-20, 20)))
    y = window(model, x, kind, channels, sides)
    if kind == "MaxPool":
        zero = model.nodes[-2].input[2]
        numbers = model.constant(np.float32(INPUT)), zero
        y = model.add("DequantizeLinear", model.add("QuantizeLinear", y, *numbers), *numbers)
    proto = model.proto(y)
    compilation = compile_model(proto, HW, BOARD, offload_all=True)
    places = {p.kind: p.reason for p in compilation.network.placements if p.where == "cpu"}
    assert not places
    inputs = {"x": rng.normal(0, 3, (1, channels, *sides)).astype(np.float32)}
    (found,) = run_compiled(compilation, inputs).values()
    expected = run_all(proto, inputs)[y]
    errors = np.rint(np.abs(found - expected) / (INPUT if kind == "MaxPool" else STEP))
    assert errors.max() <= (0 if kind == "MaxPool" else 1)  # a tie may fall the other way
    assert (errors != 0).mean() <= 0.02


def test_dilated_pools_of_several_images_are_the_cpus() -> None:
    rng = generator("dilated pools")
    model = Model(rng)
    x = model.quantised(model.input(2, 8, 9, 9), INPUT)
    weights = model.constant(rng.integers(-128, 128, (8, 8, 1, 1)).astype(np.int8))
    real = model.add("DequantizeLinear", weights, np.float32(0.01), np.int8(0))
    x = model.add("Conv", x, real)
    pool = model.add("MaxPool", model.quantised(x, STEP), kernel_shape=[3, 3], dilations=[1, 2])
    y = model.quantised(pool, STEP)
    compilation = compile_model(model.proto(y), HW, BOARD, offload_all=True)
    left = {placed.kind for placed in compilation.network.placements if placed.where == "cpu"}
    assert "MaxPool" in left
    inputs = {"x": rng.normal(size=(2, 8, 9, 9)).astype(np.float32)}
    (found,) = run_compiled(compilation, inputs).values()
    errors = np.rint(np.abs(found - run_all(model.proto(y), inputs)[y]) / STEP)
    assert errors.max() <= 1


def test_rows_of_a_kernel_that_read_padding_cost_nothing() -> None:
    rng = generator("idle taps")
    model = Model(rng)
    x = model.quantised(model.input(1, 8, 9, 9), INPUT)
    weights = model.constant(rng.integers(-128, 128, (8, 8, 3, 3)).astype(np.int8))
    real = model.add("DequantizeLinear", weights, np.float32(0.001), np.int8(0))
    y = model.add("Conv", x, real, dilations=[12, 12], pads=[12] * 4)
    compilation = compile_model(model.proto(model.quantised(y, STEP)), HW, BOARD, offload_all=True)
    (layer,) = (
        layer
        for graph in compilation.layers
        for layer in graph.layers
        if layer.workload.kind is Kind.CONV2D
    )
    assert layer.workload.weight_shape == (8, 8, 1, 1)
    assert layer.workload.pad_top == 0
