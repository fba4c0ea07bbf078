# SPDX-License-Identifier: Apache-2.0
"""Channels of activations get the ranges that the definition says, and less error."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from support.qdq_runs import run_all
from support.randomness import fresh_rng
from support.small_models import Model

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.quantise.channel_factors import grouped
from tilewright.host.compiler.quantise.equalisation import equalise
from tilewright.host.compiler.quantise.quantise import quantise
from tilewright.host.compiler.read.import_options import QuantiseOptions

CHANNELS = 6
RANGES = np.float32([0.3, 0.5, 1, 2, 4, 8])


def uneven(rng: np.random.Generator, *, depthwise: bool = False) -> Model:
    """Layers with a ReLU between; its channels have different ranges, and matter equally."""
    model = Model(rng)
    weights = rng.uniform(0.5, 1, (CHANNELS, 3, 1, 1)) * RANGES[:, None, None, None]
    y = model.add("Conv", model.input(1, 3, 8, 8), model.constant(weights.astype(np.float32)))
    y = model.add("Relu", y)
    if depthwise:
        model.add("Conv", y, model.weights(CHANNELS, 1, 3, 3), group=CHANNELS)
    else:
        weights = rng.uniform(0.5, 1, (5, CHANNELS, 1, 1)) / RANGES[:, None, None]
        model.add("Conv", y, model.constant(weights.astype(np.float32)))
    return model


def batches_for(rng: np.random.Generator, count: int = 8) -> list[dict[str, np.ndarray]]:
    return [{"x": rng.normal(size=(1, 3, 8, 8)).astype(np.float32)} for _ in range(count)]


def proto_of(model: Model) -> onnx.ModelProto:
    return onnx.shape_inference.infer_shapes(model.proto("conv2"))


def equalised(model: Model, batches: list[dict[str, np.ndarray]]) -> ir.Model:
    found = ir.from_proto(proto_of(model))
    equalise(found, {"x", "relu1", "conv2"}, {"conv0", "relu1", "conv2"}, batches)
    return found


def largest(proto: onnx.ModelProto, name: str, batches: list[dict[str, np.ndarray]]) -> np.ndarray:
    """The largest magnitude in each channel."""
    return np.max([np.abs(run_all(proto, b)[name]).max(axis=(0, 2, 3)) for b in batches], axis=0)


def test_channels_get_the_range_of_the_weights_that_read_them() -> None:
    rng = fresh_rng()
    model, batches = uneven(rng), batches_for(rng)
    found = equalised(model, batches)
    (last,) = (node for node in found.graph if node.name == "conv2")
    weights = np.abs(grouped(last)).max(axis=(0, 1, 3))
    ratio = largest(ir.to_proto(found), "relu1", batches) / weights
    before = largest(proto_of(model), "relu1", batches)
    raw = np.abs(grouped(ir.from_proto(proto_of(model)).graph[2])).max(axis=(0, 1, 3))
    seen = (before > before.max() / 64) & (raw > raw.max() / 64)  # others are not raised in full
    assert seen.sum() >= 4
    np.testing.assert_allclose(ratio[seen], ratio[seen][0], rtol=1e-4)


def test_channels_that_a_depthwise_layer_reads_get_half_of_the_difference() -> None:
    rng = fresh_rng()
    model, batches = uneven(rng, depthwise=True), batches_for(rng)
    before = largest(proto_of(model), "relu1", batches)
    after = largest(ir.to_proto(equalised(model, batches)), "relu1", batches)
    expected = before * np.sqrt(before.max() / np.maximum(before, before.max() / 64))
    np.testing.assert_allclose(after, expected, rtol=1e-4)


def test_results_do_not_change() -> None:
    rng = fresh_rng()
    model, batches = uneven(rng), batches_for(rng)
    proto = ir.to_proto(equalised(model, batches))
    for batch in batches_for(rng, 3):
        before, after = run_all(proto_of(model), batch), run_all(proto, batch)
        assert np.abs(before["relu1"] - after["relu1"]).max() > 0.1
        np.testing.assert_allclose(after["conv2"], before["conv2"], rtol=1e-4, atol=1e-4)


def test_a_channel_that_calibration_never_sees_keeps_its_factor() -> None:
    rng = fresh_rng()
    model, batches = uneven(rng), batches_for(rng)
    (first,) = (node for node in model.nodes if node.name == "conv0")
    bias = np.zeros(CHANNELS, np.float32)
    bias[2] = -100
    first.input.append(model.constant(bias))
    found = equalised(model, batches)
    (layer,) = (node for node in found.graph if node.name == "conv0")
    before = ir.from_proto(proto_of(model)).graph[0]
    np.testing.assert_array_equal(grouped(layer)[0, 2], grouped(before)[0, 2])
    assert (grouped(layer)[0, 0] != grouped(before)[0, 0]).all()


def noise_share(rng, *, depthwise) -> float:
    """Power of the error of the last layer in int8, equalised over not equalised."""
    model, batches = uneven(rng, depthwise=depthwise), batches_for(rng)
    tests = batches_for(rng)
    expected = np.stack([run_all(proto_of(model), batch)["conv2"] for batch in tests])
    errors = {}
    for equalisation in (False, True):
        options = QuantiseOptions(method="minmax", equalisation=equalisation, bias_correction=False)
        found = quantise(ir.from_proto(proto_of(model)), batches, options)
        (layer,) = (node for node in found.graph if node.name == "conv2")
        name = layer.outputs[0].name  # before it is rounded
        results = np.stack([run_all(ir.to_proto(found), batch)[name] for batch in tests])
        power = np.square(results - expected).mean(axis=(0, 1, 3, 4))
        errors[equalisation] = np.mean(power / np.square(expected).mean(axis=(0, 1, 3, 4)))
    return errors[True] / errors[False]


@pytest.mark.parametrize("depthwise", [False, True])
def test_int8_is_closer_to_float(depthwise) -> None:
    """Not on every network: in the geometric mean over some."""
    rng = fresh_rng()
    shares = [noise_share(rng, depthwise=depthwise) for _ in range(12)]
    assert np.exp(np.mean(np.log(shares))) < (0.4 if depthwise else 0.85)


def test_data_that_are_not_finite_are_refused() -> None:
    rng = fresh_rng()
    batches = batches_for(rng)
    batches[1]["x"][0, 0, 0, 0] = np.nan
    with pytest.raises(WorkloadError, match=r"activation relu1: must be finite on calibration"):
        equalised(uneven(rng), batches)


@pytest.mark.parametrize("tables", [False, True])
def test_constants_of_what_a_table_computes_stay_one_number(tables) -> None:
    rng = fresh_rng()
    model = Model(rng)
    weights = rng.uniform(0.5, 1, (CHANNELS, 3, 1, 1)) * RANGES[:, None, None, None]
    y = model.add("Conv", model.input(1, 3, 8, 8), model.constant(weights.astype(np.float32)))
    three, none, six = (model.constant(np.float32(number)) for number in (3, 0, 6))
    gate = model.add("Clip", model.add("Add", y, three), none, six)
    y = model.add("Div", model.add("Mul", y, gate), six)
    proto = onnx.shape_inference.infer_shapes(
        model.proto(model.add("Conv", y, model.weights(5, CHANNELS, 1, 1)))
    )
    options = QuantiseOptions(activation_tables=tables, bias_correction=False)
    found = quantise(ir.from_proto(proto), batches_for(rng), options)
    sizes = {
        np.size(value.const_value.numpy())
        for node in found.graph
        if node.op_type in ("Add", "Div")
        for value in node.inputs
        if value is not None and value.const_value is not None
    }
    assert (sizes == {1}) == tables
