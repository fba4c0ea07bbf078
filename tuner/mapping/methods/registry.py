# SPDX-License-Identifier: Apache-2.0
"""Every mapper by its name; its module is imported when it is made.

A new algorithm is one file with a `Mapper` subclass and one line here. One of a user's own is named
by an entry point of the group ``tilewright.mappers``, or as ``package.module:Class``. Any tuner of
`tuner.search` is a mapper, too: ``tuner-`` and its name.
"""

from __future__ import annotations

from typing import Any, Final

from tilewright.host.common.plugins import Entry, Registry
from tilewright.tuner.mapping.methods.mapper import Mapper, MapperError
from tilewright.tuner.mapping.methods.tuner_mapper import TunerMapper
from tilewright.tuner.search.registry import TUNERS

TUNER_PREFIX: Final = "tuner-"

_BUILTIN: Final = {
    "random": Entry(
        module="methods.random",
        kind="RandomMapper",
        summary="legal mappings, drawn at random",
    ),
}

MAPPERS: Final[Registry[Mapper]] = Registry(
    "mapper",
    base=Mapper,
    group="tilewright.mappers",
    package="tilewright.tuner.mapping",
    builtin=_BUILTIN,
    error=MapperError,
)
"""Every mapper by its name on the command line."""


def make_mapper(name: str, **options: Any) -> Mapper:
    """A mapper by name.

    Args:
        name: a key of `MAPPERS`, ``package.module:Class``, or ``tuner-`` and a key of `TUNERS`.
        options: arguments of the class.

    Raises:
        MapperError: there is none of that name, a package that it needs is not installed, or a
            plug-in is broken.
        TunerError: as for a tuner.
    """
    if isinstance(name, str) and name.startswith(TUNER_PREFIX):
        TUNERS.check(name.removeprefix(TUNER_PREFIX))
        return TunerMapper(name.removeprefix(TUNER_PREFIX), **options)
    return MAPPERS.load(name)(**options)
