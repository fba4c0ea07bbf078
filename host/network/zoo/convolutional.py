# SPDX-License-Identifier: Apache-2.0
"""Networks of images as layer tables.

AlexNet, the single-tower variant of Krizhevsky, arXiv 1404.5997 (2014), 64-192-384-256-256.

VGG, Simonyan and Zisserman, arXiv 1409.1556 (2014), table 1, columns A, B, D and E.

ResNet-18 and -34, He et al., arXiv 1512.03385 (2015), table 1, projection shortcuts (B).

A basic block is ``relu(conv_b(relu(conv_a(x))) + shortcut(x))``. The add belongs to the epilogue
of ``conv_b``, so ``conv_b`` has ``residual`` and ``relu``; ``conv_a`` has ``relu`` alone; the 1x1
projection of a block that changes shape has neither. Batch normalisation is folded into the
weights. Layers are named C1 to C11 as in VTA's benchmark; the suffix ``r`` marks the variant
with a residual.

SqueezeNet 1.0, Iandola et al., arXiv 1602.07360 (2016), and the authors' lighter release 1.1.

Every max pool is 3x3 stride 2 with ceiling rounding. Names follow the paper: fire2 to fire9.

MobileNet-v2, Sandler et al., arXiv 1801.04381 (2018), table 2, width multiplier 1.

ReLU6 is ``relu`` here: its upper bound is the top of the int8 range of the output's scale.

GoogLeNet, Szegedy et al., arXiv 1409.4842 (2014), table 1; its branches of 5x5 are 3x3, as in
torchvision.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tilewright.host.network.network_table import NetworkTable, collect
from tilewright.host.network.workload import Workload, conv2d, dense, depthwise

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


_INCEPTIONS = (
    # name, rows, 1x1, 3x3 reduced, 3x3, 5x5 reduced, 5x5, after the pool
    ("3a", 28, 64, 96, 128, 16, 32, 32),
    ("3b", 28, 128, 128, 192, 32, 96, 64),
    ("4a", 14, 192, 96, 208, 16, 48, 64),
    ("4b", 14, 160, 112, 224, 24, 64, 64),
    ("4c", 14, 128, 128, 256, 24, 64, 64),
    ("4d", 14, 112, 144, 288, 32, 64, 64),
    ("4e", 14, 256, 160, 320, 32, 128, 128),
    ("5a", 7, 256, 160, 320, 32, 128, 128),
    ("5b", 7, 384, 192, 384, 48, 128, 128),
)


def googlenet() -> NetworkTable:
    """GoogLeNet without its auxiliary classifiers."""
    layers = [
        conv2d("conv1", 224, 3, 64, 7, 3, 2),
        conv2d("conv2", 56, 64, 64, 1, 0, 1),
        conv2d("conv3", 56, 64, 192, 3, 1, 1),
    ]
    channels = 192
    for name, size, plain, reduced3, wide3, reduced5, wide5, pooled in _INCEPTIONS:
        layers += [
            conv2d(f"{name}.1x1", size, channels, plain, 1, 0, 1),
            conv2d(f"{name}.3x3.reduce", size, channels, reduced3, 1, 0, 1),
            conv2d(f"{name}.3x3", size, reduced3, wide3, 3, 1, 1),
            conv2d(f"{name}.5x5.reduce", size, channels, reduced5, 1, 0, 1),
            conv2d(f"{name}.5x5", size, reduced5, wide5, 3, 1, 1),
            conv2d(f"{name}.pool", size, channels, pooled, 1, 0, 1),
        ]
        channels = plain + wide3 + wide5 + pooled
    layers.append(dense("fc", 1, channels, 1000))
    return NetworkTable(
        name="googlenet",
        workloads=collect(layers),
        cpu_operators=(
            "max pool 3x3 stride 2 after conv1, conv3, 3b and 4e: pooling is not tuned",
            "max pool 3x3 stride 1 before NAME.pool: pooling is not tuned",
            "global average pool before fc: pooling is not tuned",
        ),
    )
