# SPDX-License-Identifier: Apache-2.0
"""pytest plugin of the mutation check: the cocotb benches build the sources of a mutant."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from tilewright.sim.verilator.build import read_manifest


def pytest_configure(config: Any) -> None:
    """Point `tests/rtl/builds.py` to the mutant in TILEWRIGHT_MUTANT."""
    work = Path(os.environ["TILEWRIGHT_MUTANT"])
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "rtl"))
    builds = __import__("builds")
    builds.read_manifest = lambda: read_manifest(work / "rtl" / "tilewright.f")
    builds.CACHE = work / "cocotb"
