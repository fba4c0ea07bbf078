# SPDX-License-Identifier: Apache-2.0
"""Runs of a study: one after another in this process, or several processes side by side."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from typing import Any

from tilewright.host.common.children import spawn_context


def executor(jobs: int) -> Executor:
    """Who runs calls; with one job they run here, each when its result is asked for.

    Args:
        jobs: processes.
    """
    if jobs == 1:
        return _Here()
    return ProcessPoolExecutor(jobs, mp_context=spawn_context())


class _Here(Executor):
    """Runs a call when its result is asked for, in this process."""

    class _Call:
        def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
            self._function, self._arguments = function, arguments

        def result(self) -> Any:
            return self._function(*self._arguments)

    def submit(self, function: Any, /, *arguments: Any, **_: Any) -> Any:
        return self._Call(function, arguments)
