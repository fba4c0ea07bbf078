# SPDX-License-Identifier: Apache-2.0
"""Where the trial store of a folder of studies is."""

from __future__ import annotations

from pathlib import Path
from typing import Final

STORE_FILE: Final = "studies.sqlite"
"""The store in a folder of studies, unless another one is named."""


def store_location(store: str | Path, runs: Path) -> Path | str:
    """A store's URL, or the path of its SQLite file."""
    if "://" in str(store):
        return str(store)
    return Path(store) if str(store) else runs / STORE_FILE
