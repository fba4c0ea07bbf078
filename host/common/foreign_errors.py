# SPDX-License-Identifier: Apache-2.0
"""What other libraries raise, as the reason inside an error of ours."""

from __future__ import annotations

import re
from typing import Final

_CODE: Final = re.compile(r"\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : ")
_SOURCE: Final = re.compile(r"(?<!\S)/[\w./+-]{1,200}\.(?:cc|cpp|h):\d+ ")

_MOST_CHARACTERS: Final = 4000
"""Of a message that are read: it may quote what a user's file holds."""


def reason_of(error: BaseException, limit: int = 160) -> str:
    """The message of an error in one line, without the places in C++ sources that it names."""
    text = " ".join(str(error)[:_MOST_CHARACTERS].split())
    return _without_source(_CODE.sub("", text))[:limit] or type(error).__name__


def _without_source(text: str) -> str:
    """A text without the first ``file.cc:12 type name(parameters) const`` of ONNX Runtime."""
    found = _SOURCE.search(text)
    if found is None:
        return text
    depth = 0
    for place in range(found.end(), len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if text[place] == ")" and depth == 0 and not text.startswith("(", place + 1):
            rest = text[place + 1 :].removeprefix(" const").lstrip()
            return text[: found.start()] + (rest or text[found.start() :])
    return text
