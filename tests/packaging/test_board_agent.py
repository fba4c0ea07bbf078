# SPDX-License-Identifier: Apache-2.0
"""The agent on a board needs little: numpy, PyYAML and pynq, and the Python of the PYNQ image."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.host.deploy.bundle_parts import MODULES

ROOT = Path(__file__).resolve().parents[2]
ENTRY = "tilewright.host.runtime.agent.__main__"
BOARD_PYTHON = "3.10"
"""Of the PYNQ 3.1 image, for which its XRT binding is compiled."""

LIST_MODULES = (
    f"import json, sys, {ENTRY}, tilewright.host.runtime.pynq_device\n"
    "print(json.dumps({name: getattr(module, '__file__', None) or ''\n"
    "                  for name, module in sys.modules.items()}))\n"
)


def loaded() -> dict[str, str]:
    """Modules that the agent has imported before it opens a device, with their files."""
    done = subprocess.run(
        [sys.executable, "-c", LIST_MODULES], capture_output=True, text=True, check=True
    )
    return dict(json.loads(done.stdout))


def test_it_imports_numpy_and_yaml_and_no_other_package():
    known = {*sys.stdlib_module_names, "tilewright", "numpy", "yaml", "_yaml", "__main__"}
    packages = {name.split(".")[0] for name, file in loaded().items() if "site-packages" in file}
    hooks = {name for name in packages if name.startswith(("__editable__", "_distutils_hack"))}
    assert packages - hooks <= known
    assert "numpy" in packages


def test_it_imports_nothing_of_the_layers_above():
    names = [name for name in loaded() if name.startswith("tilewright.")]
    assert {
        ENTRY,
        "tilewright.host.runtime.agent.session",
        "tilewright.host.runtime.driver",
    } <= set(names)
    assert all(name.startswith("tilewright.host") for name in names)


MISSING = ("[attr-defined]", "[syntax]", "[import-not-found]", "[call-arg]", "[call-overload]")
"""How mypy, which knows the standard library of each version, says that something is not there."""


def lacks(folder: Path, *targets: str) -> list[str]:
    """What modules or files use and the Python of the board has not."""
    done = subprocess.run(
        [
            sys.executable, "-m", "mypy", "--python-version", BOARD_PYTHON, "--cache-dir",
            str(folder), "--follow-imports", "skip", *targets,
        ],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert not done.stderr
    aliases = "? has no attribute"  # of numpy's types, which mypy is not shown
    found = done.stdout.splitlines()
    return [line for line in found if line.endswith(MISSING) and aliases not in line]


def test_it_uses_nothing_that_the_python_of_the_board_lacks(tmp_path):
    names = [name for name in {*loaded(), *MODULES} if name.startswith("tilewright.host")]
    assert not lacks(tmp_path, *(option for name in names for option in ("-m", name)))
    newer = tmp_path / "newer.py"
    for line in ("from enum import StrEnum", "from datetime import UTC", "import tomllib",
                 "try:\n    pass\nexcept* OSError:\n    pass"):  # fmt: skip
        newer.write_text(line + "\n")
        assert lacks(tmp_path, str(newer)), f"the check itself must find {line}"


@pytest.mark.skipif("TILEWRIGHT_BOARD_PYTHON" not in os.environ, reason="names no interpreter")
def test_it_starts_in_the_python_that_the_environment_names():
    """Set it to a Python 3.10 with numpy and PyYAML."""
    done = subprocess.run(
        [os.environ["TILEWRIGHT_BOARD_PYTHON"], "-m", ENTRY, "--help"],
        capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "--bitstream" in done.stdout
