# SPDX-License-Identifier: Apache-2.0
"""SqueezeNet 1.1 (Iandola et al., SqueezeNet, 2016; the cheaper revision 1.1)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Fire(nn.Module):
    """Squeeze to few channels, expand by 1x1 and 3x3 filters side by side."""

    def __init__(self, channels_in: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(channels_in, squeezed, 1)
        self.expand1 = nn.Conv2d(squeezed, expanded, 1)
        self.expand3 = nn.Conv2d(squeezed, expanded, 3, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, 2 * expanded, H, W)."""
        x = functional.relu(self.squeeze(x))
        return torch.cat([functional.relu(self.expand1(x)), functional.relu(self.expand3(x))], 1)


class SqueezeNet(nn.Module):
    """Eight fire modules, (N, 3, 224, 224) -> (N, classes) logits."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True),
            Fire(64, 16, 64), Fire(128, 16, 64), nn.MaxPool2d(3, 2, ceil_mode=True),
            Fire(128, 32, 128), Fire(256, 32, 128), nn.MaxPool2d(3, 2, ceil_mode=True),
            Fire(256, 48, 192), Fire(384, 48, 192), Fire(384, 64, 256), Fire(512, 64, 256),
        )  # fmt: skip
        self.classifier = nn.Sequential(
            nn.Dropout(), nn.Conv2d(512, classes, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Class logits."""
        return self.classifier(self.features(x)).flatten(1)
