# SPDX-License-Identifier: Apache-2.0
"""Which operators of a quantised model read which, through quantisation and dequantisation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.host.network.onnx_file import short
from tilewright.host.network.operators import CONVERSIONS

if TYPE_CHECKING:
    import onnx


def operator_edges(model: onnx.ModelProto) -> list[tuple[str, str]]:
    """Names of operators, (writer, reader), each pair once, in the order of the readers."""
    writers: dict[str, str] = {}
    edges: dict[tuple[str, str], None] = {}
    for node in model.graph.node:
        sources = [writers[name] for name in node.input if name in writers]
        if node.op_type in CONVERSIONS:
            writers |= dict.fromkeys(node.output, sources[0]) if sources else {}
            continue
        edges |= dict.fromkeys((source, short(node.name)) for source in sources)
        writers |= dict.fromkeys(node.output, short(node.name))
    return list(edges)
