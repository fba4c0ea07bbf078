# SPDX-License-Identifier: Apache-2.0
"""What may be taken from the build cache: files of this user alone, with the content recorded.

Two checks, because they stop different things. *Ownership*: whoever may write a cache folder can
replace a library and its record together, so a folder or file of somebody else, or one that others
may write, is refused. *Digest*: a flipped bit, a cut file or a library copied over another has not
the content that its builder recorded, and is built again.
"""

from __future__ import annotations

import functools
import hashlib
import os
import stat
from pathlib import Path
from typing import Final

from tilewright.host.common.errors import BuildError

PRIVATE: Final = 0o700
"""Mode of every folder that the cache makes."""
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_ROOT: Final = 0


def make_private(folder: Path) -> None:
    """Make a folder, missing parents too, that only this user may enter, and check it."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=PRIVATE, exist_ok=True)
    check_owned(folder)


def check_owned(path: Path) -> None:
    """Refuse what somebody else may have written.

    Root's files are accepted: root may change anything anyway. A path that is not there, or that
    cannot be looked at, passes: nothing can be loaded from it.
    """
    try:
        status = path.stat()
    except OSError:
        return
    _check_status(path, status)


def _check_status(path: Path, status: os.stat_result) -> None:
    user = os.geteuid()
    if status.st_uid not in (user, _ROOT):
        raise BuildError(
            "the build cache must belong to the user who loads from it",
            field=str(path),
            value=f"user {status.st_uid}, while this process runs as {user}",
            remedy="set TILEWRIGHT_CACHE to a folder of your own",
        )
    if status.st_mode & _OTHERS_WRITE:
        raise BuildError(
            "the build cache must not be writable by group or others",
            field=str(path),
            value=f"mode {stat.S_IMODE(status.st_mode):04o}",
            remedy="chmod -R go-w the cache folder if you trust what is in it, else delete it",
        )


def file_digest(path: Path) -> str:
    """SHA-256 of a file of the cache, 64 hexadecimal digits.

    It is computed again only when the file has changed (inode, size, times).
    """
    status = path.stat()
    _check_status(path, status)
    return _digest(path, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def seal(path: Path) -> str:
    """Digest of a file that was just made, which from now on only its owner may write.

    A compiler under a generous umask lets the group write.
    """
    path.chmod(stat.S_IMODE(path.stat().st_mode) & ~_OTHERS_WRITE)
    return file_digest(path)


@functools.lru_cache(maxsize=1024)
def _digest(path: Path, *_identity: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
