# SPDX-License-Identifier: Apache-2.0
"""The layers of softmax and layer normalisation: rows of channels, on a row unit."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.host.compiler.lower.layer_graph import ChannelSlice, Layer
from tilewright.host.compiler.lower.qgraph import QLayerNorm, QSoftmax, QTensor
from tilewright.host.compiler.lower.workloads import workload_on
from tilewright.host.lowering.row_layers import RowFunction, row_params
from tilewright.host.network.row_functions import LayerNorm, Softmax
from tilewright.host.network.workload import Kind


def row_layers(
    operator: QSoftmax | QLayerNorm,
    data: QTensor,
    result: QTensor,
    part: Callable[[str, int], ChannelSlice],
) -> list[Layer]:
    """A layer for each head: the parts of a pixel's channels that are rows of their own.

    Args:
        operator: what they belong to.
        data: its input.
        result: its output.
        part: where the channels of a tensor are stored, from one on.

    Raises:
        WorkloadError: scales or parameters that the function does not take.
    """
    function: RowFunction
    if isinstance(operator, QSoftmax):
        heads = operator.heads
        function = Softmax.of(data.scale, result.scale, result.zero_point)
    else:
        heads = 1
        function = LayerNorm.of(operator.gamma, operator.beta, result.scale, result.zero_point)
    channels = data.shape[1] // heads
    shape = {"channels_in": channels, "channels_out": channels}
    return [
        Layer(
            name=operator.name if heads == 1 else f"{operator.name}/{head}",
            workload=workload_on(operator, data, kind=Kind.ROWS, **shape),
            data=part(data.name, head * channels),
            weights=None,
            output=part(result.name, head * channels),
            requant=row_params(function, channels),
            operators=(operator.name,),
            rows=function,
        )
        for head in range(heads)
    ]
