# SPDX-License-Identifier: Apache-2.0
"""Files of known kinds for the classifier of files of `bench.accuracy`.

They are those of this interpreter's library and of the packages beside `tilewright`: what their
names end with tells their kind. Which files that are depends on the environment, so the figures
are of one environment.
"""

from __future__ import annotations

import hashlib
import os
import sysconfig
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import numpy as np

from tilewright.bench.accuracy.subject import Array, Subject, exact, most_likely
from tilewright.host.common.clone_parts import clone_part

clone_part("examples/networks", "networks")
_public = import_module("networks.public")

ENDINGS: Mapping[str, str] = {
    ".c": "c", ".cmake": "cmake", ".cpp": "cpp", ".css": "css", ".csv": "csv", ".cu": "cpp",
    ".gif": "gif", ".html": "html", ".ini": "ini", ".ipynb": "ipynb", ".java": "java",
    ".js": "javascript", ".json": "json", ".md": "markdown", ".npy": "npy", ".npz": "npz",
    ".onnx": "onnx", ".pdf": "pdf", ".png": "png", ".py": "python", ".pyc": "pythonbytecode",
    ".rs": "rust", ".rst": "rst", ".sh": "shell", ".so": "elf", ".svg": "svg", ".toml": "toml",
    ".ttf": "ttf", ".wav": "wav", ".xml": "xml", ".yaml": "yaml", ".zip": "zip",
}  # fmt: skip
"""The kind of a file by what its name ends with."""
OF_A_KIND = 60
"""Most files of a kind."""
FIRST = 12
"""Of these first files of a kind every `KNOWN`-th is for calibration."""
KNOWN = 4
SMALLEST = 200
"""Bytes of a file that tells anything."""


def file_classifier() -> Subject:
    """Files of the environment by kind, those of least digest of their names first."""
    files, kinds = files_by_kind(), _public.file_kinds()
    known = {path: file_ends(path) for paths in files.values() for path in paths[:FIRST:KNOWN]}
    taken = {ends.tobytes() for ends in known.values()}
    images, truths = [], []
    for kind, paths in files.items():
        for path in paths:
            ends = file_ends(path)
            if ends.tobytes() not in taken:  # files are copied often
                taken.add(ends.tobytes())
                images.append(ends)
                truths.append(kinds.index(kind))
    return Subject(
        name="file-classifier",
        source="magika 1.0.2, standard_v3_3; files of this environment",
        load=_public.PUBLIC_NETWORKS["file-classifier"].load,
        calibration=np.concatenate(list(known.values())),
        images=np.concatenate(images),
        truths=truths,
        answer=most_likely,
        credit=exact,
        unit="files",
    )


def files_by_kind() -> dict[str, list[Path]]:
    """Files of the interpreter's library and of the installed packages."""
    found: dict[str, dict[str, Path]] = {}
    for folder in {sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")}:
        for path in Path(folder).rglob("*"):
            kind = ENDINGS.get(path.suffix)
            if kind is not None and path.is_file() and path.stat().st_size >= SMALLEST:
                name = path.relative_to(folder).as_posix()
                found.setdefault(kind, {})[hashlib.sha256(name.encode()).hexdigest()] = path
    return {
        kind: [path for _, path in sorted(paths.items())[:OF_A_KIND]]
        for kind, paths in sorted(found.items())
    }


def file_ends(path: Path) -> Array:
    """A file as the classifier takes it, of which only the ends are read."""
    block = _public.FILE_BLOCK
    with path.open("rb") as file:
        first = file.read(block)
        if path.stat().st_size > 2 * block:
            file.seek(-block, os.SEEK_END)
        taken: Array = _public.file_bytes(first + file.read())
    return taken
