# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions as plain ones, against their definition."""

import itertools

import numpy as np
import pytest

from tilewright.host.compiler.lower.convolutions import phases


@pytest.mark.parametrize(
    ("size", "kernel", "stride"), [*itertools.product((1, 2, 5), (1, 2, 3, 5), (1, 2, 3, 4))]
)
def test_phases_give_every_output_once(size, kernel, stride):
    rng = np.random.default_rng([size, kernel, stride])
    x, w = rng.integers(-9, 9, size), rng.integers(-9, 9, kernel)
    for pad, extra in itertools.product(range(kernel), range(stride)):
        outputs = (size - 1) * stride + kernel - 2 * pad + extra
        if outputs < 1:
            continue
        expected = np.zeros((size - 1) * stride + kernel + extra + pad, dtype=int)
        for i, k in itertools.product(range(size), range(kernel)):
            expected[i * stride + k] += x[i] * w[k]
        expected = expected[pad : pad + outputs]
        got = np.full(outputs, 99999)
        for phase in phases(size, kernel, stride, pad, outputs):
            taps = phase.take(w, 0)
            padded = np.pad(x, (phase.pad_low, phase.pad_high))
            got[phase.first :: stride] = np.correlate(padded, taps, "valid")
        assert np.array_equal(got, expected), (pad, extra)
