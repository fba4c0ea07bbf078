# SPDX-License-Identifier: Apache-2.0
"""What the study of accuracy is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tilewright.bench.framework import settings
from tilewright.bench.framework.commands import HARDWARE, command

FIDELITIES: Final = ("rtl", "dpi")


@command("accuracy", HARDWARE, "tilewright.bench.accuracy.study:Accuracy")
@dataclass(frozen=True, kw_only=True)
class AccuracySettings:
    """Accuracy of trained networks on real images, float against int8."""

    quick: bool = settings.quick_option()
    networks: tuple[str, ...] = settings.option(
        (), "Trained networks, separated by commas; default: all whose packages are here.",
        metavar="NETWORK,...", known="tilewright.bench.accuracy.subjects:SUBJECTS",
        quick=("digits", "angle-classifier", "rnet"),
    )  # fmt: skip
    forms: tuple[str, ...] = settings.option(
        ("plain", "symmetric", "asymmetric"), "Forms of quantisation, separated by commas.",
        metavar="FORM,...", known="tilewright.bench.accuracy.study:FORMS",
    )  # fmt: skip
    hw: str = settings.hw_option("pynq-16x16")
    board: str = settings.board_option()
    fidelity: str = settings.option(
        "rtl", "What runs the network.", metavar="rtl|dpi", quick="dpi",
        known=f"{__name__}:FIDELITIES",
    )  # fmt: skip
    sample: int = settings.count_option(4, "Images that also run on the device.")
    search: int = settings.count_option(16, "Measurements per layer.", low=0)
