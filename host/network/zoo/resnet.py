# SPDX-License-Identifier: Apache-2.0
"""ResNet-18 and -34, He et al., arXiv 1512.03385 (2015), table 1, projection shortcuts (B).

A basic block is ``relu(conv_b(relu(conv_a(x))) + shortcut(x))``. The add belongs to the epilogue
of ``conv_b``, so ``conv_b`` has ``residual`` and ``relu``; ``conv_a`` has ``relu`` alone; the 1x1
projection of a block that changes shape has neither. Batch normalisation is folded into the
weights. Layers are named C1 to C11 as in VTA's benchmark; the suffix ``r`` marks the variant
with a residual.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.host.network.network_table import NetworkTable, collect
from tilewright.host.network.workload import Workload, conv2d, dense


def _resnet(name: str, blocks_in_stage: Sequence[int]) -> NetworkTable:
    layers: list[Workload] = [conv2d("C1", 224, 3, 64, 7, 3, 2)]
    number = 2
    size, channels = 56, 64
    for blocks, width in zip(blocks_in_stage, (64, 128, 256, 512), strict=True):
        if width != channels:
            layers += [
                conv2d(f"C{number}", size, channels, width, 3, 1, 2),
                conv2d(f"C{number + 1}", size, channels, width, 1, 0, 2, relu=False),
            ]
            number += 2
            size //= 2
            channels = width
            plain = blocks - 1
        else:
            plain = blocks
        layers += [
            conv2d(f"C{number}", size, width, width, 3, 1, 1, count=plain),
            conv2d(f"C{number}r", size, width, width, 3, 1, 1, count=blocks, residual=True),
        ]
        number += 1
    layers.append(dense("FC", 1, channels, 1000))
    return NetworkTable(
        name=name,
        workloads=collect(layers),
        cpu_operators=(
            "max pool 3x3 stride 2 after C1: pooling is not tuned",
            "global average pool 7x7 before FC: pooling is not tuned",
        ),
    )


def resnet18() -> NetworkTable:
    """ResNet-18: stages of 2, 2, 2, 2 basic blocks."""
    return _resnet("resnet18", (2, 2, 2, 2))


def resnet34() -> NetworkTable:
    """ResNet-34: stages of 3, 4, 6, 3 basic blocks."""
    return _resnet("resnet34", (3, 4, 6, 3))
