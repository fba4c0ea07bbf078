# SPDX-License-Identifier: Apache-2.0
"""Swin-T (Liu et al., Swin Transformer: Hierarchical Vision Transformer, 2021, section 3)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

STAGES = ((96, 2, 3), (192, 2, 6), (384, 6, 12), (768, 2, 24))
"""Channels, blocks and heads of each stage."""

WINDOW = 7


def windows(x: Tensor) -> Tensor:
    """(N, H, W, C) -> (N * windows, 49, C)."""
    n, h, w, c = x.shape
    x = x.view(n, h // WINDOW, WINDOW, w // WINDOW, WINDOW, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, WINDOW * WINDOW, c)


def image(x: Tensor, n: int, size: int) -> Tensor:
    """Inverse of `windows`."""
    x = x.view(n, size // WINDOW, size // WINDOW, WINDOW, WINDOW, x.shape[-1])
    return x.permute(0, 1, 3, 2, 4, 5).reshape(n, size, size, x.shape[-1])


def shift_mask(size: int, shift: int) -> Tensor:
    """(windows, 1, 49, 49): what may not see each other in shifted windows."""
    area = torch.zeros(1, size, size, 1)
    spans = (slice(0, -WINDOW), slice(-WINDOW, -shift), slice(-shift, None))
    for number, (rows, columns) in enumerate((r, c) for r in spans for c in spans):
        area[:, rows, columns] = number
    flat = windows(area).squeeze(2)
    return ((flat[:, None, :] != flat[:, :, None]) * -100.0)[:, None]


class WindowAttention(nn.Module):
    """Attention inside windows with a bias for each relative position."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.factor = (width // heads) ** -0.5
        self.qkv = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        self.table = nn.Parameter(torch.randn((2 * WINDOW - 1) ** 2, heads) * 0.02)
        places = torch.stack(
            torch.meshgrid(torch.arange(WINDOW), torch.arange(WINDOW), indexing="ij")
        ).flatten(1)
        offsets = places[:, :, None] - places[:, None, :] + WINDOW - 1
        self.register_buffer("places", offsets[0] * (2 * WINDOW - 1) + offsets[1])

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """(windows, 49, C) -> (windows, 49, C)."""
        count, tokens, width = x.shape
        parts = self.qkv(x).view(count, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        query, key, value = parts[0], parts[1], parts[2]
        scores = (query * self.factor) @ key.transpose(-2, -1)
        scores = scores + self.table[self.places].permute(2, 0, 1)
        if mask is not None:
            scores = scores + mask
        mixed = (scores.softmax(-1) @ value).transpose(1, 2).reshape(count, tokens, width)
        return self.output(mixed)


class Block(nn.Module):
    """Attention in windows, shifted in every other block, and a feed-forward network."""

    def __init__(self, width: int, heads: int, size: int, shift: int) -> None:
        super().__init__()
        self.size, self.shift = size, shift
        self.attention_norm = nn.LayerNorm(width)
        self.attention = WindowAttention(width, heads)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.register_buffer("mask", shift_mask(size, shift) if shift else None)

    def forward(self, x: Tensor) -> Tensor:
        """(N, H, W, C) -> (N, H, W, C)."""
        y = self.attention_norm(x)
        if self.shift:
            y = torch.roll(y, (-self.shift, -self.shift), (1, 2))
        y = image(self.attention(windows(y), self.mask), x.shape[0], self.size)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), (1, 2))
        x = x + y
        return x + self.feed_forward(self.feed_forward_norm(x))


class Merge(nn.Module):
    """Half the size: 2 x 2 neighbours become channels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4 * width)
        self.reduce = nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(N, H, W, C) -> (N, H / 2, W / 2, 2 C)."""
        corners = [x[:, row::2, column::2] for column in (0, 1) for row in (0, 1)]
        return self.reduce(self.norm(torch.cat(corners, 3)))


class SwinTiny(nn.Module):
    """Twelve blocks, (N, 3, 224, 224) -> (N, classes) logits."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, STAGES[0][0], 4, 4)
        self.norm = nn.LayerNorm(STAGES[0][0])
        layers: list[nn.Module] = []
        size = 56
        for index, (width, blocks, heads) in enumerate(STAGES):
            if index:
                layers.append(Merge(width // 2))
                size //= 2
            for number in range(blocks):
                shift = WINDOW // 2 if number % 2 and size > WINDOW else 0
                layers.append(Block(width, heads, size, shift))
        self.layers = nn.Sequential(*layers)
        self.last_norm = nn.LayerNorm(STAGES[-1][0])
        self.classifier = nn.Linear(STAGES[-1][0], classes)

    def forward(self, x: Tensor) -> Tensor:
        """Class logits."""
        x = self.layers(self.norm(self.patches(x).permute(0, 2, 3, 1)))
        return self.classifier(self.last_norm(x).mean((1, 2)))
