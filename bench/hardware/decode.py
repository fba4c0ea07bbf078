# SPDX-License-Identifier: Apache-2.0
"""Tokens per second of a GPT that writes: one token at a time, weights with 8 and with 4 bits.

The products of one block with a vector run on the twin, each with the best schedule that the
search of `bench.roofline` finds. The network is as many blocks, and the scores of all words. The
figures leave out softmax, layer normalisation, activations, sampling, and transfers to the CPU.

    tilewright bench decode
    tilewright bench decode --width 256 --context 64 --blocks 4 --words 1024
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from tilewright.bench.commands import DecodeSettings
from tilewright.bench.framework.records import Cell, Row
from tilewright.bench.framework.study import Study
from tilewright.bench.hardware.roofline import Case, measure
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.network.workload import dense
from tilewright.host.network.zoo.transformer import decoder_block
from tilewright.sim.synth.design import rtl_digest


def layers(hw: HwConfig, given: DecodeSettings, bits: int) -> Iterator[dict[str, Any]]:
    """Each product of a token: its cycles, its bound, and how often a token needs it."""
    memory = load_board(given.board).memory
    block = decoder_block(width=given.width, context=given.context, weight_bits=bits)
    work = [(layer, layer.count * given.blocks) for layer in block]
    if given.words:
        words = dense("words", 1, given.width, given.words)
        work.append((replace(words, weight_bits=bits), 1))
    for layer, count in work:
        case = Case(hw=hw, memory=memory, network="decode", task=layer)
        found = measure(case, given.search_cycles, 0, given.seed)
        kept = {name: found[name] for name in ("layer", "cycles", "bound", "limiter", "schedule")}
        yield {"weight_bits": layer.weight_bits, "of_token": count, **kept}


def tokens_per_second(rows: Sequence[Row], clock_mhz: float) -> float:
    """How many tokens follow one another in a second."""
    cycles = sum(int(row["cycles"]) * int(row["of_token"]) for row in rows)
    return clock_mhz * 1e6 / cycles


class Decode(Study):
    """Both precisions of the constant weights."""

    says = "{layer}, int{weight_bits}: {cycles:,} cycles (bound {bound:,}), {of_token} per token"

    @cached_property
    def hw(self) -> HwConfig:
        """The configuration; weights of 4 bits are added where it has none."""
        hw = load_hwconfig(self.settings.hw)
        return hw if hw.int4_weights else hw.with_(int4_weights=1)

    def cells(self) -> list[Cell]:
        return [{"decoded_with": bits} for bits in (8, 4)]

    def measure(self, cell: Cell) -> list[Row]:
        return list(layers(self.hw, self.settings, cell["decoded_with"]))

    def conditions(self) -> Row:
        given, board = self.settings, load_board(self.settings.board)
        names = ("width", "context", "blocks", "words", "search_cycles", "seed")
        return {
            "fidelity": "twin",
            "rtl": rtl_digest(),
            "hw": self.hw.name,
            "int4_weights": self.hw.int4_weights,
            "board": board.name,
            "clock_mhz": board.clock_mhz,
            **{name: getattr(given, name) for name in names},
        }

    def summarise(self, rows: Sequence[Row]) -> Row:
        clock = load_board(self.settings.board).clock_mhz
        eight, four = (
            tokens_per_second([r for r in rows if r["decoded_with"] == bits], clock)
            for bits in (8, 4)
        )
        return {
            "tokens_per_second_int8": round(eight, 3),
            "tokens_per_second_int4": round(four, 3),
            "int4_over_int8": round(four / eight, 3),
        }
