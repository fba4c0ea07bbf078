# SPDX-License-Identifier: Apache-2.0
"""Modules of the repository that no wheel holds: parts of `examples/` and `tests/`, by path."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

from tilewright.host.common.errors import ToolError
from tilewright.host.common.places import ROOT


def clone_part(path: str, name: str) -> ModuleType:
    """Import a file, or a package, of the repository."""
    place = ROOT / path
    if not place.exists():
        raise ToolError(
            f"needs {path}, which an installed package does not hold",
            field="tilewright",
            remedy="run it in a clone of the repository, after `make setup`",
        )
    if name in sys.modules:
        return sys.modules[name]
    package = place.is_dir()
    spec = importlib.util.spec_from_file_location(
        name,
        place / "__init__.py" if package else place,
        submodule_search_locations=[str(place)] if package else None,
    )
    if spec is None or spec.loader is None:
        raise ToolError(f"{path} is no Python module", field="tilewright")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
