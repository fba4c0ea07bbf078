# SPDX-License-Identifier: Apache-2.0
"""ConvNeXt-T (Liu et al., A ConvNet for the 2020s, 2022, section 2)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

STAGES = ((96, 3), (192, 3), (384, 9), (768, 3))
"""Channels and blocks of each stage."""


class ChannelNorm(nn.Module):
    """Layer normalisation over the channels of an image."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C, H, W)."""
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Block(nn.Module):
    """A depthwise 7x7 convolution and two dense layers with channels last."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.expand = nn.Linear(channels, 4 * channels)
        self.activation = nn.GELU()
        self.project = nn.Linear(4 * channels, channels)
        self.scale = nn.Parameter(torch.full((channels,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block."""
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.scale * self.project(self.activation(self.expand(y)))
        return x + y.permute(0, 3, 1, 2)


class ConvNeXtTiny(nn.Module):
    """Eighteen blocks, (N, 3, 224, 224) -> (N, classes) logits."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        channels = STAGES[0][0]
        layers: list[nn.Module] = [nn.Conv2d(3, channels, 4, 4), ChannelNorm(channels)]
        for index, (width, blocks) in enumerate(STAGES):
            if index:
                layers += [ChannelNorm(channels), nn.Conv2d(channels, width, 2, 2)]
            channels = width
            layers += [Block(channels) for _ in range(blocks)]
        self.features = nn.Sequential(*layers)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.classifier = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Class logits."""
        return self.classifier(self.norm(self.features(x).mean((2, 3))))
