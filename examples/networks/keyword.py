# SPDX-License-Identifier: Apache-2.0
"""A keyword spotter: DS-CNN small (Zhang et al., Hello Edge, 2017, table 5)."""

from __future__ import annotations

from torch import Tensor, nn


def _block(convolution: nn.Conv2d) -> list[nn.Module]:
    """A convolution with batch normalisation and ReLU."""
    return [convolution, nn.BatchNorm2d(convolution.out_channels), nn.ReLU()]


class KeywordSpotter(nn.Module):
    """Four separable convolutions over a second of audio, (N, 1, 49, 10) -> (N, 12) logits.

    The input has ten cepstral coefficients for each of 49 windows.
    """

    def __init__(self, classes: int = 12, width: int = 64) -> None:
        super().__init__()
        layers = _block(nn.Conv2d(1, width, (10, 4), 2, (5, 1), bias=False))
        for _ in range(4):
            layers += _block(nn.Conv2d(width, width, 3, padding=1, groups=width, bias=False))
            layers += _block(nn.Conv2d(width, width, 1, bias=False))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Class logits."""
        return self.classifier(self.features(x).mean((2, 3)))
