# SPDX-License-Identifier: Apache-2.0
"""The build cache: finished libraries by the content of their inputs, one builder a key.

A result is made in ``work/<key>.<random>`` and renamed into place, so that it is complete or
absent; ``locks/<key>.lock`` lets one process build it while others wait. Nothing is loaded or
linked from the cache before its digest and owner were checked (`sim.tools.cache_trust`).
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import hashlib
import json
import logging
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import platformdirs

from tilewright.host.common.errors import BuildError
from tilewright.sim.tools import cache_trust
from tilewright.sim.tools.toolchain import find_compiler

LIBRARY_NAME: Final = "libtilewright.so"
LOG: Final = logging.getLogger("tilewright.build")

_RECORD: Final = "build.json"
_ERROR_LINES: Final = 12
_DEFAULT_LIMIT_MB: Final = 8000
_KEPT_SECONDS: Final = 3600.0


def cache_dir() -> Path:
    """TILEWRIGHT_CACHE, else the user's cache folder of the platform."""
    own = os.environ.get("TILEWRIGHT_CACHE", "")
    return Path(own).expanduser() if own else Path(platformdirs.user_cache_dir("tilewright"))


def finished(folder: Path) -> Path | None:
    """The library in a finished folder; None when it must be built (again).

    Every file of the folder must have the SHA-256 that was recorded; a note says when one has
    not. The build counts as used now (see `trim`).
    """
    for each in (cache_dir(), folder.parent, folder, folder / _RECORD):
        cache_trust.check_owned(each)
    library = folder / LIBRARY_NAME
    try:
        text = (folder / _RECORD).read_text(encoding="utf-8")
    except OSError:
        return None
    if '"sha256"' not in text:  # of a version that recorded no digests
        return None
    if not _as_recorded(folder, text):
        LOG.warning("note: %s has not the content that was built; it is built again", folder)
        return None
    with contextlib.suppress(OSError):  # a cache that cannot be written is not trimmed either
        os.utime(folder / _RECORD)
    return library


def _as_recorded(folder: Path, text: str) -> bool:
    try:
        recorded = json.loads(text)["sha256"]
        actual = {name: cache_trust.file_digest(folder / name) for name in recorded}
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return LIBRARY_NAME in actual and actual == recorded


def cached_library(key: str, make: Callable[[Path, Path], Mapping[str, Any]]) -> Path:
    """The library of a key, made when the cache does not hold it."""
    target = cache_dir() / "models" / key
    if (library := finished(target)) is not None:
        return library
    with builder(key) as work:
        if (library := finished(target)) is not None:
            return library
        started = time.perf_counter()
        result = work / "result"
        result.mkdir()
        facts = make(work, result / LIBRARY_NAME)
        seconds = round(time.perf_counter() - started, 3)
        _install(result, target, {**facts, "seconds": seconds})
    return target / LIBRARY_NAME


def _install(result: Path, target: Path, facts: Mapping[str, Any]) -> None:
    """Put a finished folder into its place, facts and the SHA-256 of its files recorded."""
    record_path = result / _RECORD
    record = {
        **facts,
        "sha256": {path.name: cache_trust.seal(path) for path in sorted(result.iterdir())},
    }
    record_path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    cache_trust.seal(record_path)
    result.chmod(cache_trust.PRIVATE)
    cache_trust.make_private(target.parent)
    if target.exists():  # damaged: `finished` refused it and this builder holds its lock
        shutil.rmtree(target)
    result.replace(target)
    trim()


def load_library(path: Path) -> ctypes.CDLL:
    """Load a shared library; one that lies in the build cache is checked first.

    A library elsewhere was named by the caller, who answers for it.
    """
    if path.is_relative_to(cache_dir()) and finished(path.parent) != path:
        raise BuildError(
            "a library of the build cache must have the content that was built",
            field=str(path),
            remedy="run the command again; it builds the library anew",
        )
    return ctypes.CDLL(str(path))


def bind_library(
    path: Path, versions: Mapping[str, int], signatures: Mapping[str, tuple[Sequence[Any], Any]]
) -> ctypes.CDLL:
    """Load a library of ours for use through ctypes."""
    remedy = "delete this folder of the build cache and try again"
    try:
        library = load_library(path)
        for name, version in versions.items():
            if (found := getattr(library, name)()) != version:
                raise BuildError(
                    f"a simulation library must have version {version}",
                    field=str(path),
                    value=found,
                    remedy=remedy,
                )
        for name, (arguments, result) in signatures.items():
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, result
    except (OSError, AttributeError) as error:
        raise BuildError(
            f"a simulation library cannot be loaded ({error})", field=str(path), remedy=remedy
        ) from error
    return library


def cached_object(key: str, compile_to: Callable[[Path], object]) -> Path:
    """An object file of the cache, made by ``compile_to(path)`` when it is missing or damaged."""
    target = cache_dir() / "objects" / f"{key}.o"
    if _intact(target):
        return target
    with builder(key) as work:
        if not _intact(target):
            made = work / "unit.o"
            compile_to(made)
            cache_trust.make_private(target.parent)
            note = work / "unit.sha256"
            note.write_text(cache_trust.seal(made), encoding="utf-8")
            cache_trust.seal(note)
            note.replace(_digest_of(target))
            made.replace(target)
    return target


def _intact(target: Path) -> bool:
    """Whether an object is there with the digest beside it."""
    for each in (cache_dir(), target.parent, _digest_of(target)):
        cache_trust.check_owned(each)
    try:
        if cache_trust.file_digest(target) == _digest_of(target).read_text(encoding="utf-8"):
            return True
    except FileNotFoundError:
        return False
    LOG.warning("note: %s has not the content that was built; it is built again", target)
    return False


