# SPDX-License-Identifier: Apache-2.0
"""MobileNet-v2, Sandler et al., arXiv 1801.04381 (2018), table 2, width multiplier 1.

ReLU6 is ``relu`` here: its upper bound is the top of the int8 range of the output's scale.
"""

from __future__ import annotations

from tilewright.host.network.network_table import NetworkTable, collect
from tilewright.host.network.workload import Workload, conv2d, dense, depthwise

_BOTTLENECKS = (
    # expansion, output channels, repeats, stride of the first
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def mobilenet_v2() -> NetworkTable:
    """MobileNet-v2 on a 224 x 224 image: 17 inverted residual blocks."""
    layers: list[Workload] = [conv2d("stem", 224, 3, 32, 3, 1, 2)]
    size, channels, block = 112, 32, 0
    for expansion, width, repeats, first_stride in _BOTTLENECKS:
        for repeat in range(repeats):
            block += 1
            stride = first_stride if repeat == 0 else 1
            hidden = channels * expansion
            if expansion != 1:
                layers.append(conv2d(f"b{block}.expand", size, channels, hidden, 1, 0, 1))
            layers.append(depthwise(f"b{block}.depthwise", size, hidden, 3, 1, stride))
            size //= stride
            layers.append(
                conv2d(
                    f"b{block}.project", size, hidden, width, 1, 0, 1,
                    relu=False, residual=stride == 1 and channels == width,
                )
            )  # fmt: skip
            channels = width
    layers += [conv2d("head", size, channels, 1280, 1, 0, 1), dense("FC", 1, 1280, 1000)]
    return NetworkTable(
        name="mobilenet_v2",
        workloads=collect(layers),
        cpu_operators=("global average pool 7x7 before FC: pooling is not tuned",),
    )
