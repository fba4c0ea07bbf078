# SPDX-License-Identifier: Apache-2.0
"""The exact mapper's trees: bounds hold, and no choice is dropped but for a better one."""

import ctypes
import functools
from dataclasses import replace
from pathlib import Path

import numpy as np
from support.randomness import fresh_rng, where
from support.search.mappings import PRICED

from tilewright.sim.tools.build_cache import bind_library
from tilewright.sim.tools.native_build import build_native
from tilewright.tuner.mapping.cost import NATIVE_DIR, c_architecture

COUNTS = 12


@functools.cache
def choices_library() -> ctypes.CDLL:
    source = Path(__file__).parents[3] / "support" / "search" / "mapping_choices.cpp"
    native = [NATIVE_DIR / name for name in ("choices.cpp", "choices.h", "cost.h")]
    pointer, i32, i64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
    return bind_library(
        build_native("mapping-choices", [source, *native]),
        {"tw_choices_version": 1},
        {
            "tw_choices_check": (
                [pointer, i64, i64, pointer, i32, i64, pointer, pointer],
                i64,
            )
        },
    )


def test_bounds_hold_and_every_choice_has_a_leaf_that_is_as_good() -> None:
    rng = fresh_rng()
    met = 0
    for _ in range(1500):
        size = int(rng.integers(1, 40))
        ends = np.sort(rng.integers(1, [size + 1, size + 1, 6, 6], (2, 4)), axis=0)
        if rng.random() < 0.3:
            ends[:, 2] = 1
        if rng.random() < 0.3:
            ends[:, 3] = 1
        box = np.ascontiguousarray(ends, dtype=np.int32)
        arch = replace(PRICED, pes=int(rng.integers(1, 30)))
        stride, timed = int(rng.integers(1, 4)), int(rng.integers(2))
        listed = int(rng.choice([1, 40, 2048]))
        bounds, least = np.empty(COUNTS), np.empty(COUNTS)
        missed = choices_library().tw_choices_check(
            *(ctypes.byref(c_architecture(arch)), size, stride, box.ctypes.data),
            *(timed, listed, bounds.ctypes.data, least.ctypes.data),
        )
        facts = where(size=size, stride=stride, box=box.tolist(), pes=arch.pes, listed=listed)
        assert missed == 0, facts
        assert (bounds <= least).all(), facts + f" {bounds} {least}"
        met += bool(np.isfinite(least).all())
    assert met > 500
