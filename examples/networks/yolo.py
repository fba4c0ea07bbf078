# SPDX-License-Identifier: Apache-2.0
"""One-stage detectors of the shapes of YOLOv5n and YOLOv8n (Ultralytics, 2021 and 2023).

Own definitions from the published structures. Boxes leave them as the heads compute them, not
decoded: of YOLOv5n by anchor, of YOLOv8n as distributions.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def convolution(
    channels_in: int, channels: int, kernel: int = 1, stride: int = 1, padding: int | None = None
) -> nn.Module:
    """A convolution with batch normalisation and SiLU; padded by half the kernel by default."""
    padding = kernel // 2 if padding is None else padding
    return nn.Sequential(
        nn.Conv2d(channels_in, channels, kernel, stride, padding, bias=False),
        nn.BatchNorm2d(channels),
        nn.SiLU(),
    )


class Bottleneck(nn.Module):
    """Two convolutions, the second 3x3, with or without a shortcut."""

    def __init__(self, channels: int, has_shortcut: bool, first_kernel: int = 3) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            convolution(channels, channels, first_kernel), convolution(channels, channels, 3)
        )
        self.has_shortcut = has_shortcut

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block."""
        return x + self.layers(x) if self.has_shortcut else self.layers(x)


class C3(nn.Module):
    """Refine one projection of the input, keep another as it is, join both."""

    def __init__(self, channels_in: int, channels: int, blocks: int, has_shortcut: bool) -> None:
        super().__init__()
        half = channels // 2
        self.refined = nn.Sequential(
            convolution(channels_in, half),
            *(Bottleneck(half, has_shortcut, first_kernel=1) for _ in range(blocks)),
        )
        self.kept = convolution(channels_in, half)
        self.leave = convolution(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block."""
        return self.leave(torch.cat((self.refined(x), self.kept(x)), 1))


class C2f(nn.Module):
    """Split channels, refine one half repeatedly, join every stage."""

    def __init__(self, channels_in: int, channels: int, blocks: int, has_shortcut: bool) -> None:
        super().__init__()
        half = channels // 2
        self.enter = convolution(channels_in, channels)
        self.blocks = nn.ModuleList(Bottleneck(half, has_shortcut) for _ in range(blocks))
        self.leave = convolution((2 + blocks) * half, channels)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block."""
        parts = list(self.enter(x).chunk(2, 1))
        for block in self.blocks:
            parts.append(block(parts[-1]))
        return self.leave(torch.cat(parts, 1))


class Sppf(nn.Module):
    """Three 5x5 maximum poolings one after another, joined."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.enter = convolution(channels, channels // 2)
        self.pool = nn.MaxPool2d(5, 1, 2)
        self.leave = convolution(2 * channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block."""
        parts = [self.enter(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.leave(torch.cat(parts, 1))


class Head(nn.Module):
    """Boxes (as 4 x 16 bins) and class scores of one scale."""

    def __init__(self, channels: int, boxes: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.boxes, self.scores = (
            nn.Sequential(
                convolution(channels, width, 3),
                convolution(width, width, 3),
                nn.Conv2d(width, outputs, 1),
            )
            for width, outputs in ((boxes, 64), (hidden, classes))
        )

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, 64 + classes, H * W)."""
        return torch.cat((self.boxes(x), self.scores(x)), 1).flatten(2)


class Pyramid(nn.Module):
    """A backbone and a two-way feature pyramid, of the blocks that a subclass gives them."""

    def scales(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The features of an image, the finest scale first."""
        early = self.early(x)
        middle = self.middle(early)
        late = self.late(middle)
        mixed = self.up_middle(torch.cat((self.up(late), middle), 1))
        first = self.up_early(torch.cat((self.up(mixed), early), 1))
        second = self.join_middle(torch.cat((self.down_early(first), mixed), 1))
        third = self.join_late(torch.cat((self.down_middle(second), late), 1))
        return first, second, third


class YoloV5Nano(Pyramid):
    """Backbone, two-way feature pyramid and heads, (N, 3, S, S) -> (N, 3 * (5 + classes), cells).

    Each cell has three anchors.
    """

    def __init__(self, classes: int = 80) -> None:
        super().__init__()
        self.early = nn.Sequential(
            convolution(3, 16, 6, 2, padding=2),
            convolution(16, 32, 3, 2),
            C3(32, 32, 1, True),
            convolution(32, 64, 3, 2),
            C3(64, 64, 2, True),
        )
        self.middle = nn.Sequential(convolution(64, 128, 3, 2), C3(128, 128, 3, True))
        self.late = nn.Sequential(
            convolution(128, 256, 3, 2), C3(256, 256, 1, True), Sppf(256), convolution(256, 128)
        )
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.up_middle = nn.Sequential(C3(256, 128, 1, False), convolution(128, 64))
        self.up_early = C3(128, 64, 1, False)
        self.down_early, self.down_middle = convolution(64, 64, 3, 2), convolution(128, 128, 3, 2)
        self.join_middle, self.join_late = C3(128, 128, 1, False), C3(256, 256, 1, False)
        self.heads = nn.ModuleList(nn.Conv2d(c, 3 * (5 + classes), 1) for c in (64, 128, 256))

    def forward(self, x: Tensor) -> Tensor:
        """Boxes and scores of all cells, the finest scale first."""
        scales = zip(self.heads, self.scales(x), strict=True)
        return torch.cat([head(y).flatten(2) for head, y in scales], 2)


class YoloV8Nano(Pyramid):
    """Backbone, two-way feature pyramid and heads, (N, 3, S, S) -> (N, 64 + classes, anchors)."""

    def __init__(self, classes: int = 80) -> None:
        super().__init__()
        self.early = nn.Sequential(
            convolution(3, 16, 3, 2),
            convolution(16, 32, 3, 2),
            C2f(32, 32, 1, True),
            convolution(32, 64, 3, 2),
            C2f(64, 64, 2, True),
        )
        self.middle = nn.Sequential(convolution(64, 128, 3, 2), C2f(128, 128, 2, True))
        self.late = nn.Sequential(convolution(128, 256, 3, 2), C2f(256, 256, 1, True), Sppf(256))
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.up_middle, self.up_early = C2f(384, 128, 1, False), C2f(192, 64, 1, False)
        self.down_early, self.down_middle = convolution(64, 64, 3, 2), convolution(128, 128, 3, 2)
        self.join_middle, self.join_late = C2f(192, 128, 1, False), C2f(384, 256, 1, False)
        self.heads = nn.ModuleList(Head(c, 64, max(64, classes), classes) for c in (64, 128, 256))

    def forward(self, x: Tensor) -> Tensor:
        """Boxes and scores of all anchors."""
        scales = zip(self.heads, self.scales(x), strict=True)
        return torch.cat([head(y) for head, y in scales], 2)
