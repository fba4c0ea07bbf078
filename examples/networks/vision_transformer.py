# SPDX-License-Identifier: Apache-2.0
"""ViT-tiny (Dosovitskiy et al., An Image is Worth 16x16 Words, 2021; DeiT's sizes)."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Attention(nn.Module):
    """Self-attention with one product for queries, keys and values; causal or not.

    (N, T, C) -> (N, T, C).
    """

    def __init__(self, width: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        self.heads = heads
        self.factor = (width // heads) ** -0.5
        self.qkv = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        self.causal = causal

    def forward(self, x: Tensor) -> Tensor:
        """Mix tokens."""
        parts = self.qkv(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind(0)
        scores = query @ key.transpose(2, 3) * self.factor
        if self.causal:
            tokens = x.shape[1]
            scores = scores + torch.full((tokens, tokens), -1e4).triu(1)
        return self.output((scores.softmax(3) @ value).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """Attention and a feed-forward network, each behind a normalisation and with a shortcut."""

    def __init__(self, width: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        """(N, T, C) -> (N, T, C)."""
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.feed_forward_norm(x))


class ViTTiny(nn.Module):
    """Twelve layers over patches of 16 x 16, (N, 3, 224, 224) -> (N, classes) logits."""

    def __init__(self, layers: int = 12, width: int = 192, heads: int = 3) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.class_token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.positions = nn.Parameter(torch.randn(1, 197, width) * 0.02)
        self.layers = nn.Sequential(*(Layer(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.classifier = nn.Linear(width, 1000)

    def forward(self, x: Tensor) -> Tensor:
        """Class logits."""
        patches = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat((self.class_token.expand(x.shape[0], -1, -1), patches), 1)
        return self.classifier(self.norm(self.layers(tokens + self.positions))[:, 0])
