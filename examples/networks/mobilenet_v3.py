# SPDX-License-Identifier: Apache-2.0
"""MobileNet-v3-small (Howard et al., Searching for MobileNetV3, 2019, table 2)."""

from __future__ import annotations

from torch import nn

from networks.mobilenet import InvertedResidual, MobileNet, convolution
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


class MobileNetV3Small(MobileNet):
    """Eleven blocks."""

    def __init__(self, classes: int = 1000) -> None:
        layers = convolution(3, 16, 3, 2, nn.Hardswish)
        channels_in = 16
        for kernel, hidden, channels, gated, hard, stride in BLOCKS:
            act = nn.Hardswish if hard else nn.ReLU
            gate = SqueezeExcite(hidden, eighths(hidden / 4), nn.ReLU(), nn.Hardsigmoid())
            layers.append(
                InvertedResidual(
                    channels_in, hidden, channels, stride, act, kernel=kernel,
                    gate=(lambda drawn=gate: drawn) if gated else None,
                )
            )  # fmt: skip
            channels_in = channels
        layers += convolution(channels_in, 576, 1, 1, nn.Hardswish)
        classifier = nn.Sequential(nn.Linear(576, 1024), nn.Hardswish(), nn.Linear(1024, classes))
        super().__init__(layers, classifier)
