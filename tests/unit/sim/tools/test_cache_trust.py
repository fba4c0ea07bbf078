# SPDX-License-Identifier: Apache-2.0
"""Nothing is loaded from the build cache that this user's builders did not put there."""

import logging
import os
import stat

import pytest

from tilewright.host.common.errors import BuildError
from tilewright.host.common.places import ROOT
from tilewright.sim.tools import build_cache, cache_trust
from tilewright.sim.tools.build_cache import (
    LIBRARY_NAME,
    builder,
    cached_library,
    cached_object,
    load_library,
)

GOOD = 'extern "C" int answer() { return 7; }\n'
EVIL = 'extern "C" int answer() { return 666; }\n'


@pytest.fixture
def cache(tmp_path, monkeypatch):
    root = tmp_path / "new" / "cache"
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(root))
    return root


def compiled(text, target):
    source = target.with_suffix(".cpp")
    source.write_text(text)
    build_cache.run_compiler(["-shared", "-fPIC", str(source), "-o", str(target)])
    source.unlink()


def build(text=GOOD):
    """A builder as those of models, the twin, CXXRTL and single modules."""

    def make(_, library):
        compiled(text, library)
        (library.parent / "ports.json").write_text("[]")
        return {}

    return cached_library("key", make)


def test_every_folder_is_made_for_this_user_alone(cache):
    old = os.umask(0o002)
    try:
        library = build()
        cached_object("unit", lambda path: path.write_bytes(b"code"))
    finally:
        os.umask(old)
    folders = [cache, *(path for path in cache.rglob("*") if path.is_dir())]
    assert {path.name for path in folders} == {"cache", "models", "key", "objects", "locks", "work"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}
    files = [path for path in cache.rglob("*") if path.is_file() and path.parent.name != "locks"]
    assert not [path for path in files if path.stat().st_mode & 0o022]
    assert load_library(library).answer() == 7


def test_a_flipped_bit_is_built_again_with_a_note(cache, caplog):
    library = build()
    data = bytearray(library.read_bytes())
    data[len(data) // 2] ^= 1
    library.write_bytes(data)
    with caplog.at_level(logging.WARNING, logger="tilewright.build"):
        assert build_cache.finished(library.parent) is None
    assert "has not the content that was built" in caplog.text
    assert load_library(build()).answer() == 7


def test_a_replaced_library_is_never_loaded(cache, tmp_path):
    library = build()
    compiled(EVIL, tmp_path / "evil.so")
    library.unlink()
    library.write_bytes((tmp_path / "evil.so").read_bytes())
    with pytest.raises(BuildError, match="must have the content that was built"):
        load_library(library)
    assert build_cache.finished(library.parent) is None
    assert load_library(build()).answer() == 7


@pytest.mark.parametrize(
    "record", ["", "[]", "{}", '{"sha256": {}}', '{"sha256": []}', '{"sha256": {"a": 1}}']
)
def test_a_record_without_digests_counts_for_nothing(cache, record):
    library = build()
    (library.parent / "build.json").write_text(record)
    assert build_cache.finished(library.parent) is None
    assert load_library(build()).answer() == 7


@pytest.mark.parametrize("place", [".", "models", "models/key", f"models/key/{LIBRARY_NAME}"])
@pytest.mark.parametrize("bits", [0o020, 0o002])
def test_refuses_what_others_may_write(cache, place, bits):
    library = build()
    path = cache / place
    path.chmod(stat.S_IMODE(path.stat().st_mode) | bits)
    for action in (lambda: build_cache.finished(library.parent), lambda: load_library(library)):
        with pytest.raises(BuildError, match="must not be writable by group or others") as error:
            action()
        assert error.value.field == str(path)
        assert "chmod -R go-w" in error.value.remedy


def test_refuses_what_belongs_to_somebody_else(cache, monkeypatch):
    library = build()
    mine = os.geteuid()
    monkeypatch.setattr(cache_trust, "_ROOT", -1)
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    with pytest.raises(BuildError, match="must belong to the user who loads from it") as error:
        load_library(library)
    assert "TILEWRIGHT_CACHE" in error.value.remedy
    with pytest.raises(BuildError, match="must belong"), builder("other"):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("place", [".", "models", f"models/key/{LIBRARY_NAME}"])
def test_root_refuses_the_files_of_users(cache, place):
    library = build()
    os.chown(cache / place, 65534, 65534)
    with pytest.raises(BuildError, match="must belong to the user") as error:
        load_library(library)
    assert error.value.field == str(cache / place)


def test_a_builder_refuses_a_folder_that_others_may_write(cache):
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    with pytest.raises(BuildError, match="must not be writable"):
        build()


def test_a_damaged_object_is_compiled_again(cache):
    made = []

    def compile_to(path):
        made.append(path)
        path.write_bytes(b"code")

    path = cached_object("unit", compile_to)
    assert cached_object("unit", compile_to) == path
    assert len(made) == 1
    path.write_bytes(b"evil")
    assert cached_object("unit", compile_to).read_bytes() == b"code"
    assert len(made) == 2
    path.with_suffix(".sha256").unlink()
    cached_object("unit", compile_to)
    assert len(made) == 3
    path.chmod(0o666)
    with pytest.raises(BuildError, match="must not be writable"):
        cached_object("unit", compile_to)


def test_every_library_of_the_cache_is_loaded_through_the_check():
    users = {
        path.relative_to(ROOT).as_posix()
        for layer in ("host", "sim", "tuner")
        for path in (ROOT / layer).rglob("*.py")
        if "CDLL(" in path.read_text(encoding="utf-8")
    }
    assert users == {"sim/tools/build_cache.py"}
