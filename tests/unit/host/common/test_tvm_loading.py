# SPDX-License-Identifier: Apache-2.0
"""TVM is loaded without PyTorch, which can be imported before and after."""

import subprocess
import sys

import pytest

AFTER = """
import sys
from tilewright.host.common.library_loading import load_tvm
load_tvm()
import tvm
assert "torch" not in sys.modules, "loaded"
import torch
assert int(torch.ones(2).sum()) == 2
load_tvm()
assert sys.modules["torch"] is torch
"""
BEFORE = """
import sys, types
torch = sys.modules["torch"] = types.ModuleType("torch")
from tilewright.host.common.library_loading import load_tvm
try:
    load_tvm()
except Exception:
    pass  # TVM wants more of PyTorch than a name
assert sys.modules["torch"] is torch, "a PyTorch that is there stays there"
"""


@pytest.mark.parametrize("program", [AFTER, BEFORE])
def test_pytorch_is_neither_loaded_nor_lost(program):
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
