# SPDX-License-Identifier: Apache-2.0
"""Griffe extension: docstrings and signatures as Python shows them.

The section ``Example:`` is shown like ``Examples:``. A function that takes the fields of settings
(`host.common.options.takes`) has its parameters and their texts from there.
"""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

import griffe


class DocstringExamples(griffe.Extension):
    """Changes objects before their docstrings are parsed."""

    def on_function_instance(self, *, func: griffe.Function, **_: Any) -> None:
        """See the module."""
        if func.docstring is None or not any("takes(" in str(d.value) for d in func.decorators):
            return
        found = getattr(importlib.import_module(func.module.path), func.name)
        func.docstring.value = inspect.getdoc(found) or ""
        func.parameters = griffe.Parameters(
            *(
                griffe.Parameter(
                    each.name,
                    annotation=str(each.annotation),
                    kind=griffe.ParameterKind(each.kind.description),
                    default=None if each.default is each.empty else repr(each.default),
                )
                for each in inspect.signature(found).parameters.values()
            )
        )

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """See the module."""
        if obj.docstring is not None:
            text = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
            obj.docstring.value = text
