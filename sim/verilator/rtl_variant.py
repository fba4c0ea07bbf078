# SPDX-License-Identifier: Apache-2.0
"""Which RTL is built: Tilewright's, or a variant of a user's in its place.

A variant counts for everything that this process and its workers build, so it is set in the
environment. The cache of builds, the store and the landscapes name the RTL by its content: what was
measured on a variant is never taken for a measurement of our RTL, nor the other way round.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tilewright.host.common.errors import BuildError
from tilewright.host.common.places import RTL_DIR

STOCK: Final = RTL_DIR / "tilewright.f"
"""The manifest of Tilewright's RTL."""

VARIABLE: Final = "TILEWRIGHT_RTL"

DIGITS: Final = 12
"""Of a variant's digest."""


def rtl_manifest() -> Path:
    """The manifest of the RTL that is built."""
    return Path(os.environ.get(VARIABLE) or STOCK)


@contextlib.contextmanager
def rtl_variant(manifest: str | Path | None) -> Iterator[None]:
    """Build a variant in place of Tilewright's RTL; None: leave it as it is."""
    if manifest is None:
        yield
        return
    path = Path(manifest)
    read_manifest(path)
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(path.resolve())
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def variant_digest() -> str:
    """Identity of the variant that is built; empty: Tilewright's RTL."""
    if rtl_manifest() == STOCK:
        return ""
    digest = hashlib.sha256()
    for path in read_manifest():
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:DIGITS]


def read_manifest(manifest: Path | None = None) -> list[Path]:
    """The RTL files of a manifest, in order; paths are relative to its folder."""
    manifest = rtl_manifest() if manifest is None else manifest
    try:
        lines = manifest.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BuildError(
            "the RTL manifest cannot be read",
            field=str(manifest),
            remedy=str(getattr(error, "strerror", None) or "it must be a text file of file names"),
        ) from error
    files = []
    for number, raw in enumerate(lines, start=1):
        line = re.split(r"//|#", raw)[0].strip()
        if not line:
            continue
        path = manifest.parent / line
        if line[0] in "+-" or not path.is_file():
            raise BuildError(
                "a manifest line must name an existing RTL file",
                field=f"{manifest}:{number}",
                value=line,
                remedy="give the file's path relative to the manifest",
            )
        files.append(path)
    if not files:
        raise BuildError(
            "must name the RTL files, one a line, in dependency order", field=str(manifest)
        )
    return files
