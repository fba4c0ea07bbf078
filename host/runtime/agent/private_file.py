# SPDX-License-Identifier: Apache-2.0
"""Files with secrets: only their owner may read them."""

from __future__ import annotations

import os
from pathlib import Path

from tilewright.host.common.errors import ConfigError


def read_private(path: Path, *, what: str, most_bytes: int, remedy: str) -> bytes:
    """The content of a file that nobody but its owner may read."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())  # of what is read, not of what the name becomes
            data = file.read(most_bytes + 1)
    except OSError as error:
        raise ConfigError(
            f"cannot be read ({error.strerror})", field=str(path), remedy=remedy
        ) from error
    if os.name == "posix" and status.st_uid not in (os.geteuid(), 0):
        raise ConfigError(
            f"{what} must belong to you or to root, or its owner knows it too",
            field=str(path),
            value=f"user {status.st_uid}",
            remedy=f"chown {os.geteuid()} {path}",
        )
    if os.name == "posix" and status.st_mode & 0o077:
        raise ConfigError(
            f"only its owner may read {what}",
            field=str(path),
            value=f"mode {status.st_mode & 0o777:o}",
            remedy=f"chmod 600 {path}",
        )
    if len(data) > most_bytes:
        raise ConfigError(f"{what} has at most {most_bytes} bytes", field=str(path), remedy=remedy)
    return data


def write_private(path: Path, data: bytes) -> None:
    """Make a file that only its owner may read; never in the place of another."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
    except OSError as error:
        raise ConfigError(f"cannot be made ({error.strerror})", field=str(path)) from error


def make_private_folder(path: Path, *, what: str) -> None:
    """Make a folder that only its owner may enter, or check the one that is there."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.stat()
    except OSError as error:
        raise ConfigError(
            f"the folder cannot be made ({error.strerror})", field=str(path)
        ) from error
    if os.name == "posix" and (status.st_uid != os.geteuid() or status.st_mode & 0o077):
        raise ConfigError(
            f"only its owner may enter the folder of {what}",
            field=str(path),
            value=f"mode {status.st_mode & 0o777:o} of user {status.st_uid}",
            remedy=f"chown {os.geteuid()} {path}; chmod 700 {path}",
        )
