# SPDX-License-Identifier: Apache-2.0
"""Names of classes: from a text file, or from what an exporter wrote into a model."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.errors import WorkloadError

MAX_LABEL_BYTES: Final = 1 << 20
_MOST: Final = 20_000
_LINES: Final = "write the name of a class in each line"


def read_labels(path: Path) -> tuple[str, ...]:
    """The names in a text file, one in each line.

    Raises:
        WorkloadError: it cannot be read, is no UTF-8, or is too large.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_LABEL_BYTES + 1)
        text = content.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise WorkloadError(
            f"must be a text file in UTF-8 ({error})", field=str(path), remedy=_LINES
        ) from error
    if len(content) > MAX_LABEL_BYTES:
        raise WorkloadError(
            f"must have at most {MAX_LABEL_BYTES} bytes", field=str(path), remedy=_LINES
        )
    lines = text.removesuffix("\n").split("\n") if text else []
    return tuple(line.removesuffix("\r") for line in lines)


def stated_labels(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The names that a model's properties state, as Ultralytics writes them; empty: none.

    They are data from a file: what is no list or mapping of names is left out.
    """
    text = properties.get("names", "")
    if not text or len(text) > MAX_LABEL_BYTES:
        return ()
    try:
        names: Any = ast.literal_eval(text)
        if isinstance(names, Mapping):
            numbers = [key for key in names if isinstance(key, int) and 0 <= key < _MOST]
            names = [names.get(n, str(n)) for n in range(max(numbers, default=-1) + 1)]
        if not isinstance(names, Sequence) or isinstance(names, str | bytes) or len(names) > _MOST:
            return ()
        return tuple(map(str, names))
    except (MemoryError, RecursionError, SyntaxError, TypeError, ValueError):
        return ()


_TASKS: Final = {
    "classify": "classify", "detect": "detect", "segment": "segment", "pose": "keypoints",
}  # fmt: skip


def stated_task(properties: Mapping[str, str]) -> str:
    """The task that a model's properties state, as Ultralytics names it; empty: none."""
    return _TASKS.get(properties.get("task", ""), "")
