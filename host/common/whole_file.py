# SPDX-License-Identifier: Apache-2.0
"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


def prepare_place(path: Path) -> None:
    """Make the folder of a file that will be written when long work has ended.

    Raises:
        OSError: the file cannot be written there.
    """
    folder = path.absolute().parent
    folder.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    needed = [path] if path.exists() else [folder]
    if path.is_file():
        needed.append(path.resolve().parent)  # where `write_whole` makes the new file
    if not all(os.access(each, os.W_OK) for each in needed):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def write_whole(path: Path, data: str | bytes) -> None:
    """Write a file, or leave what was there: a full disk or a kill never leaves a part of it.

    The data is on the disk before its name is. Folders are made as needed; text becomes UTF-8. A
    path that is no regular file (``/dev/stdout``) is written to as it is.

    Raises:
        OSError: it cannot be written.
    """
    content = data.encode("utf-8") if isinstance(data, str) else data
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():
        with _named(path):
            path.write_bytes(content)
        return
    target = path.resolve()  # a link goes on pointing to its file
    handle, name = tempfile.mkstemp(prefix=f".{target.name[:64]}.", dir=target.parent)
    part = Path(name)
    try:
        with _named(path), os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        part.chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~mask)
        part.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Errors inside name the file; those of an open file name none."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise
