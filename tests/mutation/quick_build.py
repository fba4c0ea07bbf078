# SPDX-License-Identifier: Apache-2.0
"""Builds of models that run for seconds only: compiled without optimisation."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

from tilewright.host.machine.hwconfig import HwConfig
from tilewright.sim.tools import build_cache
from tilewright.sim.tools.build_cache import cache_dir, run_compiler
from tilewright.sim.verilator import build


def quick_model(hw: HwConfig, manifest: Path) -> Path:
    """The library of a configuration, built from the sources of a manifest.

    The MAC style is that of ``hw``. The result goes to the build cache under the key of an
    optimised build: use a cache folder of your own (TILEWRIGHT_CACHE).
    """
    with (
        mock.patch.object(build, "run_compiler", _compile),
        mock.patch.object(build_cache, "run_compiler", _compile),
    ):
        return build.build_model(hw, manifest=manifest, jobs=1)


def _compile(arguments: Sequence[str]) -> None:
    """Compile without optimisation; the harness only when what it sees of the model is new."""
    quick = [*arguments, "-O0"]  # the last one counts
    if not any(argument.endswith("/simulation.cpp") for argument in arguments):
        run_compiler(quick)
        return
    target = Path(arguments[arguments.index("-o") + 1])
    key = hashlib.sha256()
    for name in (f"V{build.TOP}.h", f"V{build.TOP}___024root.h"):
        key.update((target.parent / "verilated" / name).read_bytes())
    key.update(repr([each for each in arguments if each.startswith("-D")]).encode())
    kept = cache_dir() / f"harness-{key.hexdigest()[:16]}.o"
    if not kept.exists():
        run_compiler(quick)
        copy = kept.with_suffix(f".{target.parent.name}")
        shutil.copyfile(target, copy)
        copy.replace(kept)
    shutil.copyfile(kept, target)
