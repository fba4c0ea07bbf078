# SPDX-License-Identifier: Apache-2.0
"""`Workload`: one operator instance of a network with its shape, and how often it occurs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from math import prod
from typing import Any, Final

from tilewright.host.common.calls import named
from tilewright.host.common.errors import WorkloadError
from tilewright.host.common.plain_values import is_integer, require_keys
from tilewright.host.common.str_enum import StrEnum

MAX_REDUCTION: Final = (2**31 - 1) // (128 * 128)
"""Longest int8 reduction that cannot overflow an int32 accumulator."""


class Kind(StrEnum):
    """Operator kinds. `CONV2D` covers dense and matmul (see `dense`)."""

    CONV2D = "conv2d"
    DEPTHWISE = "depthwise"
    MAXPOOL = "maxpool"
    AVGPOOL = "avgpool"
    """Of windows that GEMM does not take as a depthwise convolution, such as a large image's."""
    MULTIPLY = "multiply"
    """Each element times the one of another tensor in its place."""
    SCALE = "scale"
    """Each element times the one of its image and channel: the factor has one pixel."""
    MAXIMUM = "maximum"
    """The greater one of each element and the one of another tensor in its place."""
    MINIMUM = "minimum"
    """The lesser one."""
    GATHER = "gather"
    """Pixels of a tensor in another order, of as many as the result has; which is no part of it."""
    ROWS = "rows"
    """Softmax or layer normalisation of each pixel's channels; which one is no part of it."""

    @property
    def weighs(self) -> bool:
        """Whether it multiplies by weights: such a workload has schedules to search."""
        return self in (Kind.CONV2D, Kind.DEPTHWISE)

    @property
    def pools(self) -> bool:
        """Whether it gathers windows on the vector unit."""
        return self in (Kind.MAXPOOL, Kind.AVGPOOL)

    @property
    def alone(self) -> bool:
        """Whether a workload says all of what is computed, so that it can be lowered alone."""
        return self not in (Kind.GATHER, Kind.ROWS)

    @property
    def pairs(self) -> bool:
        """Whether it computes with another tensor, its factor, element by element."""
        return self in (Kind.MULTIPLY, Kind.SCALE, Kind.MAXIMUM, Kind.MINIMUM)


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A 2-D convolution, dense layer (as 1x1 convolution), pool or product of two tensors.

    The epilogue is fixed for every workload: int32 accumulator + bias, per-channel multiplier
    and shift, optional residual, clip (``relu`` raises the lower bound to 0), int8 output. The
    accumulator of a pool is the maximum or the sum of its window, so a pool can change scale and
    clip; it has no weights, dilation or residual, and an average pool no padding. The accumulator
    of a product is ``data * (factor - zero point of the factor)``, of a maximum the greater one of
    both; its residual is the factor (see `host.network.golden`).

    Attributes:
        name: label, e.g. ``C2``; not part of `key`.
        kind: operator kind.
        n, height, width, channels_in: input shape (NHWC order of meaning; data is NCHW).
        channels_out: output channels; equals ``channels_in`` for all but convolutions.
        kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w: in pixels.
        pad_top, pad_bottom, pad_left, pad_right: padding in pixels, of value 0 or, for a max
            pool, -128.
        relu: clip below at 0.
        residual: an int8 tensor of the output's shape is added before the rounding.
        weight_bits: 8, or 4 of a convolution: then arrays with ``int4_weights`` keep its weights
            packed in DRAM, the others as int8; results are the same. The weights are from -8 to 7
            or, where groups have scales, times a whole number (`host.network.int4_tiles`).
        chained: another layer writes its input, so that the host cannot unroll kernel columns into
            channels (`host.network.layout.behind_a_layer`).
        count: occurrences in the network; not part of `key`.

    Raises:
        WorkloadError: a size that is not positive, an empty output, a reduction that can
            overflow int32, or a value that the kind does not have.

    Example:
        >>> import tilewright as tw
        >>> layer = tw.Workload(
        ...     name="stem", height=24, width=48, channels_in=3, channels_out=8,
        ...     kernel_h=3, kernel_w=5, stride_h=2, stride_w=2, pad_top=1, pad_bottom=1,
        ... )
        >>> layer.output_shape, layer.weight_shape, layer.macs
        ((1, 8, 12, 22), (8, 3, 3, 5), 95040)
    """

    name: str
    kind: Kind = Kind.CONV2D
    n: int = 1
    height: int
    width: int
    channels_in: int
    channels_out: int
    kernel_h: int = 1
    kernel_w: int = 1
    stride_h: int = 1
    stride_w: int = 1
    pad_top: int = 0
    pad_bottom: int = 0
    pad_left: int = 0
    pad_right: int = 0
    dilation_h: int = 1
    dilation_w: int = 1
    relu: bool = True
    residual: bool = False
    weight_bits: int = 8
    chained: bool = False
    count: int = field(default=1, compare=False)

    def __post_init__(self) -> None:
        """Validate."""
        for name in (
            "n", "height", "width", "channels_in", "channels_out", "kernel_h", "kernel_w",
            "stride_h", "stride_w", "dilation_h", "dilation_w", "count",
        ):  # fmt: skip
            self._require_int(name, 1)
        for name in ("pad_top", "pad_bottom", "pad_left", "pad_right"):
            self._require_int(name, 0)
        if not isinstance(self.kind, Kind):
            raise WorkloadError(
                f"must be one of {', '.join(Kind)}",
                field=f"{self.name}.kind",
                value=self.kind,
                remedy="a dense layer is a conv2d with a 1x1 kernel; the rest runs on the CPU",
            )
        for name in ("relu", "residual", "chained"):
            if not isinstance(getattr(self, name), bool):
                raise WorkloadError(
                    "must be true or false",
                    field=f"{self.name}.{name}",
                    value=getattr(self, name),
                    remedy="write true or false, in Python True or False, without quotes",
                )
        if self.kind is not Kind.CONV2D and self.channels_in != self.channels_out:
            raise WorkloadError(
                f"a {self.kind} workload has as many output as input channels",
                field=f"{self.name}.channels_out",
                value=self.channels_out,
                remedy="set both to the same number of channels",
            )
        if self.weight_bits not in ((4, 8) if self.kind is Kind.CONV2D else (8,)):
            raise WorkloadError(
                "must be 8, or 4 for a conv2d workload",
                field=f"{self.name}.weight_bits",
                value=self.weight_bits,
                remedy="write 8, or leave it out",
            )
        if not self.kind.weighs:
            self._require_plain()
        if self.out_height < 1 or self.out_width < 1:
            raise WorkloadError(
                "the kernel must fit the padded input",
                field=f"{self.name}.kernel",
                value=(self.kernel_h, self.kernel_w),
                remedy="enlarge the input or the padding",
            )
        if max(self.reduction, self.kernel_h * self.kernel_w) > MAX_REDUCTION:
            raise WorkloadError(
                f"a reduction of more than {MAX_REDUCTION} products can overflow int32",
                field=f"{self.name}.channels_in",
                value=self.channels_in,
                remedy="run this operator on the CPU",
            )

    def _require_int(self, name: str, low: int) -> None:
        value = getattr(self, name)
        if not is_integer(value, low):
            raise WorkloadError(
                f"must be an integer of at least {low}",
                field=f"{self.name}.{name}",
                value=value,
                remedy=f"write a whole number from {low} without quotes",
            )

    def _require_plain(self) -> None:
        """Refuse what only convolutions have, and of a product what only windows have."""
        needed: dict[str, int] = {"dilation_h": 1, "dilation_w": 1, "residual": False}
        if self.kind.pairs or not self.kind.alone:
            needed |= dict.fromkeys(("kernel_h", "kernel_w", "stride_h", "stride_w"), 1)
        if self.kind is not Kind.MAXPOOL:
            needed |= dict.fromkeys(("pad_top", "pad_bottom", "pad_left", "pad_right"), 0)
        for name, only in needed.items():
            value = getattr(self, name)
            if value != only:
                raise WorkloadError(
                    f"must be {only} for a {self.kind} workload",
                    field=f"{self.name}.{name}",
                    value=value,
                    remedy="run this operator on the CPU",
                )

    @property
    def out_height(self) -> int:
        """Output rows."""
        span = self.dilation_h * (self.kernel_h - 1) + 1
        return (self.height + self.pad_top + self.pad_bottom - span) // self.stride_h + 1

    @property
    def out_width(self) -> int:
        """Output columns."""
        span = self.dilation_w * (self.kernel_w - 1) + 1
        return (self.width + self.pad_left + self.pad_right - span) // self.stride_w + 1

    @property
    def reduction(self) -> int:
        """Products with weights summed into one output element; 0 without weights."""
        return prod(self.weight_shape[1:])

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one occurrence."""
        return self.n * self.out_height * self.out_width * self.channels_out * self.reduction

    @property
    def input_shape(self) -> tuple[int, int, int, int]:
        """NCHW shape of the int8 input."""
        return (self.n, self.channels_in, self.height, self.width)

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        """OIHW shape of the int8 weights; I = 1 for depthwise, 0 where there are none."""
        depths = {Kind.CONV2D: self.channels_in, Kind.DEPTHWISE: 1}
        return (self.channels_out, depths.get(self.kind, 0), self.kernel_h, self.kernel_w)

    @property
    def factor_shape(self) -> tuple[int, int, int, int]:
        """NCHW shape of the int8 factor of a product; of other workloads without elements."""
        if self.kind is Kind.SCALE:
            return (self.n, self.channels_in, 1, 1)
        return self.input_shape if self.kind.pairs else (0, 0, 0, 0)

    @property
    def output_shape(self) -> tuple[int, int, int, int]:
        """NCHW shape of the int8 output."""
        return (self.n, self.channels_out, self.out_height, self.out_width)

    @property
    def key(self) -> str:
        """Stable identity of what is computed: a hash of everything but name and count."""
        data = self.to_mapping()
        del data["name"], data["count"]
        text = json.dumps(data, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_mapping(self) -> dict[str, int | str | bool]:
        """Plain values, for YAML and the store; two only where they are not their defaults."""
        data = asdict(self)
        data["kind"] = str(self.kind)
        if self.weight_bits == 8:
            del data["weight_bits"]
        if not self.chained:
            del data["chained"]
        return data

    @classmethod
    def from_mapping(cls, data: Mapping[str, object]) -> Workload:
        """Inverse of `to_mapping`.

        Raises:
            WorkloadError: unknown keys, missing keys, or bad values.
        """
        values = dict(data)
        require_keys(cls, values, of="a layer", error=WorkloadError)
        if str(values.get("kind")) in set(Kind):
            values["kind"] = Kind(str(values["kind"]))
        return cls(**values)  # type: ignore[arg-type]  # validated in __post_init__

    def renamed(self, name: str, *, count: int | None = None) -> Workload:
        """A copy with another name (and count)."""
        return replace(self, name=name, count=self.count if count is None else count)


def _square(size: int, kernel: int, pad: int, stride: int) -> dict[str, Any]:
    """Fields of a workload that is the same in rows and columns."""
    return {
        "height": size,
        "width": size,
        "kernel_h": kernel,
        "kernel_w": kernel,
        "stride_h": stride,
        "stride_w": stride,
        **dict.fromkeys(("pad_top", "pad_bottom", "pad_left", "pad_right"), pad),
    }


@named
def conv2d(
    name: str,
    size: int,
    channels_in: int,
    channels_out: int,
    kernel: int,
    pad: int = 0,
    stride: int = 1,
    *,
    count: int = 1,
    relu: bool = True,
    residual: bool = False,
) -> Workload:
    """A square convolution with equal padding on all sides.

    Args:
        name: label.
        size: rows and columns of the input, in pixels.
        channels_in: of the input.
        channels_out: of the output.
        kernel: rows and columns of the kernel.
        pad: padding on each side, in pixels.
        stride: in both directions, in pixels.
        count: occurrences in the network.
        relu: clip below at 0.
        residual: an int8 tensor of the output's shape is added before the rounding.

    Raises:
        WorkloadError: see `Workload`.

    Example:
        >>> import tilewright as tw
        >>> tw.conv2d("C2", 56, 64, 64, kernel=3, pad=1, stride=1).output_shape
        (1, 64, 56, 56)
    """
    return Workload(
        name=name,
        channels_in=channels_in,
        channels_out=channels_out,
        **_square(size, kernel, pad, stride),
        count=count,
        relu=relu,
        residual=residual,
    )


@named
def dense(
    name: str, rows: int, features_in: int, features_out: int, *, count: int = 1, relu: bool = False
) -> Workload:
    """A dense layer or matmul: rows x features_in times features_in x features_out.

    The rows become pixels of one image column, so that weights are reused across them.

    Args:
        name: label.
        rows: of the left operand; 1 for the dense layer of one image.
        features_in: its columns.
        features_out: columns of the result.
        count: occurrences in the network.
        relu: clip below at 0.

    Raises:
        WorkloadError: see `Workload`.

    Example:
        >>> import tilewright as tw
        >>> tw.dense("fc", rows=1, features_in=512, features_out=1000).output_shape
        (1, 1000, 1, 1)
    """
    return Workload(
        name=name,
        height=rows,
        width=1,
        channels_in=features_in,
        channels_out=features_out,
        count=count,
        relu=relu,
    )


@named
def depthwise(
    name: str,
    size: int,
    channels: int,
    kernel: int,
    pad: int = 0,
    stride: int = 1,
    *,
    count: int = 1,
) -> Workload:
    """A square depthwise convolution.

    Args:
        name: label.
        size: rows and columns of the input, in pixels.
        channels: of input and output.
        kernel: rows and columns of the kernel.
        pad: padding on each side, in pixels.
        stride: in both directions, in pixels.
        count: occurrences in the network.

    Raises:
        WorkloadError: see `Workload`.

    Example:
        >>> import tilewright as tw
        >>> tw.depthwise("dw", 14, 32, kernel=3, pad=1, stride=2).output_shape
        (1, 32, 7, 7)
    """
    return Workload(
        name=name,
        kind=Kind.DEPTHWISE,
        channels_in=channels,
        channels_out=channels,
        **_square(size, kernel, pad, stride),
        count=count,
    )


@named
def maxpool(
    name: str,
    size: int,
    channels: int,
    kernel: int,
    pad: int = 0,
    stride: int | None = None,
    *,
    count: int = 1,
    relu: bool = False,
) -> Workload:
    """A square max pool with equal padding on all sides.

    Args:
        name: label.
        size: rows and columns of the input, in pixels.
        channels: of input and output.
        kernel: rows and columns of the kernel.
        pad: padding on each side, in pixels.
        stride: in both directions, in pixels; None: that of the kernel, as in PyTorch.
        count: occurrences in the network.
        relu: clip below at 0.

    Raises:
        WorkloadError: see `Workload`.

    Example:
        >>> import tilewright as tw
        >>> tw.maxpool("pool1", 112, 64, kernel=3, pad=1, stride=2).output_shape
        (1, 64, 56, 56)
    """
    return Workload(
        name=name,
        kind=Kind.MAXPOOL,
        channels_in=channels,
        channels_out=channels,
        **_square(size, kernel, pad, kernel if stride is None else stride),
        count=count,
        relu=relu,
    )
