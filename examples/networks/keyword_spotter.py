# SPDX-License-Identifier: Apache-2.0
"""A keyword spotter on MFCC frames: temporal convolutions (after Choi et al., TC-ResNet, 2019)."""

from __future__ import annotations

from torch import Tensor, nn

CHANNELS = (24, 36, 48)
"""Of each residual block."""


class Block(nn.Module):
    """Two convolutions over time of width 9, the first with stride 2, and a shortcut."""

    def __init__(self, channels_in: int, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(channels_in, channels, 9, 2, 4, bias=False),
            nn.BatchNorm1d(channels),
            nn.ReLU(),
            nn.Conv1d(channels, channels, 9, 1, 4, bias=False),
            nn.BatchNorm1d(channels),
        )
        self.shortcut = nn.Sequential(
            nn.Conv1d(channels_in, channels, 1, 2, bias=False), nn.BatchNorm1d(channels)
        )
        self.activation = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, T) -> (N, C', T / 2)."""
        return self.activation(self.layers(x) + self.shortcut(x))


class KeywordSpotter(nn.Module):
    """Three blocks, (N, 40 coefficients, frames) -> (N, keywords) logits."""

    def __init__(self, keywords: int = 12) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv1d(40, 16, 3, 1, 1, bias=False)]
        channels_in = 16
        for channels in CHANNELS:
            layers.append(Block(channels_in, channels))
            channels_in = channels
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(channels_in, keywords)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of the keywords."""
        return self.classifier(self.features(x).mean(2))
