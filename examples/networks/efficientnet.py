# SPDX-License-Identifier: Apache-2.0
"""EfficientNet-B0 (Tan and Le, EfficientNet: Rethinking Model Scaling, 2019, table 1)."""

from __future__ import annotations

from torch import Tensor, nn

from networks.squeeze_excite import SqueezeExcite

STAGES = (
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3),
)  # fmt: skip
"""Expansion, channels, blocks, stride and kernel of each stage."""


def convolution(
    channels_in: int, channels: int, kernel: int, stride: int, groups: int = 1
) -> list[nn.Module]:
    """A convolution with batch normalisation and SiLU."""
    return [
        nn.Conv2d(channels_in, channels, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(channels),
        nn.SiLU(),
    ]


class Block(nn.Module):
    """Expand, filter by channel, gate, project; a shortcut where shapes allow."""

    def __init__(
        self, channels_in: int, channels: int, kernel: int, stride: int, expansion: int
    ) -> None:
        super().__init__()
        hidden = channels_in * expansion
        expand = convolution(channels_in, hidden, 1, 1) if expansion > 1 else []
        self.layers = nn.Sequential(
            *expand,
            *convolution(hidden, hidden, kernel, stride, hidden),
            SqueezeExcite(hidden, max(1, channels_in // 4), nn.SiLU(), nn.Sigmoid()),
            nn.Conv2d(hidden, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
        )
        self.has_shortcut = stride == 1 and channels_in == channels

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block."""
        return x + self.layers(x) if self.has_shortcut else self.layers(x)


class EfficientNetB0(nn.Module):
    """Sixteen blocks, (N, 3, 224, 224) -> (N, classes) logits."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        layers = convolution(3, 32, 3, 2)
        channels_in = 32
        for expansion, channels, blocks, stride, kernel in STAGES:
            for index in range(blocks):
                step = 1 if index else stride
                layers.append(Block(channels_in, channels, kernel, step, expansion))
                channels_in = channels
        layers += convolution(channels_in, 1280, 1, 1)
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(1280, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Class logits."""
        return self.classifier(self.features(x).mean((2, 3)))
