# SPDX-License-Identifier: Apache-2.0
"""Attention head by head: products and softmax of several heads as one operator for each head.

The channels of a head are selected, and the results joined. So heads begin at blocks of channels in
memory, wherever they do in the model, and nothing is copied where both agree (`channels`). A mask
serves all heads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilewright.host.compiler.lower.qgraph import (
    QConcat,
    QGraph,
    QMatmul,
    QOperator,
    QSelect,
    QSoftmax,
    QTensor,
)


def split_heads(graph: QGraph) -> tuple[QGraph, Mapping[str, str]]:
    """One operator for each head."""
    tensors = dict(graph.tensors)
    operators: list[QOperator] = []
    origins: dict[str, str] = {}
    chosen: dict[tuple[str, int], list[str]] = {}
    for operator in graph.operators:
        if not isinstance(operator, QMatmul | QSoftmax) or operator.heads == 1:
            operators.append(operator)
            continue
        heads = operator.heads
        shared = operator.inputs[1:] if isinstance(operator, QSoftmax) else ()
        divided = operator.inputs[: len(operator.inputs) - len(shared)]
        added: list[QOperator] = []
        for source in dict.fromkeys(divided):
            if (source, heads) not in chosen:
                parts = _selections(tensors, source, heads)
                added += parts
                chosen[source, heads] = [part.output for part in parts]
        results = _cut(tensors, operator.output, heads, "head")
        for head, result in enumerate(results):
            inputs = (*(chosen[source, heads][head] for source in divided), *shared)
            name = f"{operator.name}/{head}"
            alone = replace(operator, name=name, inputs=inputs, output=result, heads=1)
            if isinstance(alone, QSoftmax) and alone.addend is not None:
                share = alone.addend.shape[1] // heads
                rows = alone.addend[:, head * share : (head + 1) * share]
                alone = replace(alone, addend=rows)
            added.append(alone)
        name = f"{operator.name}/joined"
        added.append(QConcat(name=name, inputs=tuple(results), output=operator.output))
        origins |= {new.name: operator.name for new in added}
        operators += added
    return replace(graph, tensors=tensors, operators=tuple(operators)), origins


def _selections(tensors: dict[str, QTensor], source: str, heads: int) -> list[QSelect]:
    """The channels of each head of a tensor."""
    share = tensors[source].shape[1] // heads
    return [
        QSelect(
            name=part,
            inputs=(source,),
            output=part,
            channels=tuple(range(head * share, (head + 1) * share)),
        )
        for head, part in enumerate(_cut(tensors, source, heads, f"of {heads}"))
    ]


def _cut(tensors: dict[str, QTensor], name: str, heads: int, label: str) -> list[str]:
    """New tensors for the heads of one."""
    whole = tensors[name]
    n, channels, rows, columns = whole.shape
    names = [f"{name}/{label}/{head}" for head in range(heads)]
    for part in names:
        tensors[part] = replace(whole, name=part, shape=(n, channels // heads, rows, columns))
    return names
