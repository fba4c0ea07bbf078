# SPDX-License-Identifier: Apache-2.0
"""Every command of `tilewright`, in the order of the help."""

# ruff: noqa: I001  (the order of the imports is the order of the help)

from __future__ import annotations

from tilewright.cli import doctor, listings, sim, networks, agent, tune, certify, exhaust, report  # noqa: F401  (registers)
from tilewright.cli.application import app

__all__ = ["app"]
