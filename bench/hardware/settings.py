# SPDX-License-Identifier: Apache-2.0
"""What the studies of the accelerator's layers are told."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.bench.framework import settings
from tilewright.bench.framework.commands import HARDWARE, command

SEARCH_CYCLES = "Twin cycles after which the search of a layer ends."


@command(
    "roofline", HARDWARE, "tilewright.bench.hardware.roofline:Roofline",
    more="Each layer is kept when it is there; the same command goes on with the file of --json.",
)  # fmt: skip
@dataclass(frozen=True, kw_only=True)
class RooflineSettings:
    """Cycles of every layer's best schedule against its bound."""

    quick: bool = settings.quick_option()
    hw: tuple[str, ...] = settings.option(
        ("edge-8x8", "pynq-16x16", "zu-32x32"), "Configurations, separated by commas.",
        metavar="HW,...", quick=("pynq-16x16",),
    )  # fmt: skip
    axi: tuple[int, ...] = settings.option(
        (64, 128, 256), "Bus widths in bits, separated by commas.", metavar="BITS,...", quick=(64,)
    )
    memory: tuple[str, ...] = settings.option(
        ("ideal", "pynq-z2"), "Memories, separated by commas.", metavar="MEMORY,..."
    )
    networks: tuple[str, ...] = settings.option(
        ("vta-resnet18", "resnet18", "vgg16", "mobilenet_v2"), "Networks, separated by commas.",
        metavar="NETWORK,...", quick=("vta-resnet18",),
    )  # fmt: skip
    search_cycles: int = settings.count_option(1_000_000_000, SEARCH_CYCLES, metavar="CYCLES")
    confirm_cycles: int = settings.count_option(
        3_000_000, "Most cycles of a layer that is confirmed on the full RTL.", metavar="CYCLES",
        low=0,
    )  # fmt: skip
    seed: int = settings.seed_option()
    workers: int = settings.workers_option()


@command("ablation", HARDWARE, "tilewright.bench.hardware.ablation:Ablation")
@dataclass(frozen=True, kw_only=True)
class AblationSettings:
    """What each mechanism of the accelerator is worth: cycles with one of them taken away."""

    hw: str = settings.hw_option("pynq-16x16")
    memory: str = settings.memory_option("pynq-z2")
    search_cycles: int = settings.count_option(400_000_000, SEARCH_CYCLES, metavar="CYCLES")
    seed: int = settings.seed_option()


@command("decode", HARDWARE, "tilewright.bench.hardware.decode:Decode")
@dataclass(frozen=True, kw_only=True)
class DecodeSettings:
    """Tokens per second of a GPT that writes, with weights of 8 and of 4 bits."""

    hw: str = settings.hw_option("pynq-16x16")
    board: str = settings.board_option()
    width: int = settings.count_option(768, "Channels, a multiple of 64.")
    context: int = settings.count_option(256, "Tokens that attention looks at.")
    blocks: int = settings.count_option(12, "Of the network.")
    words: int = settings.count_option(50257, "Of the vocabulary; 0: no scores of words.", low=0)
    search_cycles: int = settings.count_option(20_000_000, SEARCH_CYCLES, metavar="CYCLES")
    seed: int = settings.seed_option()
