# SPDX-License-Identifier: Apache-2.0
"""Every supported interpreter that this machine has sets itself up from the locks and runs."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLASSIFIERS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "classifiers"
]
SUPPORTED = [match[1] for line in CLASSIFIERS if (match := re.search(r":: (3\.\d+)$", line))]
NEXT = f"3.{int(SUPPORTED[-1].split('.')[1]) + 1}"


def version_of(python):
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def interpreter(version):
    """A Python of that version: on PATH, or among those of pyenv; None when there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    places = [shutil.which(f"python{version}")]
    places += sorted(map(str, pyenv.glob(f"{version}.*/bin/python")))
    return next((place for place in places if place and version_of(place) == version), None)


def checkout(target):
    """What a clone would hold, as it is now."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode != 0:
        pytest.skip("this is no checkout")
    for name in filter(None, listed.stdout.split("\0")):
        source = ROOT / name
        if source.is_symlink() or source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name, follow_symlinks=False)
    return target


def run(*words, cwd):
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "MAKE", "VIRTUAL_ENV", "MFLAGS"))
    }
    done = subprocess.run(
        words, cwd=cwd, capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def test_the_range_is_told_alike_everywhere():
    readme, makefile = (ROOT / "README.md").read_text(), (ROOT / "Makefile").read_text()
    told = f"Python {', '.join(SUPPORTED[:-1])} or {SUPPORTED[-1]}"
    assert told in readme
    assert told in (ROOT / "docs" / "how-to" / "installing.md").read_text()
    assert told in makefile
    low, high = (version.replace(".", ", ") for version in (SUPPORTED[0], NEXT))
    assert f"({low}) <= sys.version_info < ({high})" in makefile


def test_this_interpreter_is_supported():
    assert version_of(sys.executable) in SUPPORTED


@pytest.mark.slow
@pytest.mark.parametrize(
    "version",
    [
        *SUPPORTED,
        pytest.param(NEXT, marks=pytest.mark.xfail(strict=False, reason="not supported yet")),
    ],
)
def test_it_sets_itself_up_and_runs(version, tmp_path):
    """`make smoke` in a fresh environment of run-time packages.

    The development packages are not installed (PyTorch alone may take 5 GB): pip looks whether the
    locks name a file of each for this interpreter.
    """
    python = interpreter(version)
    if python is None:
        pytest.skip(f"this machine has no Python {version}")
    folder = checkout(tmp_path / "checkout")
    output = run("make", "smoke", f"PYTHON={python}", cwd=folder)
    assert "installing the run-time packages" in output
    assert "bit-exact" in output
    assert output.endswith("smoke: ok\n")
    own = folder / ".venv" / "bin" / "python"
    assert version_of(own) == version
    pip = (str(own), "-m", "pip", "install", "-q", "--no-deps", "--require-hashes")
    locks = [f"requirements/{name}.txt" for name in ("dev", "bare-dev")]
    run(
        *pip, "--dry-run", "--no-build-isolation", "--ignore-requires-python",
        *(f"-r{lock}" for lock in locks), cwd=folder,
    )  # fmt: skip
