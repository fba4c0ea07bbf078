# SPDX-License-Identifier: Apache-2.0
"""Transformers, on 128 tokens.

The encoder: Vaswani et al., arXiv 1706.03762 (2017), base model. BERT base: Devlin et al., arXiv
1810.04805 (2018); tiny: Turc et al., arXiv 1908.08962 (2019). GPT-2: Radford et al. (2019), the
smallest. All heads are 64 wide.

The two products of attention have activations in the place of weights: the accelerator computes
them like any dense layer, once a head, with one scale for all its channels.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tilewright.host.network.network_table import NetworkTable, collect
from tilewright.host.network.workload import Workload, dense

TOKENS: Final = 128

_HEAD: Final = 64
_WORD_PIECES: Final = 50257
"""GPT-2's vocabulary."""
_NOT_OFFLOADED: Final = (
    "softmax of the scores, layer normalisation and residual adds: not offloaded",
    "embedding and positional encoding before the first layer: not offloaded",
)


def _layers(
    layers: int, width: int, *, relu: bool = False, fused: bool = False
) -> tuple[Workload, ...]:
    """Attention and feed-forward of all layers; ``fused``: one product for query, key and value."""
    heads = width // _HEAD
    query_key_value = (
        dense("query_key_value", TOKENS, width, 3 * width, count=layers)
        if fused
        else dense("query_key_value", TOKENS, width, width, count=3 * layers)
    )
    return (
        query_key_value,
        dense("scores", TOKENS, _HEAD, TOKENS, count=heads * layers),
        dense("context", TOKENS, TOKENS, _HEAD, count=heads * layers),
        dense("output", TOKENS, width, width, count=layers),
        dense("inner", TOKENS, width, 4 * width, relu=relu, count=layers),
        dense("outer", TOKENS, 4 * width, width, count=layers),
    )


def decoder_block(*, width: int, context: int, weight_bits: int = 8) -> tuple[Workload, ...]:
    """One block of a GPT that computes one token: products of a matrix and a vector.

    Each weight is used once, so that reading them is what takes time. The keys and values of
    earlier tokens are int8: they take the place of weights in ``scores`` and ``context``.
    """
    heads = width // _HEAD
    weighted = (
        dense("query_key_value", 1, width, 3 * width),
        dense("output", 1, width, width),
        dense("inner", 1, width, 4 * width),
        dense("outer", 1, 4 * width, width),
    )
    return (
        *(replace(layer, weight_bits=weight_bits) for layer in weighted),
        dense("scores", 1, _HEAD, context, count=heads),
        dense("context", 1, context, _HEAD, count=heads),
    )


def transformer_encoder() -> NetworkTable:
    """The base encoder, without embedding."""
    return NetworkTable(
        name="transformer_encoder",
        workloads=collect(_layers(6, 512, relu=True)),
        cpu_operators=_NOT_OFFLOADED,
    )


def _bert(name: str, layers: int, width: int) -> NetworkTable:
    return NetworkTable(
        name=name,
        workloads=collect((*_layers(layers, width), dense("pooler", 1, width, width))),
        cpu_operators=(*_NOT_OFFLOADED, "GELU and tanh: not offloaded"),
    )


def bert_base() -> NetworkTable:
    """BERT base: 12 layers of width 768, and the pooler."""
    return _bert("bert_base", 12, 768)


def bert_tiny() -> NetworkTable:
    """BERT tiny: 2 layers of width 128, and the pooler."""
    return _bert("bert_tiny", 2, 128)


def gpt2() -> NetworkTable:
    """GPT-2 of 12 layers of width 768, and the scores of all words for each token."""
    return NetworkTable(
        name="gpt2",
        workloads=collect(
            (*_layers(12, 768, fused=True), dense("words", TOKENS, 768, _WORD_PIECES))
        ),
        cpu_operators=(*_NOT_OFFLOADED, "GELU: not offloaded"),
    )
