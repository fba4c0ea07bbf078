# SPDX-License-Identifier: Apache-2.0
"""DenseNet-121 (Huang et al., Densely Connected Convolutional Networks, 2017, table 1)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

BLOCKS = (6, 12, 24, 16)
"""Layers of each dense block."""

GROWTH = 32


def unit(channels_in: int, channels: int, kernel: int) -> list[nn.Module]:
    """Batch normalisation, ReLU, convolution, in this order."""
    return [
        nn.BatchNorm2d(channels_in),
        nn.ReLU(),
        nn.Conv2d(channels_in, channels, kernel, padding=kernel // 2, bias=False),
    ]


class DenseLayer(nn.Module):
    """Adds channels to its input."""

    def __init__(self, channels_in: int) -> None:
        super().__init__()
        hidden = 4 * GROWTH
        self.layers = nn.Sequential(*unit(channels_in, hidden, 1), *unit(hidden, GROWTH, 3))

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C + growth, H, W)."""
        return torch.cat((x, self.layers(x)), 1)


class DenseNet121(nn.Module):
    """Four dense blocks, (N, 3, 224, 224) -> (N, classes) logits."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        channels = 2 * GROWTH
        layers: list[nn.Module] = [
            nn.Conv2d(3, channels, 7, 2, 3, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
        ]
        for index, count in enumerate(BLOCKS):
            if index:
                layers += [*unit(channels, channels // 2, 1), nn.AvgPool2d(2)]
                channels //= 2
            for _ in range(count):
                layers.append(DenseLayer(channels))
                channels += GROWTH
        self.features = nn.Sequential(*layers, nn.BatchNorm2d(channels), nn.ReLU())
        self.classifier = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Class logits."""
        return self.classifier(self.features(x).mean((2, 3)))
