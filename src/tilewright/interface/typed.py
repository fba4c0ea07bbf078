# SPDX-License-Identifier: Apache-2.0
"""`typed`: a value of a wrong type is refused by its argument, not by an error deep inside."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from tilewright.host.common.calls import bound
from tilewright.host.common.errors import TilewrightError
from tilewright.host.machine.board import Board, MemoryModel
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.network_table import NetworkTable
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload

A = ParamSpec("A")
R = TypeVar("R")

_PLAIN: Final[Mapping[Any, tuple[type, ...]]] = {
    bool: (bool, np.bool_),
    int: (Integral,),
    float: (Real,),
}


def _names() -> dict[str, Any]:
    """What annotations of settings name that their module imports for type checkers alone."""
    # ruff: noqa: PLC0415  (a network's are slow to import, and a layer needs none)
    from tilewright.host.compiler.pack.artefact import CompiledNetwork
    from tilewright.host.compiler.read.import_options import Array, Int4Layers, Method
    from tilewright.host.compiler.read.own_operator import Operator
    from tilewright.host.runtime.device import Device
    from tilewright.tuner.search.tuner import Tuner

    return {
        "Any": Any, "Array": Array, "Board": Board, "CompiledNetwork": CompiledNetwork,
        "Device": Device, "HwConfig": HwConfig, "Int4Layers": Int4Layers, "Iterable": Iterable,
        "Mapping": Mapping, "MemoryModel": MemoryModel, "Method": Method,
        "NetworkTable": NetworkTable, "Operator": Operator, "Path": Path, "Schedule": Schedule,
        "Sequence": Sequence, "Tuner": Tuner, "Workload": Workload,
    }  # fmt: skip


def typed(function: Callable[A, R]) -> Callable[A, R]:
    """Hold the arguments of a public function to its annotations, or raise `TilewrightError`."""
    signature = inspect.signature(function)
    hints = functools.cache(
        lambda: get_type_hints(
            function, localns=_names() if hasattr(function, "__signature__") else None
        )
    )

    @functools.wraps(function)
    def checked(*args: A.args, **kwargs: A.kwargs) -> R:
        for name, value in bound(function, signature, args, kwargs).arguments.items():
            parameter = signature.parameters[name]
            if parameter.kind is not parameter.VAR_KEYWORD and not _is(value, hints()[name]):
                raise TilewrightError(
                    f"must be {parameter.annotation}",
                    field=name,
                    value=value,
                    remedy=f"see help(tilewright.{function.__name__})",
                )
        return function(*args, **kwargs)

    return checked


def _is(value: object, hint: Any) -> bool:
    """Whether a value is what an annotation says; what cannot be told is."""
    kind, inside = get_origin(hint), get_args(hint)
    if kind in (Union, types.UnionType):
        return any(_is(value, each) for each in inside)
    if kind in (Sequence, Iterable):
        return (
            isinstance(value, kind)
            and not isinstance(value, str | bytes)
            and all(_is(each, inside[0]) for each in (value if kind is Sequence else ()))
        )
    if kind is Mapping:
        return isinstance(value, Mapping) and all(
            _is(each, of) for item in value.items() for each, of in zip(item, inside, strict=True)
        )
    if hint in _PLAIN:
        return isinstance(value, _PLAIN[hint]) and (hint is bool or not isinstance(value, bool))
    if kind is type:
        return isinstance(value, type)
    wanted = kind or hint
    return wanted is Any or not isinstance(wanted, type) or isinstance(value, wanted)
