# SPDX-License-Identifier: Apache-2.0
"""VGG-16 (Simonyan and Zisserman, Very Deep Convolutional Networks, 2014, configuration D)."""

from __future__ import annotations

from torch import Tensor, nn

STAGES = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))


class VGG(nn.Module):
    """Stages of 3x3 convolutions and three dense layers, (N, 3, 224, 224) -> (N, classes)."""

    def __init__(self, classes: int = 1000, stages: tuple[tuple[int, ...], ...] = STAGES) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels_in = 3
        for stage in stages:
            for channels in stage:
                layers += [nn.Conv2d(channels_in, channels, 3, 1, 1), nn.ReLU()]
                channels_in = channels
            layers.append(nn.MaxPool2d(2, 2))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Linear(512 * 7 * 7, 4096), nn.ReLU(), nn.Dropout(),
            nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout(),
            nn.Linear(4096, classes),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """Class logits."""
        return self.classifier(self.features(x))
