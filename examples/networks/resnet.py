# SPDX-License-Identifier: Apache-2.0
"""ResNet-18 and ResNet-34 (He et al., Deep Residual Learning, 2015, table 1) for 224x224 images."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut, (N, C, H, W) -> (N, channels, H/stride, W/stride)."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(channels)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block."""
        y = functional.relu(self.first_norm(self.first(x)))
        y = self.second_norm(self.second(y))
        return functional.relu(y + self.shortcut(x))


class ResNet(nn.Module):
    """A residual network of basic blocks, (N, 3, 224, 224) -> (N, classes) logits."""

    def __init__(self, depths: tuple[int, ...], classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
        )
        blocks: list[nn.Module] = []
        channels_in = 64
        for stage, depth in enumerate(depths):
            channels = 64 << stage
            for index in range(depth):
                stride = 2 if stage and not index else 1
                blocks.append(BasicBlock(channels_in, channels, stride))
                channels_in = channels
        self.blocks = nn.Sequential(*blocks)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(channels_in, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Class logits."""
        return self.classifier(self.pool(self.blocks(self.stem(x))).flatten(1))


def resnet18() -> ResNet:
    """ResNet-18."""
    return ResNet((2, 2, 2, 2))


def resnet34() -> ResNet:
    """ResNet-34."""
    return ResNet((3, 4, 6, 3))
