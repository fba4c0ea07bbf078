# SPDX-License-Identifier: Apache-2.0
"""What networks make of an attention mask: forms that PyTorch exports of them."""

from typing import Final

import numpy as np
import onnx
from support.networks.small_models import Model

LEAST: Final = np.finfo(np.float32).min
FORMS: Final = ("added", "expanded", "filled", "causal condition")


def prepared_mask(model: Model, mask: str, tokens: int, form: str) -> str:
    """What all layers read of a mask.

    Args:
        model: under construction, of an operator set from 13 on.
        mask: name of an int64 input (1, tokens) of 0 and 1.
        tokens: how many.
        form: ``added``: (1 - mask) times the least number, as a row. ``expanded``: the same for
            each query, its numbers replaced where they are not 0. ``filled``: a condition, for
            scores that are replaced by minus infinity. ``causal condition``: a number that a
            condition and a causal one choose, for each query.
    """
    add, constant = model.add, model.constant
    row = add("Unsqueeze", mask, constant(np.array([1, 2])))
    if form == "filled":
        return add("Equal", row, constant(np.array(0)))
    if form == "causal condition":
        condition = add("Cast", row, to=onnx.TensorProto.BOOL)
        condition = add("And", constant(np.tri(tokens)[None, None] > 0), condition)
        condition = add("Expand", condition, constant(np.array([1, 1, tokens, tokens])))
        least = constant(np.float32(-np.inf))
        return add("Where", condition, constant(np.float32(0)), least)
    if form == "expanded":
        row = add("Expand", row, constant(np.array([1, 1, tokens, tokens])))
    inverted = add("Sub", constant(np.float32(1)), add("Cast", row, to=onnx.TensorProto.FLOAT))
    if form == "added":
        return add("Mul", inverted, constant(LEAST))
    assert form == "expanded", form
    absent = add("Cast", inverted, to=onnx.TensorProto.BOOL)
    return add("Where", absent, constant(LEAST), inverted)


def masked_softmax(model: Model, scores: str, mask: str, form: str) -> str:
    """The probabilities of scores (1, H, tokens, tokens); a test may find rows without any token.

    Args:
        model: under construction.
        scores: name.
        mask: from `prepared_mask`.
        form: see there.
    """
    add = model.add
    if form == "filled":
        scores = add("Where", mask, model.constant(np.float32(-np.inf)), scores)
        return add("Softmax", scores, axis=-1)
    shares = add("Softmax", add("Add", scores, mask), axis=-1)
    if form == "causal condition":
        shares = add("Where", add("IsNaN", shares), model.constant(np.float32(0)), shares)
    return shares


def some_mask(rng: np.random.Generator, tokens: int) -> np.ndarray:
    """int64 (1, tokens): about a third is 0, the first token is not."""
    mask = (rng.random((1, tokens)) < 2 / 3).astype(np.int64)
    mask[:, 0] = 1
    return mask
