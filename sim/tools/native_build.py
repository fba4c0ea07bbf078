# SPDX-License-Identifier: Apache-2.0
"""Build C++ of ours that knows no configuration, as a shared library cached by its sources."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tilewright.host.common.places import ROOT
from tilewright.sim.tools import build_cache
from tilewright.sim.tools.toolchain import find_compiler

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


def build_native(name: str, inputs: Sequence[Path]) -> Path:
    """The shared library of some C++ files, built when the cache does not hold it."""
    texts = [f"{path.name}\0{build_cache.source_text(path)}" for path in inputs]
    key = f"{name}-" + build_cache.digest([*_FLAGS, find_compiler().version, *texts])

    def make(work: Path, output: Path) -> dict[str, str]:
        sources = [path for path in inputs if path.suffix == ".cpp"]
        tasks = [([*_FLAGS, f"-I{ROOT}"], path) for path in sources]
        build_cache.link_library(build_cache.compile_objects(tasks, work, _JOBS), output)
        return {"compiler": find_compiler().version}

    return build_cache.cached_library(key, make)
