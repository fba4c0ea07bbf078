# SPDX-License-Identifier: Apache-2.0
"""Windows that reach further than the scratchpads and the fields of a LOAD hold.

- Rows and columns of a kernel that read padding alone are left out.
- Where no schedule is legal, and for pools with dilation, the pixels of each window are gathered
  side by side first, along rows, columns or both. The window then is as large as its kernel, its
  stride is the same, and it reads no padding: that is a row of its own, which the region holds.

The bits do not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import ScheduleError, WorkloadError
from tilewright.host.compiler.lower.qgraph import (
    QConv,
    QGather,
    QGraph,
    QOperator,
    QPool,
    QStack,
    QTensor,
)
from tilewright.host.compiler.lower.workloads import (
    is_too_large,
    outputs_at_once,
    pool_workload,
    window_workload,
)
from tilewright.host.lowering import default_schedule
from tilewright.host.lowering.transfers import PAD_MAX
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.layout import behind_a_layer
from tilewright.host.network.workload import Kind

Places = npt.NDArray[np.int64]

_MOST_ROWS: Final = 1 << 22
_MOST_PIXELS: Final = 1 << 20
"""Of an image of windows, if whole rows are gathered and if single pixels are."""


class _Side(NamedTuple):
    """One axis of a window.

    Attributes:
        size, outputs: pixels of the image, and of the result.
    """

    size: int
    outputs: int
    kernel: int
    stride: int
    dilation: int
    pad: int

    @property
    def reach(self) -> int:
        """Pixels from the first to the last that a window reads."""
        return (self.kernel - 1) * self.dilation + 1

    def places(self) -> Places:
        """(outputs, kernel) the pixel that each element of each window is."""
        firsts = np.arange(self.outputs) * self.stride - self.pad
        return firsts[:, None] + np.arange(self.kernel) * self.dilation

    def read(self) -> tuple[int, int]:
        """The first of the kernel's elements that read the image, and the end of them."""
        places = self.places()
        used = np.flatnonzero(((places >= 0) & (places < self.size)).any(axis=0))
        return (int(used[0]), int(used[-1]) + 1) if used.size else (0, 1)


Window = QConv | QPool


def within_reach(graph: QGraph, hw: HwConfig) -> tuple[QGraph, dict[str, str]]:
    """A graph whose windows can be loaded, and which operators its new ones belong to."""
    operators: list[QOperator] = []
    tensors, constants = dict(graph.tensors), dict(graph.constants)
    origins: dict[str, str] = {}
    for operator in graph.operators:
        if not _has_window(operator):
            operators.append(operator)
            continue
        data, result = tensors[operator.inputs[0]], tensors[operator.output]
        window = _without_idle_taps(operator, data, result)
        sides = () if _is_near(window, hw) else _gathered_sides(window, data, result, hw)
        if sides:
            made = _with_gathers(window, (data, result), sides)
            operators += made.operators
            tensors |= {tensor.name: tensor for tensor in made.tensors}
            constants |= made.constants
            origins |= {each.name: operator.name for each in made.operators}
        else:
            operators.append(window)
    if operators == list(graph.operators):
        return graph, {}
    changed = replace(graph, tensors=tensors, operators=tuple(operators), constants=constants)
    return changed, origins


def _has_window(operator: QOperator) -> bool:
    if isinstance(operator, QConv):
        return not operator.transposed and operator.weights.shape[2:] != (1, 1)
    return isinstance(operator, QPool)


def _sides(window: Window, data: QTensor, result: QTensor) -> tuple[_Side, _Side]:
    """Rows and columns."""
    kernel = window.weights.shape[2:] if isinstance(window, QConv) else window.kernel
    found = [
        _Side(data.shape[2 + axis], result.shape[2 + axis], kernel[axis], window.stride[axis],
              window.dilation[axis], window.pads[axis])
        for axis in (0, 1)
    ]  # fmt: skip
    return found[0], found[1]


def _without_idle_taps(operator: QOperator, data: QTensor, result: QTensor) -> Window:
    """A convolution without the rows and columns of its kernel that read padding alone."""
    assert isinstance(operator, Window)
    if not isinstance(operator, QConv):
        return operator
    sides = _sides(operator, data, result)
    ranges = [side.read() for side in sides]
    if all(used == (0, side.kernel) for used, side in zip(ranges, sides, strict=True)):
        return operator
    pads = list(operator.pads)
    for axis, ((first, end), side) in enumerate(zip(ranges, sides, strict=True)):
        pads[axis] -= first * side.dilation
        pads[2 + axis] -= (side.kernel - end) * side.dilation
    rows, columns = (slice(*each) for each in ranges)
    weights = np.ascontiguousarray(operator.weights[:, :, rows, columns])
    if min(pads) < 0:  # a single tap that does not lie at the image's border
        return operator
    return replace(operator, weights=weights, pads=(pads[0], pads[1], pads[2], pads[3]))


