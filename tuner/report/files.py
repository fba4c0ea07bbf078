# SPDX-License-Identifier: Apache-2.0
"""Names of the files that a study's report consists of."""

from __future__ import annotations

from pathlib import Path


def report_path(study: str, runs: Path) -> Path:
    """The report of a study in its folder; a terminal may show the name."""
    name = "".join(c if c.isprintable() and c != "/" else "_" for c in study)
    return runs / f"{name}.html"
