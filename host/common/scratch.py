# SPDX-License-Identifier: Apache-2.0
"""Folders for what is made on the way, which the next process removes where a kill left them.

The owner holds a lock on a file in its folder until it ends, however it ends. So a folder with such
a file that nobody locks is left over, and ours.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PREFIX: Final = "tilewright-"
_OWNER: Final = ".owner"


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new temporary folder, readable by its owner only; it ends with the context."""
    _remove_leftovers(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as name:
        folder = Path(name)
        with (folder / f"{_OWNER}.new").open("wb") as owner:
            fcntl.flock(owner, fcntl.LOCK_EX)
            os.replace(owner.name, folder / _OWNER)  # noqa: PTH105  (seen by others once it is locked)
            yield folder


def _remove_leftovers(root: Path) -> None:
    """Remove folders of this user whose owners have ended."""
    for folder in root.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            with (folder / _OWNER).open("rb") as owner:
                fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
