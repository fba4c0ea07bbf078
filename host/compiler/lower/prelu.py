# SPDX-License-Identifier: Apache-2.0
"""PReLU, whose slope is one number per channel, as operators that there are already.

``PReLU(x) = x + (slope - 1) * min(x, 0)``. The minimum is a clip at the scale of ``x``, which is
exact. The rest is a depthwise 1x1 convolution of it with ``x`` as residual: one rounding, and any
slope.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tilewright.host.compiler.lower.epilogue import COPY_WEIGHT
from tilewright.host.compiler.lower.qgraph import (
    QConv,
    QGraph,
    QOperator,
    QPrelu,
    QRescale,
)


def expand_prelus(graph: QGraph) -> tuple[QGraph, dict[str, str]]:
    """The graph without `QPrelu`, and by name of an operator that is new where it comes from."""
    tensors, operators = dict(graph.tensors), list[QOperator]()
    origins: dict[str, str] = {}
    for operator in graph.operators:
        if not isinstance(operator, QPrelu):
            operators.append(operator)
            continue
        data = graph.tensors[operator.inputs[0]]
        negative = replace(data, name=f"{operator.output}/negative")
        tensors[negative.name] = negative
        clip = QRescale(
            name=f"{operator.name}/negative",
            inputs=(data.name,),
            output=negative.name,
            bounds=(None, 0.0),
        )
        change = operator.slopes - 1
        rest = QConv(
            name=operator.name,
            inputs=(negative.name, data.name),
            output=operator.output,
            bounds=operator.bounds,
            lookup=operator.lookup,
            weights=(np.sign(change) * COPY_WEIGHT).astype(np.int8)[:, None, None, None],
            weight_scales=np.where(change == 0, 1, np.abs(change)) / COPY_WEIGHT,
            bias=np.zeros(len(change)),
            groups=len(change),
        )
        operators += [clip, rest]
        origins[clip.name] = operator.name
    return replace(graph, tensors=tensors, operators=tuple(operators)), origins
