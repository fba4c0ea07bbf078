# SPDX-License-Identifier: Apache-2.0
"""Every command of `tilewright`, in the order of the help."""

# ruff: noqa: F401, I001  (an import registers a command; their order is that of the help)

from __future__ import annotations

from tilewright.cli import (
    doctor,
    listings,
    sim,
    compile,
    run,
    agent,
    tune,
    certify,
    exhaust,
    report,
)
from tilewright.cli.application import app

__all__ = ["app"]
