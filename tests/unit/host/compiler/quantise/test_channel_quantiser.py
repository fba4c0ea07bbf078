# SPDX-License-Identifier: Apache-2.0
"""Weights that are rounded all at once have the bits that ONNX Runtime gives them one by one."""

import numpy as np
import onnx
import pytest
from onnxruntime.quantization import QDQQuantizer
from support.randomness import fresh_rng
from support.small_models import Model

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.pipeline import import_network
from tilewright.host.compiler.quantise import channel_quantiser
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions, QuantiseOptions


def weights(model, *shape, axis):
    """Channels of different ranges; one is zero, one is tiny, one has one sign."""
    array = model.rng.normal(size=shape).astype(np.float32)
    rows = np.moveaxis(array, axis, 0)
    rows *= np.exp(model.rng.normal(size=(len(rows), *[1] * (array.ndim - 1)))).astype(np.float32)
    rows[0], rows[1], rows[2] = 0, rows[1] * np.float32(1e-39), abs(rows[2])
    return model.constant(array)


def network():
    model = Model(fresh_rng())
    large = model.constant(np.full(8, 3e4, np.float32))  # makes the scales of tiny weights larger
    y = model.add("Conv", model.input(1, 3, 8, 8), weights(model, 8, 3, 3, 3, axis=0), large)
    y = model.add("Conv", y, weights(model, 8, 1, 3, 3, axis=0), group=8)
    y = model.add("ConvTranspose", y, weights(model, 8, 6, 2, 2, axis=1), strides=[2, 2])
    y = model.add("ConvTranspose", y, weights(model, 6, 3, 2, 2, axis=1), group=2)
    y = model.add("Flatten", model.add("GlobalAveragePool", y))
    y = model.add("Gemm", y, weights(model, 7, 6, axis=0), model.weights(7), transB=1)
    y = model.add("Gemm", y, weights(model, 7, 5, axis=1), model.weights(5))
    return model.proto(model.add("MatMul", y, weights(model, 5, 4, axis=1)))


def quantised(proto, **options):
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    return import_network(
        copy,
        calibration=Calibration(random_samples=2),
        options=ImportOptions(quantise=QuantiseOptions(**options)),
    ).qdq


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"asymmetric": True},
        {"per_channel": False},
        {"equalisation": False, "bias_correction": False},
    ],
)
def test_the_model_is_that_of_onnx_runtime(monkeypatch, options) -> None:
    proto = network()
    found = quantised(proto, **options)
    calls = []

    class OneByOne(QDQQuantizer):
        def quantize_model(self):
            calls.append(self)
            return super().quantize_model()

    monkeypatch.setattr(channel_quantiser, "ChannelQuantiser", OneByOne)
    assert found == quantised(proto, **options)
    assert len(calls) == 1


def test_channels_are_not_taken_one_by_one(monkeypatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a channel of its own")

    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 3, 8, 8), model.weights(64, 3, 3, 3), model.weights(64))
    module = channel_quantiser.qdq_quantizer
    monkeypatch.setattr(module, "compute_data_quant_params", refuse)
    monkeypatch.setattr(channel_quantiser, "quantize_onnx_initializer", refuse)
    quantised(model.proto(y))


def test_weights_that_are_not_finite_are_refused() -> None:
    array = np.ones((4, 3, 1, 1), np.float32)
    array[1, 0] = np.nan
    with pytest.raises(ValueError, match="finite"):
        channel_quantiser.channel_scales(array, 0)
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 3, 4, 4), model.constant(array))
    with pytest.raises(WorkloadError, match="finite"):
        quantised(model.proto(y))
