# SPDX-License-Identifier: Apache-2.0
"""MobileNet-v2 (Sandler et al., Inverted Residuals and Linear Bottlenecks, 2018, table 2)."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

STAGES = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
    (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip
"""Expansion, channels, blocks and stride of each stage."""


def convolution(
    channels_in: int, channels: int, kernel: int, stride: int, act: type[nn.Module], groups: int = 1
) -> list[nn.Module]:
    """A convolution with batch normalisation and an activation."""
    return [
        nn.Conv2d(channels_in, channels, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(channels),
        act(),
    ]


class InvertedResidual(nn.Module):
    """Expand, filter by channel, gate if there is one, project; a shortcut where shapes allow."""

    def __init__(
        self, channels_in: int, hidden: int, channels: int, stride: int, act: type[nn.Module], *,
        kernel: int = 3, gate: Callable[[], nn.Module] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.layers = nn.Sequential(
            *(convolution(channels_in, hidden, 1, 1, act) if hidden != channels_in else []),
            *convolution(hidden, hidden, kernel, stride, act, hidden),
            *([gate()] if gate else []),
            nn.Conv2d(hidden, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
        )
        self.has_shortcut = stride == 1 and channels_in == channels

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block."""
        return x + self.layers(x) if self.has_shortcut else self.layers(x)


class MobileNet(nn.Module):
    """Features, their mean over the image, and a classifier: (N, 3, 224, 224) -> logits."""

    def __init__(self, features: list[nn.Module], classifier: nn.Module) -> None:
        super().__init__()
        self.features = nn.Sequential(*features)
        self.classifier = classifier

    def forward(self, x: Tensor) -> Tensor:
        """Class logits."""
        return self.classifier(self.features(x).mean((2, 3)))


class MobileNetV2(MobileNet):
    """Seventeen inverted residuals."""

    def __init__(self, classes: int = 1000) -> None:
        layers = convolution(3, 32, 3, 2, nn.ReLU6)
        channels_in = 32
        for expansion, channels, blocks, stride in STAGES:
            for index in range(blocks):
                step, hidden = 1 if index else stride, channels_in * expansion
                layers.append(InvertedResidual(channels_in, hidden, channels, step, nn.ReLU6))
                channels_in = channels
        layers += convolution(channels_in, 1280, 1, 1, nn.ReLU6)
        super().__init__(layers, nn.Linear(1280, classes))
