# SPDX-License-Identifier: Apache-2.0
"""Heavy packages are imported where they are used. Who may import whom is held by `make lint`."""

from __future__ import annotations

import ast
import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("host", "sim", "tuner")

OPTIONAL = frozenset(
    {"botorch", "cmaes", "cocotb", "cocotb_tools", "cocotbext", "emcee", "gpytorch", "gymnasium",
     "hypothesis", "nevergrad", "onnx_ir", "onnxruntime", "onnxscript", "optuna",
     "pettingzoo", "psutil", "pynq", "pyosys", "pytest", "ray",
     "scipy", "sklearn", "torch", "tvm", "tvm_ffi", "xgboost"}
)  # fmt: skip
"""Packages that are no run-time requirement: imported where used, or by an algorithm's module."""

ALGORITHMS = (
    "tuner.search.", "tuner.allocate.", "tuner.mapping.methods.", "tuner.mapping.learning.",
    "tuner.mapping.environments.", "tuner.multicore.methods.", "host.compiler.",
)  # fmt: skip
"""Imported when an algorithm is made: they may need more."""

COMPILED = ("host.compiler.lower.", "host.compiler.pack.artefact", "host.compiler.tasks")
"""What a compiled network needs on a device: neither TVM nor PyTorch."""

SOURCES = {
    f"{layer}.{path.relative_to(ROOT / layer).with_suffix('').as_posix().replace('/', '.')}": path
    for layer in LAYERS
    for path in sorted((ROOT / layer).rglob("*.py"))
}
CLI = ROOT / "src" / "tilewright" / "cli"
SOURCES |= {
    f"cli.{path.relative_to(CLI).with_suffix('').as_posix().replace('/', '.')}": path
    for path in sorted(CLI.rglob("*.py"))
}


_HOLDERS = (ast.stmt, ast.ExceptHandler, ast.match_case)
"""Nodes that can hold statements."""


def imports(tree):
    """Every imported module with its node, wherever in the file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in line {node.lineno}"
            module = node.module or ""
            yield module, node
            if module == "tilewright":  # from tilewright import sim
                yield from ((f"tilewright.{alias.name}", node) for alias in node.names)


def runs_at_import(tree):
    """Imports that run when the module is imported: not in functions, not for type checkers."""
    pending = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from imports(ast.Module(body=[node], type_ignores=[]))
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending += node.orelse
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            pending += [
                child for child in ast.iter_child_nodes(node) if isinstance(child, _HOLDERS)
            ]


def at_import(name):
    """Modules that a module imports when it is imported."""
    tree = ast.parse(SOURCES[name].read_text(encoding="utf-8"))
    return {module for module, _ in runs_at_import(tree)}


@functools.cache
def needy():
    """Modules whose import needs an optional package, by themselves or by another module."""
    reached = {name: at_import(name) for name in SOURCES}
    found = {n for n, m in reached.items() if {each.split(".")[0] for each in m} & OPTIONAL}
    while True:
        names = {f"tilewright.{name}" for name in found}
        more = {name for name, modules in reached.items() if modules & names} - found
        if not more:
            return found
        found |= more


def test_optional_packages_are_imported_where_used():
    assert not {name for name in needy() if not name.startswith(ALGORITHMS)}
    rooms = ("search", "allocate", "mapping.methods", "multicore.methods")
    assert not {f"tuner.{room}.{name}" for room in rooms
                for name in ("__init__", "registry")} & needy()  # fmt: skip
    assert not {name for name in needy() if name.startswith(COMPILED)}


def test_the_check_itself_tells_imports_at_the_top_from_others():
    source = (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import ray\nelse:\n    import os\n"
        "def f():\n    import torch\n"
        "try:\n    import optuna\nexcept ImportError:\n    import tvm\n"
        "class A:\n    import pynq\n"
    )
    found = {module for module, _ in runs_at_import(ast.parse(source))}
    assert found == {"typing", "os", "optuna", "tvm", "pynq"}


def test_every_layer_has_modules():
    for layer in LAYERS:
        assert sum(name.startswith(f"{layer}.") for name in SOURCES) > 10
    assert {"cli.__init__", "cli.tune", "cli.sim", "cli.report"} <= set(SOURCES)


@pytest.mark.parametrize(
    "words",
    [[], ["tune"], ["sim"], ["report"], ["synth"], ["verify", "coverage"], ["bench", "tuners"]],
)
def test_help_imports_no_heavy_package(words):
    script = (
        "import json, sys\nfrom tilewright.cli import main\n"
        f"sys.argv = ['tilewright', *{words!r}, '--help']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "print('\\n' + json.dumps(sorted(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = json.loads(done.stdout.splitlines()[-1])
    assert "tilewright.cli" in loaded
    assert not {"torch", "sqlalchemy", "onnx", "numpy", "cocotb"} & set(loaded)
