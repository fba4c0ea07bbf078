# SPDX-License-Identifier: Apache-2.0
"""`StrEnum` as Python 3.11 has it, for modules that run in the Python 3.10 of a board too."""

from __future__ import annotations

from enum import Enum


class StrEnum(str, Enum):  # noqa: UP042  (what it stands for is newer than the board's Python)
    """Names for strings: members are strings, and print as them."""

    def __str__(self) -> str:
        return str(self.value)

    def __format__(self, format_spec: str) -> str:
        return format(str(self.value), format_spec)
