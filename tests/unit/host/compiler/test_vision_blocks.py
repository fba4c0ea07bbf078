# SPDX-License-Identifier: Apache-2.0
"""ConvNeXt and Swin, small: one region from the first operator to the last, and its bits."""

from collections.abc import Callable
from functools import partial

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto
from support.networks.attention_masks import some_mask
from support.networks.compiled_runs import assert_bits_of_its_layers
from support.networks.detector_models import detector
from support.networks.qdq_runs import (
    assert_near,
    operator_errors,
    output_of,
    quantised_names,
    region_errors,
    run_all,
)
from support.networks.small_models import Model, noise
from support.networks.torch_bert import FORMS, TOKENS, WORDS, Bert
from support.networks.vision_models import convnext, swin
from support.randomness import often

from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.lower.qgraph import QLayerNorm, QSoftmax, QTurn, to_normal_form
from tilewright.host.compiler.pipeline import compile_model, partition
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions, QuantiseOptions
from tilewright.host.compiler.run.runtime import run_network
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.workload import Kind
from tilewright.sim.reference.device import ReferenceDevice

ROWED = load_hwconfig("tiny-4x4").with_(row_unit=1)


@pytest.mark.parametrize(
    ("make", "block_in", "moves"),
    often(
        "regions of vision",
        [
            pytest.param(convnext, 4, 0, id="convnext"),
            # to windows in two blocks, and back; keys and values of two heads apart in each
            pytest.param(swin, 4, 3 + 8, id="swin"),
            pytest.param(partial(swin, turned_first=True), 4, 3 + 8, id="swin, heads turned first"),
            # windows of 9 tokens of 8 bytes begin at beats of the bus
            pytest.param(partial(swin, width=16), 8, 3, id="swin on a rectangle"),
        ],
        2,
    ),
)
def test_a_network_is_one_region_with_its_bits(
    make: Callable[[np.random.Generator], onnx.ModelProto], block_in: int, moves: int
) -> None:
    hw = ROWED.with_(block_in=block_in)
    model = make(np.random.default_rng(7))
    options = {"calibration": Calibration(random_samples=4), "offload_all": True}
    compilation = compile_model(model, hw, load_board("pynq-z2"), **options)
    placements = compilation.network.placements
    assert [(p.name, p.reason) for p in placements if p.where != "accelerator"] == []
    (graph,) = compilation.layers
    assert len([layer for layer in graph.layers if layer.workload.kind is Kind.GATHER]) == moves
    data = noise(compilation.imported, np.random.default_rng(0))
    qdq = compilation.imported.qdq
    tensors, names = run_all(qdq, data), quantised_names(qdq)
    (region,) = partition(compilation.imported, rows=True).regions
    (errors,) = region_errors(region, tensors, names).values()
    assert np.abs(errors).max() <= 2  # by real numbers, operator by operator
    found = assert_bits_of_its_layers(compilation, data)
    assert_near(found, *output_of([model], data), 0.12)


# -- A detector like YOLOv8, small ----------------------------------------------------------------

HW = load_hwconfig("tiny-4x4").with_(row_unit=1, activation_table=1)
ARITHMETIC = {"Add", "Concat", "Div", "Mul", "Reshape", "Slice", "Sub"}


