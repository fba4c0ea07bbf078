# SPDX-License-Identifier: Apache-2.0
"""EfficientNet-B0 (Tan and Le, EfficientNet: Rethinking Model Scaling, 2019, table 1)."""

from __future__ import annotations

from functools import partial

from torch import nn

from networks.mobilenet import InvertedResidual, MobileNet, convolution
from networks.squeeze_excite import SqueezeExcite

STAGES = (
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3),
)  # fmt: skip
"""Expansion, channels, blocks, stride and kernel of each stage."""


class EfficientNetB0(MobileNet):
    """Sixteen blocks."""

    def __init__(self, classes: int = 1000) -> None:
        layers = convolution(3, 32, 3, 2, nn.SiLU)
        channels_in = 32
        for expansion, channels, blocks, stride, kernel in STAGES:
            for index in range(blocks):
                step, hidden = 1 if index else stride, channels_in * expansion
                squeezed = max(1, channels_in // 4)
                gate = partial(SqueezeExcite, hidden, squeezed, nn.SiLU(), nn.Sigmoid())
                layers.append(
                    InvertedResidual(
                        channels_in, hidden, channels, step, nn.SiLU, kernel=kernel, gate=gate
                    )
                )
                channels_in = channels
        layers += convolution(channels_in, 1280, 1, 1, nn.SiLU)
        super().__init__(layers, nn.Linear(1280, classes))
