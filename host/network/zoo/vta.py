# SPDX-License-Identifier: Apache-2.0
"""VTA's ResNet-18 conformance layers C1 to C11, Moreau et al., arXiv 1807.04188, table 1.

Each is a convolution with bias, shift and a clip to 0..127, without residual adds: the layers
that VTA, AutoTVM and their successors quote. The counts are those of ResNet-18.
"""

from __future__ import annotations

from tilewright.host.network.network_table import NetworkTable
from tilewright.host.network.workload import conv2d

_LAYERS = (
    # rows and columns, channels in, channels out, kernel, padding, stride, count
    (224, 3, 64, 7, 3, 2, 1),
    (56, 64, 64, 3, 1, 1, 4),
    (56, 64, 128, 3, 1, 2, 1),
    (56, 64, 128, 1, 0, 2, 1),
    (28, 128, 128, 3, 1, 1, 3),
    (28, 128, 256, 3, 1, 2, 1),
    (28, 128, 256, 1, 0, 2, 1),
    (14, 256, 256, 3, 1, 1, 3),
    (14, 256, 512, 3, 1, 2, 1),
    (14, 256, 512, 1, 0, 2, 1),
    (7, 512, 512, 3, 1, 1, 3),
)


def vta_resnet18() -> NetworkTable:
    """The eleven convolutions of VTA's ResNet-18 benchmark; C1 is the 7x7 stem."""
    return NetworkTable(
        name="vta-resnet18",
        workloads=tuple(
            conv2d(f"C{number}", *shape, count=count)
            for number, (*shape, count) in enumerate(_LAYERS, 1)
        ),
        cpu_operators=(
            "max pool, residual adds, global average pool and FC: outside VTA's benchmark table",
        ),
    )
