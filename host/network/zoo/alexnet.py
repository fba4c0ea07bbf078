# SPDX-License-Identifier: Apache-2.0
"""AlexNet, the single-tower variant of Krizhevsky, arXiv 1404.5997 (2014), 64-192-384-256-256."""

from __future__ import annotations

from tilewright.host.network.network_table import NetworkTable, collect
from tilewright.host.network.workload import conv2d, dense


def alexnet() -> NetworkTable:
    """AlexNet on a 224 x 224 image: five convolutions and three dense layers."""
    return NetworkTable(
        name="alexnet",
        workloads=collect(
            (
                conv2d("conv1", 224, 3, 64, 11, 2, 4),
                conv2d("conv2", 27, 64, 192, 5, 2, 1),
                conv2d("conv3", 13, 192, 384, 3, 1, 1),
                conv2d("conv4", 13, 384, 256, 3, 1, 1),
                conv2d("conv5", 13, 256, 256, 3, 1, 1),
                dense("fc6", 1, 256 * 6 * 6, 4096, relu=True),
                dense("fc7", 1, 4096, 4096, relu=True),
                dense("fc8", 1, 4096, 1000),
            )
        ),
        cpu_operators=("max pool 3x3 stride 2 after conv1, conv2 and conv5: pooling is not tuned",),
    )
