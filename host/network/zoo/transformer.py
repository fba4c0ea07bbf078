# SPDX-License-Identifier: Apache-2.0
"""The encoder of the Transformer, Vaswani et al., arXiv 1706.03762 (2017), base model.

Six layers of width 512 with eight heads and an inner width of 2048, on 128 tokens. The two
products of attention have activations in the place of weights: the accelerator computes them like
any dense layer, once a head, with one scale for all its channels.
"""

from __future__ import annotations

from typing import Final

from tilewright.host.network.network_table import NetworkTable, collect
from tilewright.host.network.workload import dense

TOKENS: Final = 128
LAYERS: Final = 6
WIDTH: Final = 512
HEADS: Final = 8
INNER: Final = 2048


def transformer_encoder() -> NetworkTable:
    """The base encoder on 128 tokens, without embedding."""
    head = WIDTH // HEADS
    return NetworkTable(
        name="transformer_encoder",
        workloads=collect(
            (
                dense("query_key_value", TOKENS, WIDTH, WIDTH, count=3 * LAYERS),
                dense("scores", TOKENS, head, TOKENS, count=HEADS * LAYERS),
                dense("context", TOKENS, TOKENS, head, count=HEADS * LAYERS),
                dense("output", TOKENS, WIDTH, WIDTH, count=LAYERS),
                dense("inner", TOKENS, WIDTH, INNER, relu=True, count=LAYERS),
                dense("outer", TOKENS, INNER, WIDTH, count=LAYERS),
            )
        ),
        cpu_operators=(
            "softmax of the scores, layer normalisation and residual adds: not offloaded",
            "embedding and positional encoding before the first layer: not offloaded",
        ),
    )
