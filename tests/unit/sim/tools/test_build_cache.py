# SPDX-License-Identifier: Apache-2.0
"""The size limit of the build cache."""

import fcntl
import json
import os
import time
from pathlib import Path

import pytest

from tilewright.host.common.errors import BuildError
from tilewright.sim.tools import build_cache
from tilewright.sim.tools.cache_trust import file_digest

OLD = 10_000.0


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    return tmp_path


def put(root: Path, name: str, size: int, age: float) -> Path:
    folder = root / "models" / name
    folder.mkdir(parents=True)
    library = folder / build_cache.LIBRARY_NAME
    library.write_bytes(bytes(size))
    record = folder / "build.json"
    record.write_text(json.dumps({"sha256": {library.name: file_digest(library)}}))
    os.utime(record, (time.time() - age,) * 2)
    return folder


def test_the_least_recently_used_builds_go_first(cache):
    folders = [put(cache, f"m{number}", 1000, OLD - number) for number in range(4)]
    freed = build_cache.trim(2500)
    assert [folder.exists() for folder in folders] == [False, False, True, True]
    assert 2000 < freed < 2400, "libraries with their records"
    assert build_cache.trim(2500) == 0
    assert not list((cache / "work").iterdir()), "nothing is left of them"


def test_a_use_makes_a_build_young(cache):
    folders = [put(cache, f"m{number}", 1000, OLD - number) for number in range(3)]
    assert build_cache.finished(folders[0]) == folders[0] / build_cache.LIBRARY_NAME
    build_cache.trim(1500)
    assert [folder.exists() for folder in folders] == [True, False, False]


def test_what_was_used_within_the_hour_stays(cache):
    folders = [put(cache, f"m{number}", 1000, 60.0 * number) for number in range(3)]
    assert build_cache.trim(1) == 0
    assert all(folder.exists() for folder in folders)


def test_shared_objects_count(cache):
    unit = cache / "objects" / "x.o"
    unit.parent.mkdir()
    unit.write_bytes(bytes(5000))
    os.utime(unit, (time.time() - OLD,) * 2)
    seal = unit.with_suffix(".sha256")
    seal.write_text("digest")
    assert build_cache.trim(4000) == 5000
    assert not unit.exists()
    assert not seal.exists()


def test_one_process_trims_at_a_time(cache):
    folder = put(cache, "m", 1000, OLD)
    (cache / "locks").mkdir()
    with (cache / "locks" / "trim.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert build_cache.trim(1) == 0
    assert folder.exists()
    assert build_cache.trim(1) >= 1000


def test_an_installed_build_trims_the_cache(cache, monkeypatch):
    old = put(cache, "old", 2_000_000, OLD)
    monkeypatch.setenv("TILEWRIGHT_CACHE_MB", "1")

    def make(_: Path, library: Path) -> dict[str, str]:
        library.write_bytes(bytes(1000))
        return {"module": "new"}

    library = build_cache.cached_library("new", make)
    assert not old.exists()
    assert json.loads((library.parent / "build.json").read_text())["module"] == "new"
    assert build_cache.finished(library.parent) == library


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "much"])
def test_refuses_a_limit_that_is_not_a_number(monkeypatch, text):
    monkeypatch.setenv("TILEWRIGHT_CACHE_MB", text)
    with pytest.raises(BuildError, match="whole number of megabytes"):
        build_cache.cache_limit()
