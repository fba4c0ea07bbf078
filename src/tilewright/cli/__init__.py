# SPDX-License-Identifier: Apache-2.0
"""The `tilewright` command: one module a command, which imports what it needs when it runs."""

# ruff: noqa: I001  (the order of the imports is the order of the help)

from __future__ import annotations

from tilewright.cli import doctor, listings, sim, networks, agent, tune, certify, exhaust, report  # noqa: F401  (registers)
from tilewright.cli.application import app

__all__ = ["app", "main"]


def main() -> None:
    """Entry point of the `tilewright` command."""
    app()
