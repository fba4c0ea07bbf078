# SPDX-License-Identifier: Apache-2.0
"""Recommenders, for one request, as dense layers of one row.

DLRM (Naumov et al., arXiv 1906.00091, 2019) and NeuMF (He et al., arXiv 1708.05031, 2017) have the
sizes of MLPerf. Wide & Deep: Cheng et al., arXiv 1606.07792 (2016), figure 4. Each weight is used
once, unless requests are taken together.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from tilewright.host.network.network_table import NetworkTable, collect
from tilewright.host.network.workload import Workload, dense

_SPARSE_FEATURES: Final = 26
_LOOKUP: Final = "embedding tables: not offloaded"


def _perceptron(name: str, widths: Sequence[int]) -> list[Workload]:
    """Dense layers with ReLU between the given widths, which begin with the input's."""
    return [
        dense(f"{name}{number}", 1, before, after, relu=True)
        for number, (before, after) in enumerate(pairwise(widths), start=1)
    ]


def dlrm() -> NetworkTable:
    """DLRM as in MLPerf: 13 dense and 26 sparse features, embeddings of 128."""
    vectors = _SPARSE_FEATURES + 1
    pairs = vectors * (vectors - 1) // 2
    return NetworkTable(
        name="dlrm",
        workloads=collect(
            (
                *_perceptron("bottom", (13, 512, 256, 128)),
                dense("interaction", vectors, 128, vectors),
                *_perceptron("top", (128 + pairs, 1024, 1024, 512, 256)),
                dense("score", 1, 256, 1),
            )
        ),
        cpu_operators=(_LOOKUP, "sigmoid of the score: not offloaded"),
    )


def ncf() -> NetworkTable:
    """NeuMF as in MLPerf: 64 factors, a perceptron of 256, 128 and 64 beside them."""
    return NetworkTable(
        name="ncf",
        workloads=collect(
            (*_perceptron("mlp", (256, 256, 128, 64)), dense("score", 1, 64 + 64, 1))
        ),
        cpu_operators=(_LOOKUP, "product of the factors, sigmoid of the score: not offloaded"),
    )


def wide_and_deep() -> NetworkTable:
    """The deep part of Wide & Deep: embeddings of 1200 values in all, then 1024, 512 and 256."""
    return NetworkTable(
        name="wide_and_deep",
        workloads=collect(
            (*_perceptron("deep", (1200, 1024, 512, 256)), dense("score", 1, 256, 1))
        ),
        cpu_operators=(_LOOKUP, "wide part and sigmoid of the score: not offloaded"),
    )
