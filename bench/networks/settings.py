# SPDX-License-Identifier: Apache-2.0
"""What the studies of whole networks are told."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from tilewright.bench.framework.commands import HARDWARE, command
from tilewright.bench.framework.settings import board_option, count_option, option, quick_option

FIDELITIES: Final = ("twin", "rtl", "dpi")

CONDITIONS: Final = ("hw", "board", "fidelity", "search")
"""What the rows of every study here hold under."""


@command(
    "networks", HARDWARE, "tilewright.bench.networks:study",
    more="With --zoo: cycles are the twin's unless --fidelity names the RTL, each network is kept "
    "when it is there, and the same command goes on with the file of --json.",
)  # fmt: skip
@dataclass(frozen=True, kw_only=True)
class NetworksSettings:
    """Whole networks from PyTorch to bit-exact int8 on the RTL."""

    quick: bool = quick_option()
    networks: tuple[str, ...] = option(
        (), "Networks of examples/networks, separated by commas; default: all.",
        metavar="NETWORK,...",
    )  # fmt: skip
    zoo: bool = option(
        False,
        "Other architectures: where each operator runs, and the latency from end to end.",
    )
    tflite: str = option(
        "", "Quantised .tflite files of this folder: cycles, and agreement with LiteRT.",
        metavar="FOLDER",
    )  # fmt: skip
    unseen: bool = option(
        False, "Architectures of timm, drawn by --seed: how far the accelerator takes each."
    )
    count: int = count_option(40, "With --unseen: architectures.", quick=2)
    seed: int = option(
        1131, "With --unseen: seed of the draw and of the weights.", metavar="SEED", low=0
    )
    hw: str = option(
        "",
        "Named configuration or YAML file; default: pynq-16x16, of --zoo, --tflite and --unseen "
        "pynq-16x16-rows.",
        metavar="HW",
    )  # fmt: skip
    board: str = board_option()
    fidelity: str = option(
        "", "What runs the network; default: rtl, with --quick or --tflite dpi, of --zoo twin.",
        metavar="twin|rtl|dpi", known=f"{__name__}:FIDELITIES",
    )  # fmt: skip
    search: int | None = count_option(
        None, "Measurements per layer; default: 16, of --unseen 0.", low=0
    )
    keep_rounding: bool = option(False, "Keep every quantisation of the models.")
    int8_ends: bool = option(False, "With --zoo: networks take and give int8, as with --unseen.")

    def chosen(
        self, *, hw: str = "pynq-16x16-rows", fidelity: str = "twin", search: int = 16
    ) -> NetworksSettings:
        """These, with the defaults of a study where nothing was given."""
        return replace(
            self,
            hw=self.hw or hw,
            fidelity=self.fidelity or fidelity,
            search=search if self.search is None else self.search,
        )