@pytest.mark.parametrize("asymmetric", [False, True])
def test_a_detector_is_one_region_and_float_arithmetic_on_boxes(asymmetric) -> None:
    model, board = detector(np.random.default_rng(7)), load_board("pynq-z2")
    compilation = compile_model(
        model,
        HW,
        board,
        calibration=Calibration(random_samples=4),
        options=ImportOptions(quantise=QuantiseOptions(asymmetric=asymmetric)),
        offload_all=True,
    )
    network, imported = compilation.network, compilation.imported
    assert len(network.regions) == 1
    left = [each.kind for each in network.placements if each.where != "accelerator"]
    assert set(left) == ARITHMETIC
    assert len(left) == 12  # none of them twice, as for each level
    data = {"x": np.random.default_rng(0).normal(size=(1, 3, 8, 8)).astype(np.float32)}
    tensors, names = run_all(imported.qdq, data), quantised_names(imported.qdq)
    (region,) = partition(imported, tables=True, rows=True).regions
    assert [each.heads for each in region.operators if isinstance(each, QSoftmax)] == [4]
    assert sorted(np.prod(region.tensors[name].shape) for name in region.outputs) == [63, 84]
    for name, errors in operator_errors(region, tensors, names).items():
        assert np.abs(errors).max() <= 1, name
    (found,) = run_network(network, ReferenceDevice(HW), data, trusted=True).outputs.values()
    (output,) = imported.qdq.graph.output
    expected, real = tensors[output.name], run_all(model, data)[model.graph.output[0].name]
    assert found.shape == expected.shape == (1, 7, 21)
    boxes, scores = np.split(np.abs(found - expected), [4], axis=1)
    assert boxes.max() < 1.0  # pixels of 8: two steps of a distance, of at most 8 strides
    assert scores.max() < 2.5 / 127
    boxes, scores = np.split(np.abs(found - real), [4], axis=1)
    assert boxes.mean() < 1.0
    assert scores.mean() < 0.03


# -- A BERT from PyTorch with an attention mask ---------------------------------------------------


@pytest.mark.parametrize("form", often("forms of masks", FORMS, 1))
def test_a_bert_from_pytorch_is_one_region_and_masked_tokens_change_nothing(form: str) -> None:
    rng = np.random.default_rng(2)
    torch.manual_seed(4)
    module = Bert(form).eval()
    samples = {
        "input_ids": rng.integers(0, WORDS, (6, TOKENS)),
        "attention_mask": np.concatenate([some_mask(rng, TOKENS) for _ in range(6)]),
    }
    compilation = compile_model(
        module,
        ROWED,
        load_board("pynq-z2"),
        calibration=Calibration(arrays=samples),
        offload_all=True,
    )
    (graph,) = compilation.layers
    masked = [layer for layer in graph.layers if layer.mask is not None]
    assert len(masked) == 4  # two layers of two heads
    assert len({layer.mask for layer in masked}) == 1
    left = {p.kind for p in compilation.network.placements if p.where != "accelerator"}
    assert not left & {"MatMul", "Softmax"}
    assert sum(layer.workload.kind is Kind.ROWS for layer in graph.layers) >= 4 + 4
    for _ in range(2):
        mask, words = some_mask(rng, TOKENS), rng.integers(0, WORDS, (1, TOKENS))
        others = np.where(mask > 0, words, (words + 1) % WORDS)
        found = [
            assert_bits_of_its_layers(compilation, {"input_ids": ids, "attention_mask": mask})
            for ids in (words, others)
        ]
        seen = mask[0] > 0
        assert np.array_equal(found[0][:, seen], found[1][:, seen])
        assert not np.array_equal(found[0], found[1])
        with torch.no_grad():
            real = module(torch.from_numpy(words), torch.from_numpy(mask)).numpy()[:, seen]
        assert_near(found[0][:, seen], real, 0.15)


# -- A classifier of bytes as JAX exports it ------------------------------------------------------

KINDS, BYTES, PLACES, FEATURES = 9, 64, 16, 16


