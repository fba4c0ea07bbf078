# SPDX-License-Identifier: Apache-2.0
"""MobileNet-v2 (Sandler et al., Inverted Residuals and Linear Bottlenecks, 2018, table 2)."""

from __future__ import annotations

from torch import Tensor, nn

STAGES = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
    (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip
"""Expansion, channels, blocks and stride of each stage."""


def convolution(
    channels_in: int, channels: int, kernel: int, stride: int, groups: int = 1
) -> list[nn.Module]:
    """A convolution with batch normalisation and ReLU6."""
    return [
        nn.Conv2d(channels_in, channels, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(channels),
        nn.ReLU6(),
    ]


class InvertedResidual(nn.Module):
    """Expand, filter by channel, project; a shortcut where shapes allow."""

    def __init__(self, channels_in: int, channels: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = channels_in * expansion
        expand = convolution(channels_in, hidden, 1, 1) if expansion > 1 else []
        self.layers = nn.Sequential(
            *expand,
            *convolution(hidden, hidden, 3, stride, hidden),
            nn.Conv2d(hidden, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
        )
        self.has_shortcut = stride == 1 and channels_in == channels

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block."""
        return x + self.layers(x) if self.has_shortcut else self.layers(x)


class MobileNetV2(nn.Module):
    """Seventeen inverted residuals, (N, 3, 224, 224) -> (N, classes) logits."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        layers = convolution(3, 32, 3, 2)
        channels_in = 32
        for expansion, channels, blocks, stride in STAGES:
            for index in range(blocks):
                step = 1 if index else stride
                layers.append(InvertedResidual(channels_in, channels, step, expansion))
                channels_in = channels
        layers += convolution(channels_in, 1280, 1, 1)
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(1280, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Class logits."""
        return self.classifier(self.features(x).mean((2, 3)))