def _digest_of(target: Path) -> Path:
    return target.with_suffix(".sha256")


def cache_limit() -> int:
    """Bytes that finished builds may take: TILEWRIGHT_CACHE_MB, else 8 GB."""
    text = os.environ.get("TILEWRIGHT_CACHE_MB", "") or str(_DEFAULT_LIMIT_MB)
    if not text.isdecimal() or int(text) < 1:
        raise BuildError(
            "must be a whole number of megabytes, at least 1",
            field="TILEWRIGHT_CACHE_MB",
            value=text,
        )
    return int(text) * 1_000_000


def trim(limit: int | None = None) -> int:
    """Remove finished builds, the least recently used first, until the limit holds.

    What was used within the last hour stays, whatever it takes: another process may be about to
    load it. One process trims at a time; others go on without.
    """
    limit = cache_limit() if limit is None else limit
    locks = cache_dir() / "locks"
    cache_trust.make_private(locks)
    with (locks / "trim.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return 0
        entries = sorted(_entries())
        excess, freed = sum(size for _, size, _ in entries) - limit, 0
        for used, size, path in entries:
            if freed >= excess or used > time.time() - _KEPT_SECONDS:
                break
            if path.is_dir():
                # Renamed first, so that nobody finds half of it.
                cache_trust.make_private(cache_dir() / "work")
                rubbish = Path(tempfile.mkdtemp(prefix="trim.", dir=cache_dir() / "work"))
                path.replace(rubbish / path.name)
                shutil.rmtree(rubbish, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
                _digest_of(path).unlink(missing_ok=True)
            freed += size
        return freed


def _entries() -> Iterator[tuple[float, int, Path]]:
    """(time of the last use, bytes, path) of every finished build and shared object.

    What has no record of ours is a user's, who keeps more than a cache in that folder.
    """
    for folder in (cache_dir() / "models").glob("*"):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if '"sha256"' not in (folder / _RECORD).read_text(encoding="utf-8"):
                continue
            size = sum(path.stat().st_size for path in folder.iterdir())
            yield (folder / _RECORD).stat().st_mtime, size, folder
    for path in (cache_dir() / "objects").glob("*.o"):
        with contextlib.suppress(OSError):
            _digest_of(path).stat()
            status = path.stat()
            yield status.st_mtime, status.st_size, path


@contextlib.contextmanager
def builder(key: str) -> Iterator[Path]:
    """Hold the key's lock and give an empty work folder, removed at the end.

    The kernel drops the lock when its holder dies; the next builder clears what that one left.
    """
    root = cache_dir()
    locks, works = root / "locks", root / "work"
    try:
        cache_trust.check_owned(root)
        cache_trust.make_private(locks)
        cache_trust.make_private(works)
        lock = (locks / f"{key}.lock").open("w")
    except OSError as error:
        raise BuildError(
            f"the build cache must be writable ({error.strerror})",
            field=str(root),
            remedy="set TILEWRIGHT_CACHE to a folder of your own",
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for leftover in works.glob(f"{key}.*"):
            shutil.rmtree(leftover, ignore_errors=True)
        work = Path(tempfile.mkdtemp(prefix=f"{key}.", dir=works))
        try:
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)


def keep_json(document: Mapping[str, Any], work: Path, target: Path) -> None:
    """Write a result that is no library into its place of the cache, whole or not at all."""
    done = work / "result.json"
    done.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    target.parent.mkdir(exist_ok=True)
    done.replace(target)


def run_compiler(arguments: Sequence[str]) -> str:
    """Run the C++ compiler and return its output."""
    compiler = find_compiler()
    done = subprocess.run(
        [str(compiler.path), *arguments],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        raise tool_failure("the C++ compiler fails", done.stderr, r"error|undefined|cannot")
    return done.stdout


def compile_objects(
    tasks: Sequence[tuple[Sequence[str], Path]], work: Path, jobs: int
) -> list[str]:
    """Compile sources, each with its flags, into a folder; the paths of the objects."""

    def compile_one(task: tuple[Sequence[str], Path]) -> str:
        flags, source = task
        target = str(work / f"{source.stem}.o")
        run_compiler([*flags, "-c", str(source), "-o", target])
        return target

    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        return list(pool.map(compile_one, tasks))


def link_library(objects: Sequence[str], output: Path, *libraries: str) -> None:
    """Link a shared library of which nothing binds to another one."""
    closed = ("-shared", "-Wl,-Bsymbolic", "-Wl,--exclude-libs,ALL", "-Wl,--no-undefined")
    run_compiler([*closed, *objects, *libraries, "-pthread", "-o", str(output)])


@functools.cache
def native_target() -> tuple[str, ...]:
    """What ``-march=native`` means to the compiler on this machine, one option a line."""
    return tuple(run_compiler(["-march=native", "-Q", "--help=target"]).splitlines())


def tool_failure(rule: str, output: str, pattern: str) -> BuildError:
    """The error of a tool that failed: the first lines of its output that match ``pattern``."""
    lines = [line for line in output.splitlines() if line.strip() and "Exiting due to" not in line]
    marked = [line for line in lines if re.search(pattern, line)] or lines
    marked.sort(key=lambda line: "warning" in line.lower())  # errors first; the sort is stable
    shown = "\n".join(marked[:_ERROR_LINES]) or "no message"
    return BuildError(f"{rule}:\n{shown}")


def source_text(path: Path) -> str:
    """Text of an input of a build."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise BuildError(
            "a source file cannot be read", field=str(path), remedy=str(error.strerror)
        ) from error


def digest(parts: Sequence[str]) -> str:
    """Hash of a list of texts; boundaries between them count."""
    state = hashlib.sha256()
    for part in parts:
        data = part.encode()
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()[:32]
