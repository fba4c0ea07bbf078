# SPDX-License-Identifier: Apache-2.0
"""Values that Tab completes: names of what a value may be, and files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final


def _configurations() -> Iterable[str]:
    from tilewright.host.machine.hwconfig import named_configs

    return named_configs()


def _designs() -> Iterable[str]:
    from tilewright.host.machine.system_config import named_systems

    return (*_configurations(), *named_systems())


def _systems() -> Iterable[str]:
    from tilewright.host.machine.system_config import named_systems

    return named_systems()


def _boards() -> Iterable[str]:
    from tilewright.host.machine.board import named_boards

    return named_boards()


def _memories() -> Iterable[str]:
    return ("board", "ideal", *_boards())


def _networks() -> Iterable[str]:
    from tilewright.host.network.zoo import network_names

    return network_names()


def _tuners() -> Iterable[str]:
    from tilewright.tuner.search import TUNERS

    return TUNERS


def _allocators() -> Iterable[str]:
    from tilewright.tuner.allocate import ALLOCATORS

    return ALLOCATORS


def _heads() -> Iterable[str]:
    from tilewright.host.vision.names import Head

    return map(str, Head)


BY_METAVAR: Final[Mapping[str, Callable[[], Iterable[str]]]] = {
    "HW": _designs,
    "BOARD": _boards,
    "MEMORY": _memories,
    "MODEL": _networks,
    "LAYER|MODEL": _networks,
    "SYSTEM": _systems,
    "TUNER": _tuners,
    "HEAD": _heads,
}
"""What stands for a value in the help, and the names that the value may be."""

BY_NAME: Final[Mapping[str, Callable[[], Iterable[str]]]] = {
    "--tuner": _tuners,
    "--allocator": _allocators,
}


def complete(command: Any) -> None:
    """Let the options and arguments of a command complete their values."""
    for parameter in command.params:
        names = BY_METAVAR.get(str(parameter.metavar or "").strip("[].,"))
        for option in parameter.opts:
            names = BY_NAME.get(option, names)
        if names is not None:
            parameter._custom_shell_complete = _completer(names)


def _completer(names: Callable[[], Iterable[str]]) -> Callable[..., list[str]]:
    def found(context: Any, parameter: Any, incomplete: str) -> list[str]:
        del context, parameter
        known = [name for name in sorted(names()) if name.startswith(incomplete)]
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
