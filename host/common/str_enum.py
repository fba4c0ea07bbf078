# SPDX-License-Identifier: Apache-2.0
"""`StrEnum` as Python 3.11 has it, for modules that run in the Python 3.10 of a board too."""

from __future__ import annotations

from enum import Enum


class StrEnum(str, Enum):  # noqa: UP042  (what it stands for is newer than the board's Python)
    """Names for strings: members are strings, and print as them."""

    __str__ = str.__str__
    __format__ = str.__format__
