# SPDX-License-Identifier: Apache-2.0
"""Griffe extension: the section ``Example:`` of a docstring is shown like ``Examples:``."""

from __future__ import annotations

import re
from typing import Any

import griffe


class DocstringExamples(griffe.Extension):
    """Renames the section before it is parsed."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """See the class."""
        if obj.docstring is not None:
            text = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
            obj.docstring.value = text
