# SPDX-License-Identifier: Apache-2.0
"""ShuffleNet-v2 1x (Ma et al., ShuffleNet V2: Practical Guidelines, 2018, table 5)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

STAGES = ((116, 4), (232, 8), (464, 4))
"""Channels and blocks of each stage."""


def pointwise(channels_in: int, channels: int) -> list[nn.Module]:
    """A 1x1 convolution with batch normalisation and ReLU."""
    return [
        nn.Conv2d(channels_in, channels, 1, bias=False),
        nn.BatchNorm2d(channels),
        nn.ReLU(),
    ]


def depthwise(channels: int, stride: int) -> list[nn.Module]:
    """A depthwise 3x3 convolution with batch normalisation."""
    return [
        nn.Conv2d(channels, channels, 3, stride, 1, groups=channels, bias=False),
        nn.BatchNorm2d(channels),
    ]


class Block(nn.Module):
    """Two branches whose channels are shuffled."""

    def __init__(self, channels_in: int, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.halves = channels_in == channels
        stride = 1 if self.halves else 2
        entering = half if self.halves else channels_in
        self.side = nn.Sequential(
            *([] if self.halves else (*depthwise(channels_in, 2), *pointwise(channels_in, half)))
        )
        self.main = nn.Sequential(
            *pointwise(entering, half), *depthwise(half, stride), *pointwise(half, half)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block."""
        kept, worked = x.chunk(2, 1) if self.halves else (x, x)
        joined = torch.cat((self.side(kept), self.main(worked)), 1)
        return joined.unflatten(1, (2, -1)).transpose(1, 2).flatten(1, 2)


class ShuffleNetV2(nn.Module):
    """Sixteen blocks, (N, 3, 224, 224) -> (N, classes) logits."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            nn.Conv2d(3, 24, 3, 2, 1, bias=False),
            nn.BatchNorm2d(24),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
        ]
        channels_in = 24
        for channels, blocks in STAGES:
            for _ in range(blocks):
                layers.append(Block(channels_in, channels))
                channels_in = channels
        self.features = nn.Sequential(*layers, *pointwise(channels_in, 1024))
        self.classifier = nn.Linear(1024, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Class logits."""
        return self.classifier(self.features(x).mean((2, 3)))
