# SPDX-License-Identifier: Apache-2.0
"""A bundle carries the modules that its runner imports: all of them, and no others."""

import ast
import json
import subprocess
import sys

from support.boards.bundles import small_bundle

from tilewright.host.deploy.bundle_archive import unpack_bundle
from tilewright.host.deploy.bundle_parts import MODULES

LIST = """
import json, sys
sys.path.insert(0, sys.argv[1])
from tilewright.host.deploy import board_run
print(json.dumps({name: getattr(module, "__file__", None) for name, module in sys.modules.items()}))
"""


def unpacked(tmp_path):
    (tmp_path / "b.zip").write_bytes(small_bundle(tmp_path)[1])
    (tmp_path / "in").mkdir()
    return unpack_bundle(tmp_path / "b.zip", tmp_path / "in").folder


def test_the_runner_imports_every_module_of_its_bundle_and_numpy(tmp_path):
    folder = unpacked(tmp_path)
    done = subprocess.run(
        [sys.executable, "-P", "-c", LIST, str(folder / "lib")],
        capture_output=True, text=True, check=True, cwd=tmp_path, env={},
    )  # fmt: skip
    files = {name: file for name, file in json.loads(done.stdout).items() if file}
    own = {name: file for name, file in files.items() if name.split(".")[0] == "tilewright"}
    assert set(own) == set(MODULES)
    assert all(file.startswith(str(folder / "lib")) for file in own.values())
    others = {name.split(".")[0] for name, file in files.items() if "site-packages" in file}
    hooks = {name for name in others if name.startswith(("__editable__", "_distutils_hack"))}
    assert others - hooks - set(sys.stdlib_module_names) == {"numpy"}


def test_what_is_imported_later_is_in_the_bundle_too(tmp_path):
    """But for the public interface, whose names nothing on a board asks for."""
    for path in (unpacked(tmp_path) / "lib").rglob("*.py"):
        if path.parent.name == "tilewright":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tilewright."):
                assert node.module in MODULES, f"{path.name}: {node.module}"
