# SPDX-License-Identifier: Apache-2.0
"""Tokens per second: what a token needs, and that half the weights' bytes make it faster."""

from tilewright.bench.framework.study import run_study
from tilewright.bench.hardware import decode
from tilewright.bench.hardware.settings import DecodeSettings
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


def test_weights_of_4_bits_are_faster(capsys) -> None:
    settings = DecodeSettings(
        hw="tiny-4x4", width=64, context=8, blocks=2, words=0, search_cycles=1
    )
    result = run_study(decode.Decode(settings))
    assert {row["weight_bits"] for row in result.rows} == {4, 8}
    assert all(row["cycles"] >= row["bound"] for row in result.rows)
    assert result.summary["int4_over_int8"] > 1.2
    assert "per token" in capsys.readouterr().out
