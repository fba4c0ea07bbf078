# SPDX-License-Identifier: Apache-2.0
"""`named`: a call of a public function with wrong arguments is told with the nearest right one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from tilewright.host.common.errors import TilewrightError
from tilewright.host.common.names import choices, nearest

A = ParamSpec("A")
R = TypeVar("R")


class ArgumentError(TilewrightError, TypeError):
    """A function was called with arguments that it does not have, or without one that it needs."""


def named(function: Callable[A, R]) -> Callable[A, R]:
    """A function whose wrong calls are an `ArgumentError`; right ones cost nothing more."""

    @functools.wraps(function)
    def called(*args: A.args, **kwargs: A.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError:
            bound(function, inspect.signature(function), args, kwargs)
            raise

    return called


def bound(
    function: Callable[..., object],
    signature: inspect.Signature,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> inspect.BoundArguments:
    """The arguments of a call by their names, or an `ArgumentError`."""
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        name, known = f"{function.__name__}()", signature.parameters
        unknown = [each for each in kwargs if each not in known]
        see = f"see help(tilewright.{function.__name__})"
        if unknown and not any(each.kind is each.VAR_KEYWORD for each in known.values()):
            near = nearest(unknown[0], known)
            remedy = f"did you mean {near!r}?" if near else choices(unknown[0], known, "it has")
            raise ArgumentError(f"{name} has no option {unknown[0]!r}", remedy=remedy) from error
        raise ArgumentError(f"{name} cannot be called so: {error}", remedy=see) from error
