# SPDX-License-Identifier: Apache-2.0
"""VGG, Simonyan and Zisserman, arXiv 1409.1556 (2014), table 1, columns A, B, D and E."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.host.network.network_table import NetworkTable, collect
from tilewright.host.network.workload import Workload, conv2d, dense

_STAGE_CHANNELS = (64, 128, 256, 512, 512)


def _vgg(name: str, convs_in_stage: Sequence[int]) -> NetworkTable:
    layers: list[Workload] = []
    size, channels = 224, 3
    for stage, (convs, width) in enumerate(zip(convs_in_stage, _STAGE_CHANNELS, strict=True), 1):
        for index in range(1, convs + 1):
            layers.append(conv2d(f"conv{stage}_{index}", size, channels, width, 3, 1, 1))
            channels = width
        size //= 2
    layers += [
        dense("fc6", 1, channels * size * size, 4096, relu=True),
        dense("fc7", 1, 4096, 4096, relu=True),
        dense("fc8", 1, 4096, 1000),
    ]
    return NetworkTable(
        name=name,
        workloads=collect(layers),
        cpu_operators=("max pool 2x2 stride 2 after each stage: pooling is not tuned",),
    )


def vgg11() -> NetworkTable:
    """VGG-11 (column A)."""
    return _vgg("vgg11", (1, 1, 2, 2, 2))


def vgg13() -> NetworkTable:
    """VGG-13 (column B)."""
    return _vgg("vgg13", (2, 2, 2, 2, 2))


def vgg16() -> NetworkTable:
    """VGG-16 (column D)."""
    return _vgg("vgg16", (2, 2, 3, 3, 3))


def vgg19() -> NetworkTable:
    """VGG-19 (column E)."""
    return _vgg("vgg19", (2, 2, 4, 4, 4))
