# SPDX-License-Identifier: Apache-2.0
"""Compiled networks of tensors that saturate give what ONNX Runtime gives for the same file.

The reference is ONNX Runtime without optimisations on the file that the compiler reads: no part of
the compiler has a share in it. Fusing leaves roundings out, so results may differ as they do when
the roundings of the file are dithered by half a step, and by `SLACK` beyond that.
"""

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnxruntime import quantization
from support.networks.compiled_runs import run_compiled
from support.networks.qdq_models import dithered, float_model, quantised_model
from support.networks.qdq_runs import Samples, run_all
from support.randomness import generator, sample, where

from tilewright.host.compiler.pipeline import Compilation, compile_model
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions, QuantiseOptions
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig

DITHERS = 6
SPREAD = 1.0
"""Times the largest change that dithering makes."""
SLACK = 1.0
"""Steps of a result: a tie, and what multipliers of 15 bits and rounded biases add."""
FLOAT_SHARE = 0.1
"""Root mean square error of an int8 network, of the largest result of its float model."""
AS_THEIRS = 1.25
"""Or times the error of ONNX Runtime's int8 form, where that is larger."""


def step_of(model: onnx.ModelProto, name: str, values: np.ndarray) -> float:
    """The step of a result; of one that is not quantised, what 256 steps would leave it."""
    (writer,) = (node for node in model.graph.node if name in node.output)
    if writer.op_type != "DequantizeLinear":
        return max(float(np.ptp(values)), 1e-3) / 255
    scales = {each.name: each for each in model.graph.initializer}
    return float(numpy_helper.to_array(scales[writer.input[1]]))


def errors_and_limits(compilation, model, x, rng):
    """By result: the largest difference in steps, and the largest that roundings explain."""
    got, want = run_compiled(compilation, {"x": x}), run_all(model, {"x": x})
    dithers = [run_all(dithered(model, rng), {"x": x}) for _ in range(DITHERS)]
    found = {}
    for name in got:
        step = step_of(model, name, want[name])
        error = np.abs(got[name] - want[name]).max() / step
        moved = max(np.abs(each[name] - want[name]).max() for each in dithers) / step
        found[name] = float(error), SLACK + SPREAD * float(moved)
    return found


def compiled(model: onnx.ModelProto, rng: np.random.Generator, **options) -> Compilation:
    hw = load_hwconfig("pynq-16x16-rows" if rng.random() < 0.5 else "edge-8x8")
    hw = replace(hw, activation_table=1)
    return compile_model(model, hw, load_board("pynq-z2"), offload_all=True, **options)


def assert_as_onnxruntime(model, x, rng, facts: str, **options) -> None:
    compilation = compiled(model, rng, **options)
    assert any(each.where == "accelerator" for each in compilation.network.placements), facts
    for name, (error, limit) in errors_and_limits(compilation, model, x, rng).items():
        assert error <= limit, f"{name}: {error} steps, not {limit}: {facts}"


@pytest.mark.parametrize("number", sample(6, 6000))
def test_fused_networks_give_the_results_of_their_file(number) -> None:
    rng = generator(f"saturation {number}")
    model, x = quantised_model(rng)
    assert_as_onnxruntime(model, x, rng, where(number=number))


@pytest.mark.parametrize("number", sample(4, 400))
def test_kept_roundings_give_the_results_of_the_file(number) -> None:
    rng = generator(f"saturation kept {number}")
    model, x = quantised_model(rng)
    assert_as_onnxruntime(model, x, rng, where(number=number), keep_rounding=True)


def quantised_by_onnxruntime(model: onnx.ModelProto, samples, folder, **options) -> onnx.ModelProto:
    """What ONNX Runtime's own quantiser makes of a float model."""
    onnx.save(model, folder / "float.onnx")
    quantization.quantize_static(
        folder / "float.onnx",
        folder / "static.onnx",
        Samples(samples),
        weight_type=quantization.QuantType.QInt8,
        extra_options={"ForceQuantizeNoInputCheck": True, "WeightSymmetric": True},
        **options,
    )
    return onnx.load(folder / "static.onnx")


@pytest.mark.parametrize("number", sample(2, 1000))
def test_files_of_onnxruntimes_quantiser_give_their_results(number, tmp_path) -> None:
    """Its defaults leave a Relu to the saturation of the tensor behind it."""
    rng = generator(f"saturation static {number}")
    model, samples = float_model(rng)
    kinds = [quantization.QuantType.QInt8, quantization.QuantType.QUInt8]
    static = quantised_by_onnxruntime(
        model,
        samples[2:],
        tmp_path,
        activation_type=kinds[rng.integers(2)],
        per_channel=bool(rng.integers(2)),
    )
    # inputs beyond those of the calibration: the file clips them
    assert_as_onnxruntime(static, 1.5 * samples[:1], rng, where(number=number))


def rms(found: np.ndarray, real: np.ndarray) -> float:
    return float(np.sqrt(np.mean((found - real) ** 2)))


@pytest.mark.parametrize("number", sample(5, 1000))
def test_asymmetric_ranges_lose_no_activation_of_a_float_model(number, tmp_path) -> None:
    """A network that eight bits do not do for is as far off as ONNX Runtime's own int8 form."""
    rng = generator(f"saturation float {number}")
    model, samples = float_model(rng)
    compilation = compiled(
        model,
        rng,
        calibration=Calibration(arrays={"x": samples}),
        options=ImportOptions(quantise=QuantiseOptions(asymmetric=True)),
    )
    inputs = {"x": samples[:1]}
    got, want = run_compiled(compilation, inputs), run_all(model, inputs)
    limits = {name: FLOAT_SHARE * max(np.abs(want[name]).max(), 1e-3) for name in got}
    if any(rms(got[name], want[name]) > limits[name] for name in got):
        uint8 = quantization.QuantType.QUInt8
        static = quantised_by_onnxruntime(
            model, samples, tmp_path, activation_type=uint8, per_channel=True
        )
        theirs = run_all(static, inputs)
        limits = {n: max(limits[n], AS_THEIRS * rms(theirs[n], want[n])) for n in got}
    for name in got:
        error = rms(got[name], want[name])
        assert error <= limits[name], f"{name}: {error}, not {limits[name]}: {where(number=number)}"
