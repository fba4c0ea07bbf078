# SPDX-License-Identifier: Apache-2.0
"""Decoder blocks of the shape of GPT-2 (Radford et al., 2019), small, over embedded tokens."""

from __future__ import annotations

from torch import Tensor, nn

from networks.vision_transformer import Layer


class Decoder(nn.Module):
    """Causal layers and a vocabulary, (N, tokens, width) -> (N, tokens, vocabulary)."""

    def __init__(
        self, layers: int = 2, width: int = 256, heads: int = 4, vocabulary: int = 4096
    ) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(Layer(width, heads, causal=True) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.vocabulary = nn.Linear(width, vocabulary, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of the next token at each place."""
        return self.vocabulary(self.norm(self.layers(x)))
