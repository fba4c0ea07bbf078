# SPDX-License-Identifier: Apache-2.0
"""A bundle: a folder with a compiled network, its runner and a manifest of every file's SHA-256.

A bundle comes over a network, so it is read as untrusted data: every file is held to its size and
SHA-256 before anything of it is used, and what the manifest does not name is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.errors import ProgramError, reason_of
from tilewright.host.common.plain_values import (
    Rule,
    each,
    integer,
    mapping,
    plain,
    real,
    record,
    text,
)

MARK: Final = "tilewright_bundle"
"""Key of the format's version."""
FORMAT: Final = 2
MANIFEST: Final = "manifest.json"
NETWORK: Final = "network.tw"
LABELS: Final = "labels.txt"
MAX_MANIFEST_BYTES: Final = 1 << 20
MAX_FILE_BYTES: Final = 1 << 30
_MAX_FILES: Final = 1000
_COPY_AGAIN: Final = "make the bundle again with 'tilewright deploy' and copy all of it"


_name: Final = text(r"\w[\w.-]{0,99}")
_path: Final = text(r"(?=.{1,240}$)\w[\w.-]*(/\w[\w.-]*)*")
"""Below the bundle, without detours: no part of it begins with a dot."""
_digest: Final = text(r"[0-9a-f]{64}")

_FIELDS: Final[Mapping[str, Rule]] = {
    "tilewright_bundle": plain(int),
    "name": _name,
    "version": plain(str),
    "config_hash": integer(0, (1 << 32) - 1),
    "board": record(
        name=_name,
        clock_mhz=real,
        coherent=plain(bool),
        contiguous_bytes=integer(0, 1 << 40),
    ),
    "bitstream": mapping(_name, _digest),
    "mean": each(real, 16),
    "std": each(real, 16),
    "fit": plain(str),
    "task": plain(str),
    "files": mapping(_path, record(sha256=_digest, bytes=integer(0, MAX_FILE_BYTES))),
}
_RULES: Final = record(**_FIELDS)


_MODULES: Final = frozenset({".py", ".pyc", ".pth", ".so"})


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """A bundle whose files are those of its manifest."""

    folder: Path  # where it lies
    name: str  # of the network
    config_hash: int  # of the configuration that it runs on
    board: Mapping[str, Any]  # name, clock_mhz, coherent and contiguous_bytes of its board
    bitstream: Mapping[str, str]  # SHA-256 of the bitstream and of its .hwh by name; empty: any
    mean: tuple[float, ...]  # of an image's channels (see `Calibration`), as ``std``
    std: tuple[float, ...]
    fit: str  # how an image of other proportions becomes an input (`Fit`)
    task: str  # what the network is for (`Task`); empty: its largest outputs are told
    labels: tuple[str, ...]  # of the classes; empty: none

    @property
    def network(self) -> Path:
        """The compiled network."""
        return self.folder / NETWORK


def read_bundle(folder: Path) -> Bundle:
    """Read a bundle and check every file."""
    data = checked_manifest(_bytes(folder / MANIFEST, MAX_MANIFEST_BYTES), str(folder / MANIFEST))
    files = data["files"]
    for name, stated in files.items():
        content = _bytes(folder / name, stated["bytes"])
        if hashlib.sha256(content).hexdigest() != stated["sha256"]:
            raise ProgramError(
                f"must have the SHA-256 of the manifest ({stated['sha256'][:16]}...)",
                field=str(folder / name),
                remedy=_COPY_AGAIN,
            )
    for name in sorted(set(_importable(folder)) - set(files)):
        raise ProgramError(
            "must be named by the manifest: Python would import it",
            field=str(folder / name),
            remedy="remove it, or copy the bundle into an empty folder",
        )
    if NETWORK not in files:
        raise ProgramError("lacks the network", field=str(folder), remedy=_COPY_AGAIN)
    labels = (folder / LABELS).read_text("utf-8").splitlines() if LABELS in files else ()
    return Bundle(
        folder=folder,
        name=data["name"],
        config_hash=data["config_hash"],
        board=data["board"],
        bitstream=data["bitstream"],
        mean=tuple(data["mean"]),
        std=tuple(data["std"]),
        fit=data["fit"],
        task=data["task"],
        labels=tuple(labels),
    )


def _importable(folder: Path) -> Iterator[str]:
    """Files in a bundle's folder that its command could import, which has the folder in its path.

    A notebook may have left others there, in hidden folders its copies of modules too.
    """
    for path in folder.rglob("*"):
        inner = path.relative_to(folder)
        hidden = any(part.startswith(".") or part == "__pycache__" for part in inner.parts)
        module = path.suffix in _MODULES or inner.parts[0] == "lib"
        if module and not hidden and not path.is_dir():
            yield inner.as_posix()


def checked_manifest(content: bytes, field: str) -> dict[str, Any]:
    """A manifest, every value checked."""
    try:
        data = json.loads(content)
        version = data.get(MARK) if isinstance(data, dict) else None
        if version != FORMAT:
            raise ProgramError(
                f"must be a bundle of format {FORMAT}",
                field=field,
                value=version,
                remedy="make it with this version of 'tilewright deploy'",
            )
        checked: dict[str, Any] = _RULES(data)
        stated = checked.get("files", {}).values()
        if checked.keys() != _FIELDS.keys() or any(len(each) != 2 for each in stated):
            raise ValueError("a field is missing")
        if len(stated) > _MAX_FILES or len(checked["board"]) != 4:
            raise ValueError("too many files, or a board without its fields")
    except (LookupError, RecursionError, TypeError, ValueError) as error:
        raise ProgramError(
            f"must be the manifest of a bundle ({reason_of(error, 120)})",
            field=field,
            remedy=_COPY_AGAIN,
        ) from error
    return checked


def _bytes(path: Path, limit: int) -> bytes:
    """A regular file of at most so many bytes; no link is followed."""
    try:
        if path.is_symlink() or not path.is_file():
            raise ProgramError("must be a file of the bundle", field=str(path), remedy=_COPY_AGAIN)
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise ProgramError(
            f"cannot be read ({error.strerror})", field=str(path), remedy=_COPY_AGAIN
        ) from error
    if len(content) > limit:
        raise ProgramError(f"must have at most {limit} bytes", field=str(path), remedy=_COPY_AGAIN)
    return content
