# SPDX-License-Identifier: Apache-2.0
"""SqueezeNet 1.0, Iandola et al., arXiv 1602.07360 (2016), and the authors' lighter release 1.1.

Every max pool is 3x3 stride 2 with ceiling rounding. Names follow the paper: fire2 to fire9.
"""

from __future__ import annotations

from collections.abc import Collection

from tilewright.host.network.network_table import NetworkTable, collect
from tilewright.host.network.workload import Workload, conv2d

_FIRES = (
    # squeeze channels, channels of each expand path; fire2 to fire9
    (16, 64),
    (16, 64),
    (32, 128),
    (32, 128),
    (48, 192),
    (48, 192),
    (64, 256),
    (64, 256),
)


def _pooled(size: int) -> int:
    """Output rows of a 3x3 stride 2 max pool with ceiling rounding."""
    return -(-(size - 3) // 2) + 1


def _squeezenet(name: str, stem: Workload, pool_before: Collection[int]) -> NetworkTable:
    layers = [stem]
    size, channels = stem.out_height, stem.channels_out
    for fire, (squeeze, expand) in enumerate(_FIRES, 2):
        if fire in pool_before:
            size = _pooled(size)
        layers += [
            conv2d(f"fire{fire}.squeeze", size, channels, squeeze, 1, 0, 1),
            conv2d(f"fire{fire}.expand1x1", size, squeeze, expand, 1, 0, 1),
            conv2d(f"fire{fire}.expand3x3", size, squeeze, expand, 3, 1, 1),
        ]
        channels = 2 * expand
    layers.append(conv2d("conv10", size, channels, 1000, 1, 0, 1))
    fires = ", ".join(f"fire{fire}" for fire in sorted(pool_before))
    return NetworkTable(
        name=name,
        workloads=collect(layers),
        cpu_operators=(
            f"max pool 3x3 stride 2 before {fires}: pooling is not tuned",
            "concatenation of the two expand paths in each fire module: moves data only",
            "global average pool after conv10: pooling is not tuned",
        ),
    )


def squeezenet1_0() -> NetworkTable:
    """SqueezeNet 1.0: 7x7 stem of 96 channels, pools before fire2, fire5 and fire9."""
    return _squeezenet("squeezenet1_0", conv2d("conv1", 224, 3, 96, 7, 0, 2), (2, 5, 9))


def squeezenet1_1() -> NetworkTable:
    """SqueezeNet 1.1: 3x3 stem of 64 channels, pools before fire2, fire4 and fire6."""
    return _squeezenet("squeezenet1_1", conv2d("conv1", 224, 3, 64, 3, 0, 2), (2, 4, 6))
