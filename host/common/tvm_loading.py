# SPDX-License-Identifier: Apache-2.0
"""Loads TVM without PyTorch: two thirds of the time that ``import tvm`` takes is PyTorch's."""

from __future__ import annotations

import sys


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
