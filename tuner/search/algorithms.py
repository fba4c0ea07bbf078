# SPDX-License-Identifier: Apache-2.0
"""What a registry of algorithms is made of: entries by name, imported when they are used."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tilewright.host.common.extras import install_line
from tilewright.tuner.search.tuner import TunerError


@dataclass(frozen=True, kw_only=True)
class AlgorithmSpec:
    """What is known of an algorithm before it is imported.

    Attributes:
        module: in the registry's package.
        kind: name of the class in it.
        summary: one line for the command line and the docs.
        packages: importable packages that it needs beyond Tilewright's own.
        extras: of the distribution, which install them.
    """

    module: str
    kind: str
    summary: str
    packages: tuple[str, ...] = ()
    extras: tuple[str, ...] = ("search",)


S = TypeVar("S", bound=AlgorithmSpec)


def find(registry: Mapping[str, S], noun: str, name: str) -> S:
    """The entry of a name.

    Args:
        registry: entries by name.
        noun: what the entries are; the field of an error.
        name: asked for.

    Raises:
        TunerError: there is none of that name.
    """
    try:
        return registry[name]
    except KeyError as error:
        raise TunerError(
            f"no {noun} of that name",
            field=noun,
            value=name,
            remedy=f"use one of {', '.join(registry)}",
        ) from error


def load(spec: AlgorithmSpec, package: str, noun: str, name: str) -> type[Any]:
    """The class of an entry.

    Args:
        spec: the entry.
        package: that holds its module.
        noun: what the entry is; the field of an error.
        name: of the entry.

    Raises:
        TunerError: a package that it needs is not installed.
    """
    for needed in spec.packages:
        if importlib.util.find_spec(needed) is None:
            raise TunerError(
                f"{noun} {name} needs the package {needed}, which is not installed",
                field=noun,
                remedy=install_line(*spec.extras),
            )
    kind: type[Any] = getattr(importlib.import_module(f"{package}.{spec.module}"), spec.kind)
    return kind
