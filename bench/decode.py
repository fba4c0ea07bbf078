# SPDX-License-Identifier: Apache-2.0
"""Tokens per second of a GPT that writes: one token at a time, weights with 8 and with 4 bits.

The products of one block with a vector run on the twin, each with the best schedule that the
search of `bench.roofline` finds. The network is as many blocks, and the scores of all words. The
figures leave out softmax, layer normalisation, activations, sampling, and transfers to the CPU.

    python -m tilewright.bench.decode
    python -m tilewright.bench.decode --width 256 --context 64 --blocks 4 --words 1024
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tilewright.bench.roofline import Case, measure
from tilewright.host.common.errors import TilewrightError
from tilewright.host.common.whole_file import MARK, write_whole
from tilewright.host.machine.board import Board, load_board
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.network.workload import dense
from tilewright.host.network.zoo.transformer import decoder_block
from tilewright.sim.synth.design import rtl_digest


@dataclass(frozen=True, kw_only=True)
class Model:
    """What is decoded.

    Attributes:
        width: channels.
        context: tokens that attention looks at.
        blocks: of the network.
        words: of the vocabulary; 0: no scores of words.
    """

    width: int
    context: int
    blocks: int
    words: int


def layers(
    hw: HwConfig, board: Board, model: Model, bits: int, *, search_cycles: int, seed: int
) -> list[dict[str, Any]]:
    """Each product of a token: its cycles, its bound, and how often a token needs it.

    Args:
        hw: configuration; it unpacks weights of 4 bits where it can.
        board: its memory.
        model: what is decoded.
        bits: of the constant weights.
        search_cycles: twin cycles after which the search of a layer ends.
        seed: of the searches.
    """
    block = decoder_block(width=model.width, context=model.context, weight_bits=bits)
    work = [(layer, layer.count * model.blocks) for layer in block]
    if model.words:
        words = dense("words", 1, model.width, model.words)
        work.append((replace(words, weight_bits=bits), 1))
    rows = []
    for layer, count in work:
        case = Case(hw=hw, memory=board.memory, network="decode", task=layer)
        found = measure(case, search_cycles, 0, seed)
        kept = {name: found[name] for name in ("layer", "cycles", "bound", "limiter", "schedule")}
        rows.append({"weight_bits": layer.weight_bits, "of_token": count, **kept})
    return rows


def tokens_per_second(rows: Sequence[dict[str, Any]], clock_mhz: float) -> float:
    """How many tokens follow one another in a second."""
    cycles = sum(int(row["cycles"]) * int(row["of_token"]) for row in rows)
    return clock_mhz * 1e6 / cycles


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tilewright.bench.decode", description=__doc__)
    parser.add_argument("--hw", default="pynq-16x16", help="configuration; 4-bit weights are added")
    parser.add_argument("--board", default="pynq-z2", help="memory and clock")
    parser.add_argument("--width", type=int, default=768, help="channels, a multiple of 64")
    parser.add_argument("--context", type=int, default=256, help="tokens that attention looks at")
    parser.add_argument("--blocks", type=int, default=12)
    parser.add_argument("--words", type=int, default=50257, help="of the vocabulary; 0: none")
    parser.add_argument("--search-cycles", type=int, default=20_000_000, help="per layer")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="file for the rows")
    return parser.parse_args(words)


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Both precisions: rows, conditions and tokens per second."""
    board = load_board(options.board)
    hw = load_hwconfig(options.hw)
    hw = hw if hw.int4_weights else hw.with_(int4_weights=1)
    model = Model(
        width=options.width, context=options.context, blocks=options.blocks, words=options.words
    )
    search = {"search_cycles": options.search_cycles, "seed": options.seed}
    rows = {bits: layers(hw, board, model, bits, **search) for bits in (8, 4)}
    speeds = {bits: tokens_per_second(found, board.clock_mhz) for bits, found in rows.items()}
    return {
        "rows": [row for found in rows.values() for row in found],
        "conditions": {
            "fidelity": "twin",
            "rtl": rtl_digest(),
            "hw": hw.name,
            "int4_weights": hw.int4_weights,
            "board": board.name,
            "clock_mhz": board.clock_mhz,
            **asdict(model),
            **search,
        },
        "summary": {
            "tokens_per_second_int8": round(speeds[8], 3),
            "tokens_per_second_int4": round(speeds[4], 3),
            "int4_over_int8": round(speeds[4] / speeds[8], 3),
        },
    }


def main(words: Sequence[str] | None = None) -> int:
    """Print a table of the layers and the tokens per second."""
    options = _arguments(words)
    try:
        document = run(options)
    except TilewrightError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    write = sys.stdout.write
    write("| layer | weights | cycles | bound | per token |\n|---|--:|--:|--:|--:|\n")
    for row in document["rows"]:
        write(
            f"| {row['layer']} | int{row['weight_bits']} | {row['cycles']:,} "
            f"| {row['bound']:,} | {row['of_token']} |\n"
        )
    for name, value in document["summary"].items():
        write(f"{name} = {value}\n")
    if options.json is not None:
        write_whole(options.json, json.dumps({"generator": MARK, **document}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
