# SPDX-License-Identifier: Apache-2.0
"""A Transformer encoder (Vaswani et al., 2017) of the shape of BERT-tiny (Turc et al., 2019)."""

from __future__ import annotations

import math

from torch import Tensor, nn


class Attention(nn.Module):
    """Self-attention of several heads, (N, T, C) -> (N, T, C)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.output = nn.Linear(width, width)

    def split(self, x: Tensor) -> Tensor:
        """(N, T, C) -> (N, heads, T, C / heads)."""
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Mix tokens."""
        query, key, value = (self.split(f(x)) for f in (self.query, self.key, self.value))
        scores = query @ key.transpose(2, 3) / math.sqrt(query.shape[3])
        return self.output((scores.softmax(3) @ value).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """Attention and a feed-forward network, each with a shortcut and normalisation behind."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.attention_norm = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width)
        )
        self.feed_forward_norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        """(N, T, C) -> (N, T, C)."""
        x = self.attention_norm(x + self.attention(x))
        return self.feed_forward_norm(x + self.feed_forward(x))


class Encoder(nn.Module):
    """Layers over embedded tokens, (N, tokens, width) -> (N, tokens, width)."""

    def __init__(
        self, layers: int = 2, width: int = 128, heads: int = 2, hidden: int = 512
    ) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(Layer(width, heads, hidden) for _ in range(layers)))

    def forward(self, x: Tensor) -> Tensor:
        """Encoded tokens."""
        return self.layers(x)
