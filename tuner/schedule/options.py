# SPDX-License-Identifier: Apache-2.0
"""What a user says of layers, of what runs them, and of their schedules."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tilewright.host.common.options import option


class SpaceName(StrEnum):
    """Which schedules are searched."""

    FULL = "full"
    VTA = "vta"


MODEL_HELP: Final = (
    "Built-in network, or file: a model (.onnx, .tflite, .pt2, .tw) or a table of layers (.yaml)."
)


@dataclass(frozen=True, kw_only=True)
class LayerOptions:
    """Layers of a network, the configuration that runs them, and the memory behind it."""

    network: str = option("vta-resnet18", MODEL_HELP, metavar="MODEL")
    hw: str = option("pynq-16x16", "Named configuration or YAML file.", metavar="HW")
    memory: str = option(
        "board",
        "Memory timing: 'board' (that of --board), 'ideal', a board's name or a YAML file.",
        metavar="MEMORY",
    )
    board: str = option("pynq-z2", "Board or YAML file whose memory is simulated.", metavar="BOARD")
