# SPDX-License-Identifier: Apache-2.0
"""Names of the files that a study's report consists of."""

from __future__ import annotations

from pathlib import Path


def report_path(study: str, runs: Path) -> Path:
    """The report of a study in its folder; a terminal may show the name.

    Slashes in the name are folders, so that no two studies share a file.
    """
    shown = "".join(c if c.isprintable() else "_" for c in study)
    *folders, name = (part if part.strip(".") else "_" for part in shown.split("/"))
    return runs.joinpath(*folders, f"{name}.html")
