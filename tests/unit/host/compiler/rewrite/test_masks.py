# SPDX-License-Identifier: Apache-2.0
"""Masks that are given at run time: one row in front of softmax, and results stay."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from support.networks.attention_masks import FORMS, masked_softmax, prepared_mask, some_mask
from support.networks.onnx_results import rewritten
from support.networks.small_models import Model
from support.randomness import fresh_rng

from tilewright.host.compiler.read.import_options import QuantiseOptions
from tilewright.host.compiler.rewrite.masks import masked_scores
from tilewright.host.compiler.rewrite.rewrites import rewrite

ROWS = QuantiseOptions(row_functions=True)
TOKENS = 6
SHAPE = (1, 2, TOKENS, TOKENS)
INT64 = onnx.TensorProto.INT64


def masks_of(proto: onnx.ModelProto, *given: str) -> list[ir.Value | None]:
    """Of each softmax of the rewritten model the mask, or None; inputs may be given as masks."""
    current = ir.from_proto(onnx.shape_inference.infer_shapes(proto))
    rewrite(current, ROWS, given)
    softmaxes = [node for node in current.graph if node.op_type == "Softmax"]
    found = [masked_scores(node.inputs[0].producer()) for node in softmaxes]
    return [None if step is None else step[1] for step in found]


def two_layers(form: str) -> onnx.ModelProto:
    model = Model(fresh_rng())
    mask = model.input(1, TOKENS, name="mask", kind=INT64)
    mask = prepared_mask(model, mask, TOKENS, form)
    x, y = model.input(*SHAPE), model.input(*SHAPE, name="y")
    shares = [masked_softmax(model, scores, mask, form) for scores in (x, y)]
    return model.proto(*(model.add("Relu", share) for share in shares))


@pytest.mark.parametrize("form", FORMS)
def test_a_mask_is_one_row_for_all_layers(form: str) -> None:
    proto = two_layers(form)
    first, second = masks_of(proto)
    assert first is not None
    assert first is second
    assert tuple(first.shape) == (1, 1, 1, TOKENS)
    kinds = rewritten(proto, ROWS, mask=some_mask(fresh_rng(), TOKENS))
    assert kinds.count("Softmax") == 2
    # Each softmax has an addition of the mask, and a causal one.
    assert kinds.count("Add") == (4 if form == "causal condition" else 2)
    assert not {"Expand", "IsNaN", "And"} & set(kinds)


def added(build) -> onnx.ModelProto:
    """Softmax of scores and of what is built from a model."""
    model = Model(fresh_rng())
    x = model.input(*SHAPE)
    return model.proto(model.add("Softmax", model.add("Add", x, build(model)), axis=-1))


def falling(model: Model, far: float, *shape: int) -> str:
    """(1 - mask) * far of an int64 input."""
    real = model.add("Cast", model.input(*shape, name="mask", kind=INT64), to=1)
    return model.add("Mul", model.add("Sub", np.float32(1), real), np.float32(far))


def condition(model: Model, *shape: int) -> str:
    return model.input(*shape, name="mask", kind=onnx.TensorProto.BOOL)


def chosen(model: Model, seen: str, far: float) -> str:
    return model.add("Where", seen, np.float32(0), np.float32(far))


TAKEN = {
    "a row as an input": lambda m: falling(m, -1e4, 1, 1, 1, TOKENS),
    "a row of lower rank": lambda m: falling(m, -1e4, TOKENS),
    "a condition as an input": lambda m: chosen(m, condition(m, 1, TOKENS), -np.inf),
    "its opposite": lambda m: chosen(m, m.add("Not", condition(m, 1, TOKENS)), -1e9),
    "two conditions": lambda m: chosen(
        m, m.add("And", c := condition(m, 1, TOKENS), m.add("Not", m.add("Not", c))), -1e9
    ),
    "a condition for all heads": lambda m: chosen(
        m,
        m.add("Reshape", m.add("Expand", condition(m, 1, TOKENS), [2, TOKENS]), [1, 2, 1, TOKENS]),
        -1e9,
    ),
}


def gathered(model: Model) -> str:
    """As Transformers looks a mask up by batch and key, and joins what is true of each query."""
    places = np.zeros((1, 1, 1, TOKENS, 2), np.int64)
    places[..., 1] = np.arange(TOKENS)
    seen = model.add("GatherND", condition(model, 1, TOKENS), places)
    seen = model.add("And", seen, np.ones((1, 1, TOKENS, 1), bool))
    return chosen(model, model.add("Expand", seen, [1, 1, TOKENS, TOKENS]), -3e38)


TAKEN["looked up"] = gathered


@pytest.mark.parametrize("kind", TAKEN)
def test_other_rows_are_masks_too(kind: str) -> None:
    proto = added(TAKEN[kind])
    (mask,) = masks_of(proto)
    assert mask is not None
    tensor = next(value for value in proto.graph.input if value.name == "mask").type.tensor_type
    shape = [dim.dim_value for dim in tensor.shape.dim]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    values = some_mask(fresh_rng(), TOKENS).reshape(shape).astype(dtype)
    if kind == "its opposite":
        values = ~values
    rewritten(proto, ROWS, mask=values)


LEFT = {
    "numbers that leave a share": lambda m: falling(m, -5.0, 1, 1, 1, TOKENS),
    "a mask for each query": lambda m: falling(m, -1e4, 1, 1, TOKENS, TOKENS),
    "a mask for each head": lambda m: falling(m, -1e4, 1, 2, 1, TOKENS),
    "any numbers": lambda m: m.input(1, 1, 1, TOKENS, name="mask"),
    "numbers of a condition that leave a share": lambda m: chosen(m, condition(m, 1, TOKENS), -9.0),
    "a condition for each query": lambda m: chosen(m, condition(m, TOKENS, TOKENS), -1e9),
    "a query that sees nothing in any case": lambda m: chosen(
        m, m.add("And", condition(m, 1, TOKENS), np.tri(TOKENS, k=-1) > 0), -1e9
    ),
    "a comparison that 0 and 1 do not tell of": lambda m: m.add(
        "Where",
        m.add("Equal", m.input(1, TOKENS, name="mask", kind=INT64), np.array(7)),
        np.float32(-3),
        np.float32(0),
    ),
}


@pytest.mark.parametrize("kind", LEFT)
def test_what_is_no_row_of_masks_stays(kind: str) -> None:
    assert masks_of(added(LEFT[kind])) == [None]


@pytest.mark.parametrize("shape", [(1, 1, 1, TOKENS), (1, TOKENS), (TOKENS,)])
def test_a_float_input_is_a_mask_where_it_is_said_to_be_one(shape: tuple[int, ...]) -> None:
    def given(model: Model) -> str:
        name = model.input(*shape, name="mask")
        return model.add("Expand", name, [1, 1, TOKENS, TOKENS]) if len(shape) == 2 else name

    proto = added(given)
    assert masks_of(proto) == [None]
    assert masks_of(proto, "x") == [None]
    (mask,) = masks_of(proto, "mask")
    assert mask is not None
    assert tuple(mask.shape) == (1, 1, 1, TOKENS)
