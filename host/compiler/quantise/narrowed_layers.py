# SPDX-License-Identifier: Apache-2.0
"""Which layers of a quantised model have weights of 4 bits, by the names of their constants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import onnx

INT4_SUFFIX: Final = "_int4"
"""Behind a layer's name: that of its weights (`int4_weights.to_int4`)."""


def narrowed(quantised: onnx.ModelProto) -> set[str]:
    """Names of the layers that have weights of 4 bits."""
    readings = {node.output[0]: node for node in quantised.graph.node if node.output}
    found = set()
    for node in quantised.graph.node:
        reading = readings.get(node.input[1]) if len(node.input) > 1 else None
        if (
            reading is not None
            and reading.input
            and reading.input[0].startswith(f"{node.name}{INT4_SUFFIX}")
        ):
            found.add(node.name)
    return found