def _is_near(window: Window, hw: HwConfig) -> bool:
    """Whether a window is so small that it is always loaded whole."""
    kernel = window.weights.shape[2:] if isinstance(window, QConv) else window.kernel
    if isinstance(window, QPool) and window.dilation != (1, 1):
        return False
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, window.dilation, strict=True)]
    room = min(hw.inp_depth, hw.wgt_depth, hw.uop_depth, hw.acc_depth) // 8
    return reach[0] * reach[1] <= room and max(window.pads) <= PAD_MAX // 2


def _gathered_sides(
    window: Window, data: QTensor, result: QTensor, hw: HwConfig
) -> tuple[int, ...]:
    """The axes along which a window is gathered; none if it is legal, or no gather makes it so."""
    dilates = isinstance(window, QPool) and window.dilation != (1, 1)
    if data.shape[0] != 1 or (not dilates and _is_legal(window, data, hw)):
        return ()
    sides = _sides(window, data, result)
    for axes in ((0,), (1,), (0, 1)):
        if dilates and any(sides[axis].dilation > 1 for axis in {0, 1} - set(axes)):
            continue
        wide, image = _gathered(window, data, sides, axes)
        most = _MOST_ROWS if axes == (0,) else _MOST_PIXELS
        if image.shape[2] * image.shape[3] <= most and _is_legal(wide, image, hw):
            return axes
    return ()


def _is_legal(window: Window, data: QTensor, hw: HwConfig) -> bool:
    try:
        if isinstance(window, QConv):
            workload = behind_a_layer(window_workload(window, data, window.weights))
            if workload.kind is Kind.CONV2D:
                workload = replace(workload, channels_out=outputs_at_once(hw, workload))
            default_schedule(hw, workload)
        else:
            workload = pool_workload(window, data)
            if window.maximum or not is_too_large(hw, workload):
                default_schedule(hw, workload)
    except (ScheduleError, WorkloadError):
        return False
    return True


def _gathered(
    window: Window, data: QTensor, sides: Sequence[_Side], axes: Sequence[int]
) -> tuple[Window, QTensor]:
    """A window whose pixels lie side by side along some axes, and the image of them."""
    stride, dilation, pads = list(window.stride), list(window.dilation), list(window.pads)
    shape = list(data.shape)
    for axis in axes:
        side = sides[axis]
        stride[axis], dilation[axis] = side.kernel, 1
        pads[axis] = pads[2 + axis] = 0
        shape[2 + axis] = side.outputs * side.kernel
    wide = replace(
        window,
        stride=(stride[0], stride[1]),
        dilation=(dilation[0], dilation[1]),
        pads=(pads[0], pads[1], pads[2], pads[3]),
    )
    b, c, h, w = shape
    return wide, replace(data, name=f"{window.output}/windows", shape=(b, c, h, w))


class _Made(NamedTuple):
    operators: list[QOperator]
    tensors: list[QTensor]
    constants: dict[str, npt.NDArray[np.int8]]


def _with_gathers(window: Window, ends: tuple[QTensor, QTensor], axes: Sequence[int]) -> _Made:
    """The operators that gather a window's pixels and compute it."""
    data, result = ends
    sides = _sides(window, data, result)
    wide, image = _gathered(window, data, sides, axes)
    lines = [
        side.places().reshape(-1) if axis in axes else np.arange(side.size)
        for axis, side in enumerate(sides)
    ]
    height, width = data.shape[2:]
    rows, columns = (
        (line < 0) | (line >= size) for line, size in zip(lines, (height, width), strict=True)
    )
    pixels = lines[0][:, None] * width + lines[1]
    pads = rows[:, None] | columns
    pixels[pads] = height * width  # the first pixel of the row below the image
    tensors, constants = [image], {}
    operators: list[QOperator] = []
    source = data.name
    if pads.any():
        least = isinstance(window, QPool) and window.maximum
        shapes = [(1, data.shape[1], count, width) for count in (1, height + 1)]
        edge = replace(data, name=f"{window.output}/edge", shape=shapes[0])
        whole = replace(data, name=f"{window.output}/with edge", shape=shapes[1])
        constants[edge.name] = np.full(edge.shape, -128 if least else data.zero_point, np.int8)
        tensors += [edge, whole]
        names = source, edge.name
        operators.append(QStack(name=f"{window.name}/edge", inputs=names, output=whole.name))
        source = whole.name
    name = f"{window.name}/windows"
    places = pixels.reshape(-1).astype(np.int64)
    operators.append(QGather(name=name, inputs=(source,), output=image.name, pixels=places))
    operators.append(replace(wide, inputs=(image.name, *window.inputs[1:])))
    return _Made(operators, tensors, constants)
