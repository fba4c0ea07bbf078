# SPDX-License-Identifier: Apache-2.0
"""Weights of 4 bits: their scales, which layers get them, and that they stay int8 in the model."""

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.networks.small_models import Model

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.quantise.int4_weights import quantise_groups, quantise_int4
from tilewright.host.compiler.quantise.quantise import quantise
from tilewright.host.compiler.read.edit import array_of
from tilewright.host.compiler.read.import_options import QuantiseOptions
from tilewright.host.network.int4_tiles import scales_of


@given(seed=st.integers(0, 2**32 - 1), axis=st.sampled_from([0, 1, None]))
def test_scales_of_channels_have_no_more_error_than_plain_ones(seed: int, axis: int | None) -> None:
    weights = np.random.default_rng(seed).normal(size=(6, 9)) ** 3
    numbers, scales = quantise_int4(weights, axis)
    assert numbers.dtype == np.int8
    assert (numbers.shape, scales.shape) == (weights.shape, (1 if axis is None else (6, 9)[axis],))
    assert -8 <= numbers.min() <= numbers.max() <= 7
    others = None if axis is None else 1 - axis
    plain = np.abs(weights).max(axis=others, keepdims=True) / 7
    shaped = scales if axis is None else np.expand_dims(scales, 1 - axis)
    found = ((numbers * shaped - weights) ** 2).sum()
    assert found <= ((np.rint(weights / plain) * plain - weights) ** 2).sum() * (1 + 1e-6)


@pytest.mark.parametrize("by_channel", [True, False])
@given(
    seed=st.integers(0, 2**32 - 1),
    group=st.sampled_from([(1, 4), (2, 4), (4, 2)]),
    shape=st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 3)),
)
def test_groups_are_4_bit_numbers_times_a_scale(
    seed: int, group: tuple[int, int], shape: tuple[int, int, int], by_channel: bool
) -> None:
    weights = np.random.default_rng(seed).normal(size=shape) ** 3
    numbers, scales = quantise_groups(weights, group, np.zeros(shape[0] if by_channel else 1))
    assert (numbers.shape, numbers.dtype) == (shape, np.int8)
    assert scales.shape == (shape[0] if by_channel else 1,)
    assert (scales > 0).all()
    for o in range(0, shape[0], group[0]):
        for i in range(0, shape[1], group[1]):
            for place in range(shape[2]):
                block = numbers[o : o + group[0], i : i + group[1], place].reshape(1, -1)
                assert scales_of(block).all()
    error = np.abs(numbers * scales[:, None, None] - weights)
    assert error.max() <= 0.6 * np.abs(weights).max()


def test_groups_lose_less_than_channels_alone() -> None:
    rng = np.random.default_rng(3)
    weights = (
        rng.normal(size=(24, 64, 1)) * rng.choice([0.1, 1.0], (24, 4)).repeat(16, 1)[..., None]
    )
    numbers, scales = quantise_groups(weights, (1, 16), np.zeros(24))
    plain, widths = quantise_int4(weights, 0)
    error = ((numbers * scales[:, None, None] - weights) ** 2).sum()
    assert error < 0.8 * ((plain * widths[:, None, None] - weights) ** 2).sum()


def test_a_channel_of_zeros_keeps_a_scale() -> None:
    weights = np.zeros((2, 3))
    weights[1] = 1, -2, 3
    numbers, scales = quantise_int4(weights, 0)
    assert not numbers[0].any()
    assert (scales > 0).all()
    numbers, scales = quantise_groups(weights[..., None], (1, 4), np.zeros(2))
    assert not numbers[0].any()
    assert (scales > 0).all()


def network() -> onnx.ModelProto:
    """Convolutions, one of them in groups, a Gemm and a MatMul with its bias."""
    model = Model(np.random.default_rng(7))
    y = model.add("Conv", model.input(2, 4, 6, 6), model.weights(8, 4, 3, 3))
    y = model.add("Conv", y, model.weights(8, 1, 3, 3), group=8)
    y = model.add("Flatten", y)
    y = model.add("Gemm", y, model.weights(16, 32), model.weights(16), transB=1)
    y = model.add("MatMul", y, model.weights(16, 5))
    return onnx.shape_inference.infer_shapes(model.proto(model.add("Add", y, model.weights(5))))


def weights_of(**options: Any) -> dict[str, np.ndarray]:
    """The int8 weights of a quantised `network` by operator; a second one of a kind is dropped."""
    rng = np.random.default_rng(1)
    batches = [{"x": rng.normal(size=(2, 4, 6, 6)).astype(np.float32)} for _ in range(3)]
    done = quantise(ir.from_proto(network()), batches, QuantiseOptions(**options))
    found: dict[str, np.ndarray] = {}
    for node in done.graph:
        source = node.inputs[1].producer() if node.op_type in ("Conv", "Gemm", "MatMul") else None
        if source is not None:
            array = array_of(source.inputs[0])
            assert array is not None
            found[f"{node.op_type} {node.attributes['group'].value}"
                  if "group" in node.attributes else node.op_type] = array  # fmt: skip
    return found


@pytest.mark.parametrize(
    ("layers", "narrow"),
    [("none", set()), ("dense", {"Gemm", "MatMul"}), ("all", {"Conv", "Gemm", "MatMul"})],
)
@pytest.mark.parametrize("per_channel", [True, False])
def test_only_the_layers_that_are_asked_for_are_narrow(
    layers: str, narrow: set[str], per_channel: bool
) -> None:
    found = weights_of(int4_weights=layers, per_channel=per_channel)
    assert set(found) == {"Conv", "Conv 8", "Gemm", "MatMul"}
    assert all(array.dtype == np.int8 for array in found.values())
    fits = {kind for kind, array in found.items() if -8 <= array.min() <= array.max() <= 7}
    assert fits == narrow


@pytest.mark.parametrize("per_channel", [True, False])
def test_groups_lie_along_the_channels_that_a_layer_reads(per_channel: bool) -> None:
    found = weights_of(int4_weights="all", int4_group=(1, 4, 4), per_channel=per_channel)
    layers = {
        "Conv": found["Conv"].reshape(8, 4, 9),
        "Gemm": found["Gemm"].reshape(16, 8, 4),  # an image of 2x2 pixels made flat
        "MatMul": found["MatMul"].T[..., None],
    }
    for weights in layers.values():
        groups = np.moveaxis(weights, 1, 2).reshape(-1, 4)
        assert scales_of(groups).all()
        assert np.abs(weights).max() > 8


def test_an_unknown_choice_is_refused() -> None:
    with pytest.raises(WorkloadError, match="must be one of none, dense, all"):
        QuantiseOptions(int4_weights="some")  # type: ignore[arg-type]  # the mistake under test
