# SPDX-License-Identifier: Apache-2.0
"""Every cocotb bench over its grid of parameters: a small one by default, all with `-m slow`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from builds import named, run_top, run_unit  # noqa: E402 - beside this file

from tilewright.host.hwconfig import HwConfig  # noqa: E402


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
