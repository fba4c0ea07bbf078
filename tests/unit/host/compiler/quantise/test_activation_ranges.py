# SPDX-License-Identifier: Apache-2.0
"""Ranges of activations: what is counted, and what each method makes of it."""

from collections.abc import Callable, Sequence

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from support.networks.qdq_runs import run_all
from support.networks.small_models import Model
from support.randomness import fresh_rng

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.quantise.activation_ranges import Histogram, find_ranges
from tilewright.host.compiler.quantise.quantise import quantise
from tilewright.host.compiler.read.import_options import Method, QuantiseOptions

SIZE = 20_000


def counted(*parts: np.ndarray) -> Histogram:
    histogram = Histogram()
    for part in parts:
        histogram.widen(part)
        histogram.count(part)
    return histogram


def range_of(
    data: np.ndarray, method: Method, *, asymmetric: bool = False, percentile: float = 99.99
) -> tuple[float, float]:
    """The range of a model's input, in four batches."""
    model = Model(np.random.default_rng(0))
    x = model.input(1, data.size // 4)
    proto = model.proto(model.add("Relu", x))
    batches = [{"x": part[None]} for part in np.split(data, 4)]
    options = QuantiseOptions(method=method, asymmetric=asymmetric, percentile=percentile)
    return find_ranges(proto, [x], [], batches, options)[x]


def rounding_error(data: np.ndarray, low: float, high: float, steps: int) -> float:
    """The mean square error of a quantisation of finite data."""
    step = (high - low) / steps
    zero = np.rint(-low / step)
    codes = np.clip(np.rint(data / step) + zero, 0, steps)
    return float(np.mean((step * (codes - zero) - data) ** 2))


def test_counts_do_not_depend_on_the_order_in_which_the_range_grows() -> None:
    rng = fresh_rng()
    parts = [(rng.normal(size=500) * 10.0**k).astype(np.float32) for k in (-3, 0, 2)]
    first, again = counted(*parts), counted(np.concatenate(parts[::-1]))
    assert first.limit == again.limit
    assert first.counts.sum() == 1500
    # what single precision puts on the edge of a bin may lie in the next one
    assert np.abs(np.cumsum(first.counts) - np.cumsum(again.counts)).max() <= 15
    assert first.highest == again.highest == max(part.max() for part in parts)


def test_a_range_holds_zero() -> None:
    data = fresh_rng().uniform(2, 3, SIZE).astype(np.float32)
    for method in ("minmax", "mse", "percentile"):
        low, high = range_of(data, method, asymmetric=True)
        assert low == 0
        assert 2 < high <= data.max()
    assert range_of(np.zeros(8, np.float32), "mse") == (0, 0)


def test_a_percentile_is_that_of_magnitudes_or_of_both_sides() -> None:
    data = (fresh_rng().gamma(2, size=SIZE) - 1).astype(np.float32)
    low, high = range_of(data, "percentile", percentile=98)
    assert high == pytest.approx(np.quantile(np.abs(data), 0.98), rel=5e-3)
    assert low == data.min()
    low, high = range_of(data, "percentile", percentile=98, asymmetric=True)
    assert high == pytest.approx(np.quantile(data, 0.99), rel=5e-3)
    assert low == pytest.approx(np.quantile(data, 0.01), rel=5e-3)


def test_mse_has_nearly_the_least_error_of_symmetric_ranges() -> None:
    data = fresh_rng().standard_t(3, size=SIZE).astype(np.float32)
    largest = np.abs(data).max()
    end = max(np.abs(range_of(data, "mse")))
    tried = [rounding_error(data, -a, a, 254) for a in np.linspace(0.02, 1, 99) * largest]
    assert rounding_error(data, -end, end, 254) <= 1.05 * min(tried)


def test_mse_has_nearly_the_least_error_of_asymmetric_ranges() -> None:
    data = fresh_rng().normal(size=SIZE).astype(np.float32)
    data = np.where(data > 0, data, data / 8)
    low, high = range_of(data, "mse", asymmetric=True)
    shares = np.linspace(0.02, 1, 40)
    tried = [
        rounding_error(data, a * data.min(), b * data.max(), 255) for a in shares for b in shares
    ]
    assert rounding_error(data, low, high, 255) <= 1.05 * min(tried)


def test_activations_within_a_unit_keep_all_that_occurs() -> None:
    data = fresh_rng().normal(size=(1, 500)).astype(np.float32)
    model = Model(np.random.default_rng(0))
    x = model.input(1, 500)
    y = model.add("Relu", x)
    options = QuantiseOptions(method="percentile", percentile=90)
    ranges = find_ranges(model.proto(y), [y], [x], [{"x": data}], options)
    assert ranges[x] == (data.min(), data.max())
    assert ranges[y][1] < data.max()


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_activations_that_are_not_finite_are_refused(value) -> None:
    data = np.ones(8, np.float32)
    data[3] = value
    with pytest.raises(WorkloadError, match=r"activation x: must be finite on calibration data"):
        range_of(data, "mse")


def test_a_model_that_does_not_run_is_one_error() -> None:
    model = Model(np.random.default_rng(0))
    proto = model.proto(model.add("Relu", model.input(1, 4)))
    with pytest.raises(WorkloadError, match="ONNX Runtime must be able to quantise it"):
        find_ranges(proto, ["relu0"], [], [{"x": np.ones((1, 5), np.float32)}], QuantiseOptions())


# -- the mean error of a quantised layer goes into its bias ---------------------------------------

Batch = dict[str, np.ndarray]


def coarse(rng: np.random.Generator, *shape: int, axes: Sequence[int]) -> np.ndarray:
    """Weights of which one along each of the axes is so large that the others round to nothing.

    Args:
        rng: of the values.
        shape: of the weights.
        axes: of what has a scale in common.
    """
    weights = rng.uniform(0.001, 0.003, shape).astype(np.float32)
    first = tuple(0 if axis in axes else slice(None) for axis in range(len(shape)))
    weights[first] = 1
    return weights


def convolution(model: Model) -> str:
    weights = coarse(model.rng, 4, 16, 3, 3, axes=(1, 2, 3))
    bias = model.constant(model.rng.normal(size=4).astype(np.float32))
    return model.add("Conv", model.input(2, 16, 7, 7), weights, bias, pads=[1, 1, 0, 1])


def convolution_without_bias(model: Model) -> str:
    weights = coarse(model.rng, 4, 16, 3, 3, axes=(1, 2, 3))
    return model.add("Conv", model.input(2, 16, 7, 7), weights, strides=[2, 1])


def transposed(model: Model) -> str:
    weights = coarse(model.rng, 16, 4, 2, 2, axes=(0, 2, 3))
    return model.add("ConvTranspose", model.input(2, 16, 5, 5), weights)


def dense(model: Model) -> str:
    weights = coarse(model.rng, 4, 60, axes=(1,))
    bias = model.constant(model.rng.normal(size=4).astype(np.float32))
    return model.add("Gemm", model.input(8, 60), weights, bias, transB=1)


def dense_without_bias(model: Model) -> str:
    return model.add("Gemm", model.input(8, 60), coarse(model.rng, 60, 4, axes=(0,)))


def product(model: Model) -> str:
    y = model.add("MatMul", model.input(2, 9, 60), coarse(model.rng, 60, 4, axes=(0,)))
    return model.add("Add", y, model.rng.normal(size=4).astype(np.float32))


def proto_of(model: Model, result: str) -> onnx.ModelProto:
    return onnx.shape_inference.infer_shapes(model.proto(result))


def batches_for(proto: onnx.ModelProto, rng: np.random.Generator, count: int) -> list[Batch]:
    """Positive data."""
    (value,) = proto.graph.input
    shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    return [{"x": rng.uniform(0, 1, shape).astype(np.float32)} for _ in range(count)]


def mean_error(
    proto: onnx.ModelProto, batches: list[Batch], *, axis: int, **options: bool
) -> np.ndarray:
    """Of each channel of the result before it is rounded."""
    settings = QuantiseOptions(method="minmax", equalisation=False, **options)
    found = quantise(ir.from_proto(proto), batches, settings)
    name = proto.graph.output[0].name
    (last,) = (node for node in found.graph if node.name == name)
    real = last.outputs[0].name
    gaps = [run_all(ir.to_proto(found), b)[real] - run_all(proto, b)[name] for b in batches]
    return np.moveaxis(np.stack(gaps), axis + 1, -1).reshape(-1, 4).mean(axis=0, dtype=np.float64)


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize(
    ("layer", "axis"),
    [
        (convolution, 1),
        (convolution_without_bias, 1),
        (transposed, 1),
        (dense, 1),
        (dense_without_bias, 1),
        (product, 2),
    ],
)
def test_a_layer_has_no_mean_error_on_calibration_data(
    layer: Callable[[Model], str], axis: int, asymmetric: bool
) -> None:
    rng = fresh_rng()
    model = Model(rng)
    proto = proto_of(model, layer(model))
    batches = batches_for(proto, rng, 8)
    options = {"axis": axis, "asymmetric": asymmetric}
    before = mean_error(proto, batches, bias_correction=False, **options)
    after = mean_error(proto, batches, bias_correction=True, **options)
    assert (before < -0.03).all()  # all but one weight of a channel are lost
    assert np.abs(after).max() < 1e-3
