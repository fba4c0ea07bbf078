# SPDX-License-Identifier: Apache-2.0
"""A small ViT and a small GPT, as PyTorch exports large ones, node by node."""

from collections.abc import Callable

import numpy as np
import onnx
from support.networks.attention_masks import masked_softmax, prepared_mask
from support.networks.small_models import Model


class Transformer:
    """Blocks with the normalisation in front, over a sequence (1, tokens, heads * width).

    Args:
        rng: of the weights.
        tokens: of the sequence.
        heads: of attention.
        width: of a head.
    """

    def __init__(self, rng: np.random.Generator, tokens: int, heads: int, width: int) -> None:
        self.model = Model(rng, opset=20)
        self.tokens, self.heads, self.width = tokens, heads, width
        self.features = heads * width

    def noise(self, *shape: int) -> str:
        return self.model.constant(self.model.rng.normal(0, 0.3, shape).astype(np.float32))

    def dense(self, x: str, inputs: int, outputs: int) -> str:
        product = self.model.add("MatMul", x, self.model.weights(inputs, outputs))
        return self.model.add("Add", product, self.noise(outputs))

    def norm(self, x: str) -> str:
        gamma = self.model.constant(np.linspace(0.5, 1.5, self.features, dtype=np.float32))
        return self.model.add("LayerNormalization", x, gamma, self.noise(self.features), axis=-1)

    def queries_keys_values(self, x: str) -> list[str]:
        """Heads of each, (1, heads, tokens, width), cut out of one dense layer."""
        add, constant = self.model.add, self.model.constant
        shape = constant(np.array([1, self.tokens, 3, self.heads, self.width]))
        joined = add("Reshape", self.dense(x, self.features, 3 * self.features), shape)
        turned = add("Transpose", joined, perm=[2, 0, 3, 1, 4])
        first = constant(np.array([0]))
        places = [constant(np.array([place])) for place in range(4)]
        return [
            add("Squeeze", add("Slice", turned, places[i], places[i + 1], first), first)
            for i in range(3)
        ]

    def attention(self, x: str, mask: str | Callable[[str], str] | None) -> str:
        """Self-attention; a causal mask is added (``add``), or replaces scores (``where``).

        Another one makes the probabilities of scores itself.
        """
        add, constant = self.model.add, self.model.constant
        query, key, value = self.queries_keys_values(x)
        scores = add("MatMul", query, add("Transpose", key, perm=[0, 1, 3, 2]))
        scores = add("Mul", scores, constant(np.float32(self.width**-0.5)))
        seen = np.tri(self.tokens) > 0
        if mask == "add":
            scores = add("Add", scores, constant(np.where(seen, 0, -1e4).astype(np.float32)))
        elif mask == "where":
            scores = add("Where", constant(seen), scores, constant(np.float32(-np.inf)))
        shares = mask(scores) if callable(mask) else add("Softmax", scores, axis=-1)
        mixed = add("MatMul", shares, value)
        mixed = add("Transpose", mixed, perm=[0, 2, 1, 3])
        joined = add("Reshape", mixed, constant(np.array([1, self.tokens, self.features])))
        return self.dense(joined, self.features, self.features)

    def block(self, x: str, mask: str | Callable[[str], str] | None = None) -> str:
        x = self.model.add("Add", x, self.attention(self.norm(x), mask))
        hidden = self.model.add("Relu", self.dense(self.norm(x), self.features, 2 * self.features))
        return self.model.add("Add", x, self.dense(hidden, 2 * self.features, self.features))


def small_vit(rng: np.random.Generator, layers: int = 2) -> onnx.ModelProto:
    """17 tokens: a class token before 4 x 4 patches, with positions; the class token is read."""
    net = Transformer(rng, 17, 2, 8)
    add, constant = net.model.add, net.model.constant
    x = net.model.input(1, 3, 16, 16)
    x = add("Conv", x, net.model.weights(16, 3, 4, 4), net.noise(16), strides=[4, 4])
    x = add("Transpose", add("Reshape", x, constant(np.array([1, 16, 16]))), perm=[0, 2, 1])
    x = add("Add", add("Concat", net.noise(1, 1, 16), x, axis=1), net.noise(1, 17, 16))
    for _ in range(layers):
        x = net.block(x)
    x = add("Gather", net.norm(x), constant(np.array(0)), axis=1)
    return net.model.proto(net.dense(x, 16, 10))


def small_gpt(rng: np.random.Generator, layers: int = 2, mask: str = "add") -> onnx.ModelProto:
    """13 embedded tokens that see those before them."""
    net = Transformer(rng, 13, 2, 8)
    x = net.dense(net.model.input(1, 13, 16), 16, 16)
    for _ in range(layers):
        x = net.block(x, mask)
    return net.model.proto(net.dense(net.norm(x), 16, 24))


def small_bert(rng: np.random.Generator, layers: int = 2, form: str = "added") -> onnx.ModelProto:
    """13 embedded tokens, and a mask that says which of them count (`attention_masks`).

    With the form ``given`` it is what the layers add to scores, float (1, 1, 1, 13).
    """
    net = Transformer(rng, 13, 2, 8)
    if form == "given":
        mask = net.model.input(1, 1, 1, 13, name="attention_mask")
    else:
        mask = net.model.input(1, 13, name="attention_mask", kind=onnx.TensorProto.INT64)
        mask = prepared_mask(net.model, mask, 13, form)
    x = net.dense(net.model.input(1, 13, 16), 16, 16)
    for _ in range(layers):
        x = net.block(x, lambda scores: masked_softmax(net.model, scores, mask, form))
    return net.model.proto(net.dense(net.norm(x), 16, 24))
