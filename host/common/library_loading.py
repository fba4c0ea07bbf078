# SPDX-License-Identifier: Apache-2.0
"""Loads TVM without PyTorch: two thirds of the time that ``import tvm`` takes is PyTorch's."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any


class _LaterSymPy(ModuleType):
    """SymPy for onnx_ir, which needs it to compute with sizes that are not known, and to load.

    While onnx_ir loads, each name stands for a function that is looked up when it is called. Later
    it is what SymPy has.
    """

    is_loading = True

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def called(*arguments: Any) -> Any:
            return getattr(importlib.import_module("sympy"), name)(*arguments)

        if self.is_loading:
            return called
        value = getattr(importlib.import_module("sympy"), name)
        setattr(self, name, value)
        return value


def load_onnx_ir() -> None:
    """Import onnx_ir.

    A program that has SymPy already, or loads it later, keeps it.
    """
    hidden = "sympy" not in sys.modules and "onnx_ir" not in sys.modules
    later = _LaterSymPy("sympy")
    if hidden:
        sys.modules["sympy"] = later
    try:
        import onnx_ir  # noqa: F401, PLC0415  (of the extra "network", and heavy)
    finally:
        later.is_loading = False
        if hidden:
            del sys.modules["sympy"]


def load_tvm() -> None:
    """Import TVM.

    TVM loads PyTorch if it is there, to exchange tensors with it, and does as well without. A
    program that has PyTorch already, or loads it later, keeps it.
    """
    hidden = "torch" not in sys.modules and "tvm" not in sys.modules
    if hidden:
        sys.modules["torch"] = None  # type: ignore[assignment]  # how Python says "not there"
    try:
        import tvm  # noqa: F401, PLC0415  (of the extra "network", and heavy)
    finally:
        if hidden:
            del sys.modules["torch"]
