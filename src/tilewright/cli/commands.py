# SPDX-License-Identifier: Apache-2.0
"""Every command of `tilewright`; `application.ORDER` is the order of the help."""

# ruff: noqa: F401  (each import registers commands)

from __future__ import annotations

from tilewright.cli import (
    agent,
    bench,
    bitstream,
    board,
    certify,
    compare_rtl,
    compile,
    listings,
    map,
    multicore,
    report,
    run,
    sim,
    synth,
    tune,
    verify,
)
from tilewright.cli.common.application import app

__all__ = ["app"]
