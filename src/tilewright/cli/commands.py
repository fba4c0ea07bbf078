# SPDX-License-Identifier: Apache-2.0
"""Every command of `tilewright`, in the order of the help."""

# ruff: noqa: I001, F401  (each import registers commands; their order is that of the help)

from __future__ import annotations

from tilewright.cli import sim, exhaust, certify, export
from tilewright.cli import tune, report, listings
from tilewright.cli import compile, run
from tilewright.cli import agent, board, bitstream, synth
from tilewright.cli import verify
from tilewright.cli.bench import speed, search, accelerator
from tilewright.cli import doctor
from tilewright.cli.application import app

__all__ = ["app"]
