# SPDX-License-Identifier: Apache-2.0
"""Models that once gave wrong results or were refused without the true reason, from files.

They lie beside a checkout, if they are there at all. `test_saturation` and the tests of each pass
draw members of the same kinds.
"""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from support.networks.compiled_runs import beside_a_layer, run_compiled
from support.networks.onnx_results import drawn_inputs
from support.networks.qdq_runs import run_all
from support.networks.qgraph_floats import FloatRegions

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.pipeline import compile_model, partition
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions, QuantiseOptions
from tilewright.host.compiler.run.relax_host import HostProgram
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig

WRONG = Path(__file__).parents[5] / "shared" / "cases" / "wrong"
pytestmark = pytest.mark.skipif(not WRONG.is_dir(), reason="the cases are not there")

QUANTISED = {
    "add-of-saturated/q_add_scales": 0.0,
    "ort-quantised-darknet-relu/z_darknet_relu_qdq_s8_default": 0.02,
    "ort-quantised-darknet-relu/z_darknet_relu_qdq_u8_pc": 0.02,
    "requantised-clip/e_requant_clip": 0.04,
    "uint8-to-int8/e_mixed_types": 0.01,
}
"""Share of the largest result that may differ: one or two steps."""

FLOAT = {
    "asymmetric-relu-concat/asym_relu_concat": True,
    "gemm-c-matrix/e_gemm_c_matrix": False,
    "gemm-c-matrix/f_gemm_c_column": False,
    "input-named-like-quantiser/G08_stated": False,
    "input-named-like-quantiser/e_input_named_scale": False,
}
"""Whether they are quantised with zero points."""


def inputs_of(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {name: 2 * x for name, x in drawn_inputs(model, np.random.default_rng(0)).items()}


def compiled(model, **options):
    hw = load_hwconfig("pynq-16x16-rows")
    return compile_model(model, hw, load_board("pynq-z2"), offload_all=True, **options)


def assert_near(found, expected, share: float) -> None:
    for name, array in found.items():
        limit = share * np.abs(expected[name]).max()
        assert np.abs(array - expected[name]).max() <= limit + 1e-6, name


@pytest.mark.parametrize("name", QUANTISED)
def test_saturation_is_kept(name) -> None:
    model = onnx.load(WRONG / f"{name}.onnx")
    inputs = inputs_of(model)
    assert_near(run_compiled(compiled(model), inputs), run_all(model, inputs), QUANTISED[name])


@pytest.mark.parametrize("name", FLOAT)
def test_float_models_give_their_results(name) -> None:
    model = onnx.load(WRONG / f"{name}.onnx")
    inputs = inputs_of(model)
    options = ImportOptions(quantise=QuantiseOptions(asymmetric=FLOAT[name]))
    compilation = compiled(model, calibration=Calibration(arrays=inputs), options=options)
    assert_near(run_compiled(compilation, inputs), run_all(model, inputs), 0.02)


def test_an_asymmetric_relu_before_an_addition_is_kept() -> None:
    folder = WRONG / "asymmetric-relu-before-add"
    model = onnx.load(folder / "block.onnx")
    x, expected = (np.load(folder / f"{name}.npy") for name in ("input", "expected"))
    options = ImportOptions(quantise=QuantiseOptions(asymmetric=True))
    calibration = Calibration(path=folder / "calibration.npy")
    compilation = compiled(model, calibration=calibration, options=options)
    (found,) = run_compiled(compilation, {model.graph.input[0].name: x}).values()
    assert np.abs(found - expected).max() <= 0.02 * np.abs(expected).max()


def test_slopes_of_old_operator_sets_are_those_of_channels() -> None:
    """Of a 1x1 convolution: what they multiply is that of NumPy."""
    for path in sorted((WRONG / "opset6-prelu").glob("*.onnx")):
        model = onnx.load(path)
        weights, slopes = map(onnx.numpy_helper.to_array, model.graph.initializer)
        inputs = inputs_of(model)
        y = np.einsum("oc,nchw->nohw", weights[:, :, 0, 0], inputs["x"])
        expected = {"y": np.where(y < 0, y * slopes[:, None, None], y)}
        compilation = compiled(model, calibration=Calibration(arrays=inputs))
        assert_near(run_compiled(compilation, inputs), expected, 0.02)


def test_training_is_refused() -> None:
    (path,) = (WRONG / "dropout-training-input").glob("*.onnx")
    model = onnx.load(path)
    with pytest.raises(WorkloadError, match="inference mode"):
        compiled(model, calibration=Calibration(arrays=inputs_of(model)))


def test_masked_scores_are_minus_infinity() -> None:
    (path,) = (WRONG / "attention-scores-neginf").glob("*.onnx")
    model = onnx.load(path)
    inputs = inputs_of(model)
    expected = ReferenceEvaluator(model).run(None, inputs)
    found = beside_a_layers_results(model, inputs)
    for value, array in zip(model.graph.output, expected, strict=True):
        np.testing.assert_allclose(found[value.name], array, rtol=1e-4, atol=1e-5)


def beside_a_layers_results(model, inputs):
    parts = partition(beside_a_layer(model, inputs))
    beside = {"beside": np.ones((1, 2, 3, 3), np.float32)}
    return HostProgram(module=parts.host).run({**inputs, **beside}, FloatRegions(parts.regions))
