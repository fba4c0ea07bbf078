# SPDX-License-Identifier: Apache-2.0
"""MobileNet-v3-small (Howard et al., Searching for MobileNetV3, 2019, table 2)."""

from __future__ import annotations

from torch import Tensor, nn

from networks.squeeze_excite import SqueezeExcite

BLOCKS = (
    (3, 16, 16, True, False, 2), (3, 72, 24, False, False, 2), (3, 88, 24, False, False, 1),
    (5, 96, 40, True, True, 2), (5, 240, 40, True, True, 1), (5, 240, 40, True, True, 1),
    (5, 120, 48, True, True, 1), (5, 144, 48, True, True, 1), (5, 288, 96, True, True, 2),
    (5, 576, 96, True, True, 1), (5, 576, 96, True, True, 1),
)  # fmt: skip
"""Kernel, hidden channels, channels, squeeze and excite, hard swish, stride."""


def eighths(channels: float) -> int:
    """The nearest multiple of 8 that is not below nine tenths (the authors' rule)."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded


def convolution(
    channels_in: int, channels: int, kernel: int, stride: int, act: type[nn.Module], groups: int = 1
) -> list[nn.Module]:
    """A convolution with batch normalisation and an activation."""
    return [
        nn.Conv2d(channels_in, channels, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(channels),
        act(),
    ]


class Block(nn.Module):
    """Expand, filter by channel, gate, project; a shortcut where shapes allow."""

    def __init__(
        self, channels_in: int, kernel: int, hidden: int, channels: int, gated: bool,
        hard: bool, stride: int,
    ) -> None:  # fmt: skip
        super().__init__()
        act = nn.Hardswish if hard else nn.ReLU
        gate = [SqueezeExcite(hidden, eighths(hidden / 4), nn.ReLU(), nn.Hardsigmoid())]
        self.layers = nn.Sequential(
            *(convolution(channels_in, hidden, 1, 1, act) if hidden != channels_in else []),
            *convolution(hidden, hidden, kernel, stride, act, hidden),
            *(gate if gated else []),
            nn.Conv2d(hidden, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
        )
        self.has_shortcut = stride == 1 and channels_in == channels

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block."""
        return x + self.layers(x) if self.has_shortcut else self.layers(x)


class MobileNetV3Small(nn.Module):
    """Eleven blocks, (N, 3, 224, 224) -> (N, classes) logits."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        layers = convolution(3, 16, 3, 2, nn.Hardswish)
        channels_in = 16
        for kernel, hidden, channels, gated, hard, stride in BLOCKS:
            layers.append(Block(channels_in, kernel, hidden, channels, gated, hard, stride))
            channels_in = channels
        layers += convolution(channels_in, 576, 1, 1, nn.Hardswish)
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Linear(576, 1024), nn.Hardswish(), nn.Linear(1024, classes)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Class logits."""
        return self.classifier(self.features(x).mean((2, 3)))
