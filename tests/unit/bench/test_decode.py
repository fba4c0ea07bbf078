# SPDX-License-Identifier: Apache-2.0
"""Tokens per second: what a token needs, and that half the weights' bytes make it faster."""

from __future__ import annotations

import json

from tilewright.bench import decode
from tilewright.host.network.zoo.transformer import decoder_block


def test_a_token_needs_every_weight_of_a_block_once() -> None:
    block = decoder_block(width=128, context=32, weight_bits=4)
    weighted = [layer for layer in block if layer.weight_bits == 4]
    assert sum(layer.macs for layer in weighted) == 12 * 128**2
    cached = [layer for layer in block if layer.weight_bits == 8]
    assert sum(layer.macs * layer.count for layer in cached) == 2 * 128 * 32


def test_tokens_per_second_are_those_of_all_layers_in_turn() -> None:
    rows = [{"cycles": 100, "of_token": 3}, {"cycles": 50, "of_token": 4}]
    assert decode.tokens_per_second(rows, 100.0) == 100e6 / 500


def test_weights_of_4_bits_are_faster(tmp_path, capsys) -> None:
    path = tmp_path / "decode.json"
    small = ["--hw", "tiny-4x4", "--width", "64", "--context", "8", "--blocks", "2", "--words", "0"]
    assert decode.main([*small, "--search-cycles", "1", "--json", str(path)]) == 0
    document = json.loads(path.read_text())
    assert {row["weight_bits"] for row in document["rows"]} == {4, 8}
    assert all(row["cycles"] >= row["bound"] for row in document["rows"])
    assert document["summary"]["int4_over_int8"] > 1.2
    assert "int4_over_int8" in capsys.readouterr().out


def test_an_unknown_configuration_is_one_line(capsys) -> None:
    assert decode.main(["--hw", "tiny-4x5"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
