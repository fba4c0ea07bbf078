# SPDX-License-Identifier: Apache-2.0
"""Build the native part of the twin as a shared library, cached by its sources.

It holds native lowering (host/lowering/native), the cycle model (sim/twin) and the DRAM model. It
does not depend on a configuration, so one build serves all. See `sim.tools.build_cache`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tilewright.host.common.places import HOST_DIR, ROOT, SIM_DIR
from tilewright.sim.tools.build_cache import (
    cached_library,
    compile_objects,
    digest,
    link_library,
    source_text,
)
from tilewright.sim.tools.toolchain import find_compiler

SOURCE_DIRS: Final = (HOST_DIR / "lowering" / "native", SIM_DIR / "twin")
"""Folders of which every C++ file belongs to the library."""
_INSTRUCTIONS: Final = HOST_DIR / "machine" / "generated" / "instructions.h"
_MEMORY_MODEL: Final = SIM_DIR / "harness" / "memory_model.cpp"

_FLAGS: Final = (
    "-std=gnu++17",
    "-O3",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-semantic-interposition",
    "-Wall",
    "-Wextra",
    "-Werror",
)
_JOBS: Final = 2


def twin_sources() -> list[Path]:
    """The C++ files that are compiled."""
    return [path for path in twin_inputs() if path.suffix == ".cpp"]


def twin_inputs() -> list[Path]:
    """All files that the library is made of."""
    folders = (folder.rglob(f"*{suffix}") for folder in SOURCE_DIRS for suffix in (".cpp", ".h"))
    memory_model = _MEMORY_MODEL.parent.glob("memory_model.*")
    return sorted([*(path for paths in (*folders, memory_model) for path in paths), _INSTRUCTIONS])


def build_twin() -> Path:
    """The shared library of the twin, built when the cache does not hold it.

    Returns:
        Path of the library; it stays valid while the cache is not deleted.

    Raises:
        BuildError: the compiler refuses; the text holds its first error lines.
        ToolError: the compiler is missing.
    """
    texts = [f"{path.name}\0{source_text(path)}" for path in twin_inputs()]
    key = "twin-" + digest([*_FLAGS, find_compiler().version, *texts])

    def make(work: Path, output: Path) -> dict[str, str]:
        tasks = [([*_FLAGS, f"-I{ROOT}"], path) for path in twin_sources()]
        link_library(compile_objects(tasks, work, _JOBS), output)
        return {"compiler": find_compiler().version}

    return cached_library(key, make)
