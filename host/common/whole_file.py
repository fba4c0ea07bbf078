# SPDX-License-Identifier: Apache-2.0
"""Files and folders that commands write: whole or not at all, and never over what others made.

A file may be replaced when it is empty or holds the mark of an earlier run (`MARK`) where its
format has a place for it: a text that quotes the mark is not ours. A folder that a command fills
may be filled again when an earlier run listed its files there (`LISTING`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tilewright.host.common.errors import TilewrightError

MARK: Final = "Written by Tilewright"
"""Stands in what may be replaced, at one of the places below."""

LISTING: Final = ".tilewright"
"""File of a folder with the names of what was written there."""

_LISTED: Final = f"{MARK}: what it may replace here"
"""First line of a `LISTING`."""

_PAGE: Final = r"<!doctype html>(?:<html[^<>]*>|<head>|<meta [^<>]*>|\n)*<meta "

_HEADS: Final = (
    rf"# {MARK} \([\w /.-]+\)",  # a comment: which command or script
    rf"<!-- {MARK} -->\n",  # Markdown
    rf'{_PAGE}name="generator" content="{MARK}">',
    rf'(?:{{\s*|# {{"format": "[^"\n]*", "version": \d+, )"generator": ?"{MARK}"',  # JSON; a table
    r'{\n "schema": 1,\n "command": "',  # a `host.common.result_document`
    rf"{_LISTED}\n",
    "study,tuner,seed,stage,measurement,",  # trials of studies as CSV (`tuner.report.trial_table`)
    rf"(?s:<\?xml .{{,1000}}?<dc:title>{MARK}<)",  # SVG
    rf"(?s:\x89PNG.{{,200}}?Software\0{MARK})",
)
"""How files begin, as patterns."""

_TAILS: Final = {
    b"PK": rb"\0%c\0%s\Z" % (len(MARK), MARK.encode()),  # comment of an archive
    b"\0": rb"\xff\0{7}%c%s\Z" % (8 + len(MARK), MARK.encode()),  # last block of waves (FST)
    b"%PDF": rb"/Creator \(%b\)" % MARK.encode(),
    b"\x08": rb"r.\n\ntilewright\x12%c%s" % (len(MARK), MARK.encode()),  # metadata of ONNX
}
"""What stands at the end of files that are no text, by how they begin, as patterns."""

_SEARCHED: Final = 4096
"""Bytes at each end of a file that are searched for a mark."""

_GZIP: Final = b"\x1f\x8b"


class ForeignFileError(TilewrightError):
    """A file or folder that no command of Tilewright made stands where one is to be written."""


def replaceable(path: Path) -> bool:
    """Whether a path is free, a device or a pipe, an empty file, or one with a mark."""
    if not path.is_file():
        return True
    with path.open("rb") as file:
        head = file.read(_SEARCHED)
        file.seek(max(0, file.seek(0, os.SEEK_END) - _SEARCHED))
        tail = file.read()
    if head.startswith(_GZIP):
        with contextlib.suppress(zlib.error):
            head = zlib.decompressobj(wbits=31).decompress(head, _SEARCHED)
    kinds = [pattern for first, pattern in _TAILS.items() if head.startswith(first)]
    marked = any(re.match(pattern.encode(), head) for pattern in _HEADS)
    return not tail or marked or any(re.search(pattern, tail, re.DOTALL) for pattern in kinds)


def refuse_foreign(path: Path) -> None:
    """Refuse a file that is not `replaceable`."""
    if not replaceable(path):
        raise ForeignFileError(
            "must be a new file, or one that an earlier run wrote",
            field=str(path),
            remedy="move it away, or name another file",
        )


def own_folder(folder: Path) -> list[str]:
    """Take a folder for a command to fill: a new one, an empty one, or one of an earlier run."""
    listing = folder / LISTING
    try:
        head, *names = listing.read_text(encoding="utf-8").splitlines() or [""]
    except (OSError, UnicodeDecodeError):
        head, names = "", []
    if (
        head != _LISTED
        and os.path.lexists(folder)
        and (not folder.is_dir() or any(folder.iterdir()))
    ):
        raise ForeignFileError(
            "must be a new or empty folder, or one that an earlier run filled",
            field=str(folder),
            remedy="name a folder of its own",
        )
    _list(folder, names)
    return names


def renew_folder(folder: Path, names: Iterable[str]) -> None:
    """Ready a folder for files that a command will write there; those of an earlier run go."""
    earlier, wanted = own_folder(folder), sorted(names)
    root = folder.resolve()
    for name in wanted:
        place = folder / name
        inside = place.parent.resolve().is_relative_to(root)
        if not inside or (name not in earlier and os.path.lexists(place)):
            raise ForeignFileError(
                "must be free for what is written there",
                field=str(place if inside else place.parent),
                remedy="move it away, or name a folder of its own",
            )
    _list(folder, [*earlier, *wanted])
    for name in earlier:
        place = folder / name
        if not place.parent.resolve().is_relative_to(root) or (
            place.is_dir() and not place.is_symlink()
        ):
            continue
        place.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            if place.parent != folder:
                place.parent.rmdir()
    for name in wanted:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
    _list(folder, wanted)


def list_more(folder: Path, name: str) -> None:
    """Tell of one more file that a command writes into its folder, before it is written."""
    names = own_folder(folder)
    if name not in names:
        if os.path.lexists(folder / name):
            raise ForeignFileError(
                "must be free for what is written there",
                field=str(folder / name),
                remedy="move it away, or name a folder of its own",
            )
        _list(folder, [*names, name])


def _list(folder: Path, names: Iterable[str]) -> None:
    plain = [name for name in names if name.isprintable()]  # a line each; others are never ours
    write_whole(folder / LISTING, "\n".join([_LISTED, *plain, ""]))


def prepare_place(path: Path) -> None:
    """Make the folder of a file that will be written when long work has ended."""
    folder = path.absolute().parent
    if folder.is_symlink() and not folder.exists():
        raise FileNotFoundError(errno.ENOENT, "its folder is a link to nothing", str(path))
    folder.mkdir(parents=True, exist_ok=True)
    if path.is_symlink() and not path.exists():
        target = Path(os.path.realpath(path))  # where `write_whole` makes the file
        folder = target.parent
        if target.is_symlink() or not folder.is_dir():  # a link still: a loop
            raise FileNotFoundError(errno.ENOENT, "it is a link to nothing", str(path))
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    needed = [path] if path.exists() else [folder]
    if path.is_file():
        needed.append(path.resolve().parent)  # where `write_whole` makes the new file
    if not all(os.access(each, os.W_OK) for each in needed):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    refuse_foreign(path)
    if needed[-1].is_dir():  # a folder such as /proc takes no file, whatever its permissions say
        with _named(path), tempfile.TemporaryFile(dir=needed[-1]):
            pass


def write_whole(path: Path, data: str | bytes) -> None:
    """Write a file, or leave what was there: a full disk or a kill never leaves a part of it.

    The data is on the disk before its name is. Folders are made as needed; text becomes UTF-8. A
    path that is no regular file (``/dev/stdout``) is written to as it is.
    """
    content = data.encode("utf-8") if isinstance(data, str) else data
    refuse_foreign(path)
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


def copy_whole(source: Path, target: Path) -> None:
    """Copy a file; an error names the one that it is about (`shutil` names the source)."""
    write_whole(target, source.read_bytes())
