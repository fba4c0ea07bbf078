# SPDX-License-Identifier: Apache-2.0
"""Resolve every lock of this folder, or say which is stale.

`make lock` runs it: each lock names every package that an environment gets, by exact version and
SHA-256 of all its files, for every supported interpreter and platform at once. Versions stay as
they are unless an input demands others; ``--upgrade`` takes the newest. ``--check`` compares the
digest of the inputs that each lock records with that of the inputs now; it needs no network.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parent
LOWEST_PYTHON: Final = "3.11"
_RECORD: Final = re.compile(r"^# inputs: ([0-9a-f]{64})$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Lock:
    """How a lock comes about."""

    inputs: Sequence[str]  # files of this folder, or ``pyproject.toml``
    extras: Sequence[str] = ()  # of the project, when ``pyproject.toml`` is among the inputs
    options: Sequence[str] = ()  # of the resolver besides those of every lock
    but: Sequence[str] = ()  # packages that are left out because another lock holds them
    like: str = ""  # a lock before it whose versions it takes
    python: str = LOWEST_PYTHON  # lowest interpreter that it is resolved for


_WITHOUT_CUDA: Final = ("--config-file", "requirements/uv.toml")

LOCKS: Final[Mapping[str, Lock]] = {
    "run.txt": Lock(inputs=("pyproject.toml", "build.in")),
    "bare-run.txt": Lock(inputs=("bare-run.in",), options=("--no-deps",), python="3.12"),
    "dev.txt": Lock(
        inputs=("pyproject.toml", "build.in"),
        extras=("dev",),
        options=_WITHOUT_CUDA,
        but=("torch",),
        like="run.txt",
    ),
    "bare-dev.txt": Lock(inputs=("bare-dev.in",), options=("--no-deps",), python="3.12"),
    "torch.txt": Lock(inputs=("torch.in",), like="dev.txt"),
    "docs.txt": Lock(inputs=("pyproject.toml", "build.in"), extras=("docs",), like="dev.txt"),
    "release.txt": Lock(inputs=("release.in", "build.in")),
    "lock-tool.txt": Lock(inputs=("lock-tool.in",)),
}
"""Every lock that is resolved; ``torch-cpu.txt`` is kept by hand."""


def digest_of_inputs(lock: Lock) -> str:
    """SHA-256 of what decides a lock: its inputs without their comments, and its options."""
    parts = [repr(lock)]
    for name in (*lock.inputs, *(("uv.toml",) if "--config-file" in lock.options else ())):
        if name == "pyproject.toml":
            project = tomllib.loads((ROOT / name).read_text(encoding="utf-8"))["project"]
            kept = ["requires-python", "dependencies"]
            kept += ["optional-dependencies"] if lock.extras else []
            parts.append(json.dumps([project[key] for key in kept], sort_keys=True))
        else:
            lines = (HERE / name).read_text(encoding="utf-8").splitlines()
            parts += [bare for line in lines if (bare := line.split("#")[0].strip())]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def stale() -> list[str]:
    """Names of the locks that were resolved from other inputs."""
    return [name for name, lock in LOCKS.items() if recorded(name) != digest_of_inputs(lock)]


def recorded(name: str) -> str:
    """The digest that a lock records; empty when there is none."""
    path = HERE / name
    match = _RECORD.search(path.read_text(encoding="utf-8")) if path.is_file() else None
    return match[1] if match else ""


def resolve(name: str, *, uv: str, upgrade: bool) -> None:
    """Write one lock, unless the resolver finds no answer and says why."""
    lock = LOCKS[name]
    command = [
        uv, "pip", "compile", "--quiet", "--universal", "--generate-hashes",
        "--python-version", lock.python,
        "--custom-compile-command", "make lock",
        "--output-file", f"requirements/{name}",
        *lock.options,
        *(f"--extra={extra}" for extra in lock.extras),
        *(f"--no-emit-package={package}" for package in lock.but),
        *(["--constraint", f"requirements/{lock.like}"] if lock.like else []),
        *(["--upgrade"] if upgrade else []),
        *(each if each == "pyproject.toml" else f"requirements/{each}" for each in lock.inputs),
    ]  # fmt: skip
    subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    path = HERE / name
    text = _RECORD.sub("", path.read_text(encoding="utf-8")).lstrip("\n")
    path.write_text(f"# inputs: {digest_of_inputs(lock)}\n{text}", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--check", action="store_true", help="only say which lock is stale")
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions")
    parser.add_argument("--uv", default="uv", help="the resolver")
    options = parser.parse_args(arguments)
    if options.check:
        for name in stale():
            print(f"error: requirements/{name} is stale; run `make lock`", file=sys.stderr)
        return int(bool(stale()))
    for name in LOCKS:
        print(f"requirements/{name}", flush=True)
        resolve(name, uv=options.uv, upgrade=options.upgrade)
    return 0


if __name__ == "__main__":
    sys.exit(main())
