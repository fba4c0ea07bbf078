# SPDX-License-Identifier: Apache-2.0
"""ZIP archives: the same content gives the same bytes, and those of anybody do not swell."""

from __future__ import annotations

import errno
import zipfile
import zlib
from pathlib import Path
from typing import Final

MAX_MEMBER_BYTES: Final = 1 << 31
MAX_MEMBERS: Final = 100_000
MAX_RATIO: Final = 200
"""Most bytes that one byte of a file may swell to: real weights and instructions stay below 20."""

RATIO_FREE_BYTES: Final = 1 << 24
"""A file may swell to so much, whatever the ratio: zeros compress well."""


_DAMAGE: Final = (EOFError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""What `zipfile` raises for a member that it cannot read."""

_WHEN: Final = (1980, 1, 1, 0, 0, 0)
"""Of every member: an archive does not say when it was made."""


def require_regular(path: Path) -> None:
    """Raise `OSError` for a pipe, which would be waited for, and a device, which may not end."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(errno.EINVAL, "it is no regular file")


def open_archive(path: Path) -> zipfile.ZipFile:
    """An archive to read."""
    require_regular(path)
    return zipfile.ZipFile(path)


def add_member(
    archive: zipfile.ZipFile, name: str, content: str | bytes, *, level: int = 6
) -> None:
    """Add a member, compressed."""
    member = zipfile.ZipInfo(name, _WHEN)
    member.external_attr = 0o644 << 16
    archive.writestr(member, content, zipfile.ZIP_DEFLATED, level)


def check_sizes(archive: zipfile.ZipFile, path: Path) -> None:
    """Refuse what would swell: before anything is decompressed, by the sizes that are stated.

    What is read is held to them again (`read_member`).
    """
    entries = archive.infolist()
    if len(entries) > MAX_MEMBERS or len({e.filename for e in entries}) != len(entries):
        raise ValueError(f"an archive must have at most {MAX_MEMBERS} members of different names")
    stated = sum(entry.file_size for entry in entries)
    if stated > MAX_MEMBER_BYTES or stated > max(RATIO_FREE_BYTES, MAX_RATIO * path.stat().st_size):
        raise ValueError(f"an archive must not swell to {stated} bytes")


def read_member(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    """The bytes of a member, at most ``limit``."""
    stated = archive.getinfo(name).file_size
    if stated > limit:
        raise ValueError(f"{name} is larger than {limit} bytes")
    try:
        with archive.open(name) as stream:
            data = stream.read(stated + 1)
    except _DAMAGE as error:
        raise ValueError(f"{name}: {str(error) or 'the archive ends within it'}") from error
    if len(data) != stated:
        raise ValueError(f"{name} must have the {stated} bytes that its archive states")
    return data
