# SPDX-License-Identifier: Apache-2.0
"""Build the native part of the twin as a shared library, cached by its sources.

It holds native lowering (host/lowering/native), the cycle model (sim/twin) and the DRAM model. It
does not depend on a configuration, so one build serves all. See `sim.tools.native_build`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tilewright.host.common.places import HOST_DIR, SIM_DIR
from tilewright.sim.tools.native_build import build_native

SOURCE_DIRS: Final = (HOST_DIR / "lowering" / "native", SIM_DIR / "twin")
"""Folders of which every C++ file belongs to the library."""
_INSTRUCTIONS: Final = HOST_DIR / "machine" / "generated" / "instructions.h"
_MEMORY_MODEL: Final = SIM_DIR / "harness" / "memory_model.cpp"


def twin_inputs() -> list[Path]:
    """All files that the library is made of."""
    folders = (folder.rglob(f"*{suffix}") for folder in SOURCE_DIRS for suffix in (".cpp", ".h"))
    memory_model = _MEMORY_MODEL.parent.glob("memory_model.*")
    return sorted([*(path for paths in (*folders, memory_model) for path in paths), _INSTRUCTIONS])


def build_twin() -> Path:
    """The shared library of the twin, built when the cache does not hold it."""
    return build_native("twin", twin_inputs())
