# SPDX-License-Identifier: Apache-2.0
"""onnx_ir is loaded without SymPy, and computes with sizes that are not known as with it."""

import subprocess
import sys

import pytest

AFTER = """
import sys
from tilewright.host.common.library_loading import load_onnx_ir
load_onnx_ir()
import onnx_ir
assert "sympy" not in sys.modules, "loaded"
size = (onnx_ir.SymbolicDim("max(n, 3)") + 1) * onnx_ir.SymbolicDim("n")
assert size.evaluate({"n": 2}) == 8 and size.evaluate({"n": 5}) == 30
import sympy
assert isinstance(onnx_ir.SymbolicDim(sympy.Symbol("n") + 1), onnx_ir.SymbolicDim)
load_onnx_ir()
assert sys.modules["sympy"] is sympy
"""
BEFORE = """
import sys, sympy
from tilewright.host.common.library_loading import load_onnx_ir
load_onnx_ir()
import onnx_ir
assert sys.modules["sympy"] is sympy is onnx_ir._core.sympy
"""


@pytest.mark.parametrize("program", [AFTER, BEFORE])
def test_sympy_is_neither_loaded_nor_lost(program):
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