def classifier(rng: np.random.Generator) -> onnx.ModelProto:
    model = Model(rng, opset=15)
    add = model.add

    def numbers(*values: int) -> str:
        return model.constant(np.array(values))

    def normal(x: str, axis: int, shape: tuple[int, ...]) -> str:
        kept = numbers(*(1 if i == axis else n for i, n in enumerate(shape)))
        share = model.constant(np.float32(1 / shape[axis]))
        means = [
            add("Mul", add("ReduceSum", each, numbers(axis), keepdims=0), share)
            for each in (x, add("Mul", x, x))
        ]
        variance = add("Sub", means[1], add("Mul", means[0], means[0]))
        variance = add("Reshape", add("Max", np.float32(0), variance), kept)
        root = add("Sqrt", add("Add", variance, np.float32(1e-6)))
        wide = [n if i == axis else 1 for i, n in enumerate(shape)]
        gamma, beta = (rng.uniform(0.5, 1.5, wide).astype(np.float32) for _ in range(2))
        factor = add("Mul", add("Reciprocal", root), gamma)
        difference = add("Sub", x, add("Reshape", means[0], kept))
        return add("Add", add("Mul", difference, factor), beta)

    x = model.input(1, BYTES, kind=TensorProto.INT32)
    places = add("Reshape", x, numbers(1, BYTES, 1))
    counted = model.constant(np.arange(KINDS, dtype=np.int32).reshape(1, 1, KINDS))
    vectors = add("Cast", add("Equal", places, counted), to=TensorProto.FLOAT)
    width = FEATURES * PLACES // BYTES
    rows = model.constant(rng.normal(size=(KINDS, width)).astype(np.float32))
    y = add("Add", add("MatMul", vectors, rows), model.weights(1, 1, width))
    y = add("Reshape", add("Tanh", y), numbers(1, PLACES, FEATURES))
    y = add("Unsqueeze", normal(y, 1, (1, PLACES, FEATURES)), numbers(3))
    y = add("Conv", add("Transpose", y, perm=[0, 2, 1, 3]), model.weights(8, FEATURES, 3, 1))
    y = add("Add", add("Squeeze", y, numbers(3)), model.weights(8, 1))
    y = add("Squeeze", add("GlobalMaxPool", add("Relu", y)), numbers(2))
    y = add("MatMul", normal(y, 1, (1, 8)), model.weights(8, 5))
    y = add("Add", y, model.weights(1, 5))
    kept = numbers(1, 1)
    most = add("ReduceMax", y, axes=[1], keepdims=0)
    most = add("Max", np.float32(-np.inf), most)
    power = add("Exp", add("Sub", y, add("Reshape", most, kept)))
    total = add("ReduceSum", power, numbers(1), keepdims=0)
    return model.proto(add("Div", power, add("Reshape", total, kept)))


@pytest.mark.parametrize("block_in", [4, 8])
def test_a_classifier_of_bytes_is_one_region_with_its_bits(block_in: int) -> None:
    hw, rng = HW.with_(block_in=block_in), np.random.default_rng(5)
    model = classifier(rng)
    # 9 and -1 stand for nothing
    known = rng.integers(-1, KINDS + 1, (8, BYTES), dtype=np.int32)
    data = {"x": known[:1]}
    compilation = compile_model(
        model, hw, load_board("pynq-z2"), calibration=Calibration(arrays={"x": known}),
        offload_all=True,
    )  # fmt: skip
    kinds = [p.kind for p in compilation.network.placements if p.where != "accelerator"]
    assert sorted(set(kinds)) == ["Add", "Clip", "Gather", "Reshape", "Softmax", "Transpose"]
    (graph,) = compilation.layers
    (region,) = partition(compilation.imported, tables=True, rows=True, turns=True).regions
    assert sum(isinstance(operator, QTurn) for operator in region.operators) == 1
    assert sum(isinstance(operator, QLayerNorm) for operator in region.operators) == 2
    qdq = compilation.imported.qdq
    tensors, names = run_all(qdq, data), quantised_names(qdq)
    (errors,) = region_errors(region, tensors, names).values()
    assert np.abs(errors).max() <= 2  # by real numbers, operator by operator
    (source,), (result,) = graph.inputs, graph.outputs
    rounded = tensors[names.get(source, source)]
    expected = evaluate(graph, {source: to_normal_form(rounded, graph.tensors[source].shape)})
    logits = graph.tensors[result]
    real = (expected[result].reshape(-1).astype(float) - logits.zero_point) * logits.scale
    power = np.exp(real - real.max())
    run = run_network(compilation.network, ReferenceDevice(hw), data, trusted=True)
    (found,) = run.outputs.values()
    np.testing.assert_allclose(found.reshape(-1), power / power.sum(), rtol=1e-4)
    (exact,) = (run_all(model, data)[value.name] for value in model.graph.output)
    assert np.abs(found - exact).max() < 0.1
