# SPDX-License-Identifier: Apache-2.0
"""Values that Tab completes: names of what a value may be, and files."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any, Final

_NETWORKS: Final = ("host.network.zoo:network_names",)
_TUNERS: Final = ("tuner.search:TUNERS",)
_BOARDS: Final = ("host.machine.board:named_boards",)
_SYSTEMS: Final = ("host.machine.system_config:named_systems",)

NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "HW": ("host.machine.hwconfig:named_configs", *_SYSTEMS),
    "BOARD": _BOARDS,
    "MEMORY": ("=board", "=ideal", *_BOARDS),
    "MODEL": _NETWORKS,
    "LAYER|MODEL": _NETWORKS,
    "SYSTEM": _SYSTEMS,
    "TUNER": _TUNERS,
    "HEAD": ("host.vision.names:Head",),
    "--tuner": _TUNERS,
    "--allocator": ("tuner.allocate:ALLOCATORS",),
}
"""What stands for a value in the help, or its option, and where its names are: modules of
Tilewright with a collection or a function that makes one, and ``=NAME`` for a name itself."""


def _names_at(place: str) -> Iterable[str]:
    module, _, name = place.partition(":")
    if not name:
        return (module.removeprefix("="),)
    found = getattr(importlib.import_module(f"tilewright.{module}"), name)
    return map(str, found() if isinstance(found, FunctionType) else found)


def complete(command: Any) -> None:
    """Let the options and arguments of a command complete their values."""
    for parameter in command.params:
        places = NAMES.get(str(parameter.metavar or "").strip("[].,"))
        for option in parameter.opts:
            places = NAMES.get(option, places)
        if places is not None:
            parameter._custom_shell_complete = _completer(places)


def _completer(places: Sequence[str]) -> Callable[..., list[str]]:
    def found(context: Any, parameter: Any, incomplete: str) -> list[str]:
        del context, parameter
        names = sorted(name for place in places for name in _names_at(place))
        known = [name for name in names if name.startswith(incomplete)]
        return [*known, *_files(incomplete)] if incomplete or not known else known

    return found


def _files(incomplete: str) -> list[str]:
    """Files and folders whose paths begin so, as they are typed."""
    folder, mark, begun = incomplete.rpartition("/")
    try:
        found = sorted(p for p in Path(folder + mark).iterdir() if p.name.startswith(begun))
    except OSError:
        return []
    return [f"{folder}{mark}{p.name}{'/' if p.is_dir() else ''}" for p in found]
