# SPDX-License-Identifier: Apache-2.0
"""Networks with weights of 4 bits: half the bytes, and the bits of the integer definition."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from support.networks.compiled_runs import assert_bits_of_its_layers
from support.networks.small_models import Model, noise

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.pack.artefact import load, save
from tilewright.host.compiler.pipeline import Compilation, compile_model
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions, QuantiseOptions
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig

TINY = load_hwconfig("tiny-4x4")
NARROW = TINY.with_(int4_weights=1)
SCALED = TINY.with_(int4_weights=2, block_out=16, wgt_bytes=16384)
DIGITS = onnx.load(Path(__file__).resolve().parents[5] / "examples" / "digits" / "digits.onnx")


def compiled(hw: HwConfig, layers: str, proto: onnx.ModelProto = DIGITS) -> Compilation:
    return compile_model(
        proto,
        hw,
        load_board("pynq-z2"),
        calibration=Calibration(random_samples=4),
        options=ImportOptions(
            quantise=QuantiseOptions(int4_weights=layers)  # type: ignore[arg-type]  # a test's list
        ),
        offload_all=True,
    )


def weight_bytes(done: Compilation) -> int:
    steps = [step for region in done.network.regions for step in region.steps]
    return sum(step.program.program.regions["weights"].nbytes for step in steps)


@pytest.mark.parametrize("hw", [NARROW, SCALED], ids=["plain", "with scales"])
@pytest.mark.parametrize("layers", ["dense", "all"])
def test_a_network_runs_with_its_bits_and_reads_fewer_bytes(
    layers: str, hw: HwConfig, tmp_path: Path
) -> None:
    done, plain = compiled(hw, layers), compiled(hw, "none")
    narrow = {
        layer.workload.name: layer.workload.weight_bits
        for graph in done.layers
        for layer in graph.layers
        if layer.workload.kind.weighs
    }
    assert 4 in narrow.values()
    assert (8 in narrow.values()) == (layers == "dense" or hw is SCALED)
    if hw is SCALED:
        largest = max(np.abs(layer.weights).max() for layer in done.layers[0].layers
                      if layer.workload.weight_bits == 4)  # fmt: skip
        assert largest > 8
    assert weight_bytes(done) < weight_bytes(plain)
    save(done.network, tmp_path / "digits.tw")
    data = noise(done.imported, np.random.default_rng(0))
    assert_bits_of_its_layers(done, data, load(tmp_path / "digits.tw"))


WIDE = load_hwconfig("pynq-16x16").with_(int4_weights=2)


def _flat(model: Model) -> str:
    """A dense layer on an input of the model that is made flat."""
    y = model.add("Flatten", model.input(1, 1, 28, 28))
    y = model.add("Gemm", y, model.weights(40, 784), model.weights(40), transB=1)
    return model.add("Gemm", model.add("Relu", y), model.weights(10, 40), transB=1)


def _behind_relu(model: Model) -> str:
    """A dense layer on an image that was made flat before a ReLU."""
    y = model.add("Conv", model.input(1, 16, 8, 8), model.weights(24, 16, 3, 3))
    y = model.add("Relu", model.add("Flatten", y))
    return model.add("Gemm", y, model.weights(864, 40), model.weights(40))


def _few_channels(model: Model) -> str:
    """Convolutions of few channels, of the model's input, which folds its kernel columns, too."""
    y = model.add("Relu", model.add("Conv", model.input(1, 1, 28, 28), model.weights(6, 1, 5, 5)))
    return model.add("Conv", y, model.weights(16, 6, 5, 5))


def _sequence(model: Model) -> str:
    """A convolution over one axis, and a dense layer on all of it."""
    y = model.add("Relu", model.add("Conv", model.input(1, 16, 32), model.weights(24, 16, 3)))
    return model.add("Gemm", model.add("Flatten", y), model.weights(10, 720), transB=1)


def _dead_channel(model: Model) -> str:
    """A channel that is a bias, and one that is nothing."""
    weights = 0.1 * np.random.default_rng(3).normal(size=(32, 16, 3, 3))
    weights[5], weights[6] = 1e-7 * weights[5], 1e-44
    bias = np.zeros(32, np.float32)
    bias[5] = 0.8
    return model.add("Conv", model.input(1, 16, 8, 8), weights.astype(np.float32), bias)


def _unaligned(model: Model) -> str:
    """A convolution that reads two results between which channels are missing in DRAM."""
    x = model.input(1, 16, 8, 8)
    parts = [model.add("Relu", model.add("Conv", x, model.weights(24, 16, 1, 1))) for _ in range(2)]
    return model.add("Conv", model.add("Concat", *parts, axis=1), model.weights(16, 48, 1, 1))


@pytest.mark.parametrize(
    ("build", "kept", "whole"),
    [(_flat, [], []), (_behind_relu, [], []), (_few_channels, [], ["conv0"]), (_sequence, [], []),
     (_dead_channel, [], []), (_unaligned, ["conv5"], ["conv5"])],
)  # fmt: skip
def test_layers_are_packed_or_keep_8_bits(
    build: Callable[[Model], str], kept: list[str], whole: list[str]
) -> None:
    """A layer that would stay int8 in DRAM does not lose accuracy to 4 bits."""
    model = Model(np.random.default_rng(2))
    proto = onnx.shape_inference.infer_shapes(model.proto(build(model)))
    narrow = compiled(WIDE, "all", proto)
    assert narrow.network.conditions["int4_kept"] == kept
    codes = [code for program in narrow.network.programs for code in program.layers]
    bits = {name: code.workload.weight_bits for code in codes for name in code.operators
            if code.workload.kind.weighs}  # fmt: skip
    assert {name for name, count in bits.items() if count == 8} == set(whole)
    assert 4 in bits.values()
    whole_model = compiled(WIDE, "none", proto)
    int8 = {layer.name: layer.weights for graph in whole_model.layers for layer in graph.layers}
    for graph in narrow.layers:
        for layer in graph.layers:
            if layer.name in whole:
                assert np.array_equal(layer.weights, int8[layer.name])


def test_hardware_whose_scales_save_nothing_refuses_them() -> None:
    with pytest.raises(WorkloadError, match="in 16 bytes, and int8 in 16"):
        compiled(TINY.with_(int4_weights=2), "dense")


def test_hardware_that_does_not_unpack_them_refuses_them() -> None:
    with pytest.raises(WorkloadError, match="keeps weights with 8 bits") as caught:
        compiled(TINY, "dense")
    assert "int4_weights: 1" in caught.value.remedy
