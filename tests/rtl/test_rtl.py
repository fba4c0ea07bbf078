# SPDX-License-Identifier: Apache-2.0
"""Every cocotb bench over its grid of parameters: a small one by default, all with `-m slow`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from builds import run_unit


def grid(*fast: dict[str, int], slow: tuple[dict[str, int], ...] = ()) -> list[Any]:
    """Parameter sets; those of ``slow`` run only when asked for."""
    return [pytest.param(p, id=_label(p)) for p in fast] + [
        pytest.param(p, id=_label(p), marks=pytest.mark.slow) for p in slow
    ]


def _label(parameters: dict[str, int]) -> str:
    return "-".join(str(value) for value in parameters.values())


def _gemm(batch: int, block_in: int, block_out: int, pipeline: int, packed: int) -> dict[str, int]:
    return {
        "Batch": batch,
        "BlockIn": block_in,
        "BlockOut": block_out,
        "MacPipeline": pipeline,
        "MacPacked": packed,
        "UopDepth": 64,
        "InpDepth": 32,
        "WgtDepth": 32,
        "AccDepth": 64,
        "AccBankShift": 4,
    }


@pytest.mark.parametrize(
    "parameters",
    grid(
        _gemm(1, 4, 4, 1, 0),
        _gemm(2, 8, 4, 3, 1),
        slow=(_gemm(1, 4, 8, 2, 1), _gemm(4, 4, 4, 6, 0), _gemm(1, 16, 16, 2, 1)),
    ),
)
def test_gemm(parameters: dict[str, int]) -> None:
    run_unit("tw_gemm", parameters)


def _vector(batch: int, block_out: int, lanes: int, par_row: int) -> dict[str, int]:
    return {
        "Batch": batch,
        "BlockOut": block_out,
        "Lanes": lanes,
        "ParRowBytes": par_row,
        "ParDepth": 8,
        "AccDepth": 64,
        "OutDepth": 32,
        "ResDepth": 32,
        "AccBankShift": 4,
    }


@pytest.mark.parametrize(
    "parameters",
    grid(
        _vector(1, 4, 4, 32),
        _vector(2, 8, 4, 64),
        slow=(
            _vector(1, 8, 1, 32),
            _vector(2, 4, 8, 32),
            _vector(4, 4, 2, 64),
            _vector(2, 16, 16, 32),
        ),
    ),
)
def test_vector(parameters: dict[str, int]) -> None:
    run_unit("tw_vector", parameters)


def _store(beat: int, burst: int, outstanding: int, tile: int, depth: int) -> dict[str, int]:
    return {
        "BeatBytes": beat,
        "BurstBeats": burst,
        "Outstanding": outstanding,
        "TileBytes": tile,
        "OutDepth": depth,
    }


@pytest.mark.parametrize(
    "parameters",
    grid(
        _store(8, 16, 4, 16, 64),
        _store(16, 4, 2, 4, 64),
        slow=(_store(4, 1, 1, 8, 32), _store(8, 64, 16, 8, 64), _store(64, 16, 3, 4, 128)),
    ),
)
def test_store(parameters: dict[str, int]) -> None:
    run_unit("tw_store", parameters)


def _load(beat: int, burst: int, inp: int, wgt: int, res: int) -> dict[str, int]:
    return {
        "BeatBytes": beat,
        "BurstBeats": burst,
        "InpTileBytes": inp,
        "WgtTileBytes": wgt,
        "AccTileBytes": 4 * res,
        "ParTileBytes": 64,
        "ResTileBytes": res,
        "InpDepth": 128,
        "WgtDepth": 32,
        "AccDepth": 64,
        "UopDepth": 128,
        "ParDepth": 8,
        "ResDepth": 128,
        "AccBankShift": 4,
    }


@pytest.mark.parametrize(
    "parameters",
    grid(
        _load(8, 16, 4, 16, 4),
        _load(16, 4, 16, 64, 4),
        slow=(_load(4, 1, 4, 16, 8), _load(8, 64, 8, 64, 16), _load(64, 16, 4, 16, 16)),
    ),
)
def test_load(parameters: dict[str, int]) -> None:
    run_unit("tw_load", parameters)
