# SPDX-License-Identifier: Apache-2.0
"""Errors of the row unit's softmax and layer normalisation against float64, beside I-BERT's.

``python -m tilewright.bench.hardware.row_functions`` prints the tables of
`docs/explanation/rows.md`.

I-BERT (Kim et al., *I-BERT: Integer-only BERT Quantization*, ICML 2021) computes both functions
with int32 arithmetic: a polynomial for the exponential (algorithm 2), a division, and an integer
square root (algorithm 4). It takes accumulators, which have finer steps than int8: it gets inputs
here whose steps are 256 times (softmax) and 2^14 times (layer normalisation) finer than ours.
"""

from __future__ import annotations

import math
import sys

import numpy as np
import numpy.typing as npt

from tilewright.host.network import row_functions

Floats = npt.NDArray[np.float64]


RowError = tuple[str, float, float, float, float]
"""What rows are; the largest and the mean error, ours and I-BERT's, in steps of int8."""


def float_softmax(x: Floats) -> Floats:
    """Softmax along the last axis."""
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def float_layer_norm(x: Floats) -> Floats:
    """Rows without their mean, over their standard deviation."""
    return np.asarray((x - x.mean(axis=-1, keepdims=True)) / x.std(axis=-1, keepdims=True))


def ibert_softmax(q: Floats, scale: float) -> Floats:
    """I-BERT's softmax of integers of a scale: polynomial, 16-bit powers, one division."""
    a, b, c = 0.35815147, 0.96963238 / 0.35815147, 1.0 / 0.35815147
    halvings = 30
    step = math.floor(-math.log(2) / scale)
    x = np.maximum(q - q.max(axis=-1, keepdims=True), halvings * step)
    z = np.floor(x / step)
    r = x - step * z
    powers = r * (r + math.floor(b / scale)) + math.floor(c / scale**2)
    powers = np.maximum(np.floor(powers * 2.0 ** (halvings - z)), 0) * a * scale**2 / 2**halvings
    powers = np.rint(powers / (powers.max() / 32767))
    factor = np.floor(2.0**32 / powers.sum(axis=-1, keepdims=True))
    return np.asarray(powers * factor / 2.0**32)


def ibert_layer_norm(q: Floats) -> Floats:
    """I-BERT's layer normalisation of integers: a rounded mean, an integer square root."""
    y = q - np.rint(q.mean(axis=-1, keepdims=True))
    root = np.maximum(np.floor(np.sqrt((y**2).sum(axis=-1, keepdims=True))), 1)
    return np.asarray(np.floor(y * np.floor(2.0**31 / root) / 2) * math.sqrt(q.shape[-1]) / 2**30)


def _error(rows: str, step: float, ours: Floats, theirs: Floats) -> RowError:
    both = [np.abs(error) / step for error in (ours, theirs)]
    return (rows, *(float(of(each)) for each in both for of in (np.max, np.mean)))  # type: ignore[return-value]  # two of each


def softmax_errors(rng: np.random.Generator, *, rows: int = 400) -> list[RowError]:
    """Rows of 8 to 1,024 normally distributed logits, quantised with one scale."""
    errors = []
    for length in (8, 64, 197, 1024):
        for spread in (0.5, 2.0, 6.0):
            x = rng.normal(0, spread, (rows, length))
            scale = float(np.abs(x).max() / 127)
            coarse, fine = np.clip(np.rint(x / scale), -128, 127), np.rint(x / scale * 256)
            found = row_functions.softmax_probabilities(
                coarse.astype(np.int8), row_functions.Softmax.of(scale)
            )
            errors.append(
                _error(
                    f"{length} logits, deviation {spread}",
                    1 / 256,
                    found / 2**row_functions.PROBABILITY_BITS - float_softmax(coarse * scale),
                    ibert_softmax(fine, scale / 256) - float_softmax(fine * scale / 256),
                )
            )
    return errors


def layer_norm_errors(rng: np.random.Generator, *, rows: int = 400) -> list[RowError]:
    """Rows of 32 to 1,024 channels, some with two channels that are far from the others."""
    errors = []
    for channels in (32, 128, 768, 1024):
        for outlier in (0, 1, 4):
            x = rng.normal(0.3, 1, (rows, channels)) * np.exp(rng.normal(0, 0.5, (rows, 1)))
            x[:, :2] *= max(1, 3 * outlier)
            scale = float(np.abs(x).max() / 127)
            coarse, fine = np.clip(np.rint(x / scale), -128, 127), np.rint(x / scale * 2**14)
            exact = float_layer_norm(coarse)
            function = row_functions.LayerNorm.of(np.ones(channels), np.zeros(channels), 1.0)
            errors.append(
                _error(
                    f"{channels} channels, outliers of {max(1, 3 * outlier)}",
                    float(np.abs(exact).max() / 127),
                    row_functions.normalised(coarse.astype(np.int8), function)
                    / 2**row_functions.NORMAL_BITS
                    - exact,
                    ibert_layer_norm(fine) - float_layer_norm(fine),
                )
            )
    return errors


def table(errors: list[RowError]) -> str:
    """A Markdown table."""
    lines = [
        "| rows | largest | mean | I-BERT: largest | I-BERT: mean |",
        "|---|--:|--:|--:|--:|",
    ]
    lines += [
        f"| {rows} | {ours:.3f} | {our_mean:.4f} | {theirs:.3f} | {their_mean:.4f} |"
        for rows, ours, our_mean, theirs, their_mean in errors
    ]
    return "\n".join(lines)


def main() -> int:
    """Print both tables."""
    rng = np.random.default_rng(1)
    sys.stdout.write(f"{table(softmax_errors(rng))}\n\n{table(layer_norm_errors(rng))}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
