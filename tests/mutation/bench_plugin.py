# SPDX-License-Identifier: Apache-2.0
"""pytest plugin of the mutation check: the benches of units build the sources of a mutant."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path
from typing import Any, Final

WALL_SECONDS: Final = 120
"""Of a simulation: a unit's bench takes seconds, and a mutant that hangs is found."""


def pytest_configure(config: Any) -> None:
    """Point `tests/rtl/builds.py` to the mutant in TILEWRIGHT_MUTANT."""
    work = Path(os.environ["TILEWRIGHT_MUTANT"])
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "rtl"))
    builds = __import__("builds")
    rtl = builds.MANIFESTS[0].parent
    builds.MANIFESTS = tuple(work / "rtl" / path.relative_to(rtl) for path in builds.MANIFESTS)
    builds.CACHE = work / "cocotb"
    builds.run_bench = functools.partial(builds.run_bench, wall_seconds=WALL_SECONDS)
