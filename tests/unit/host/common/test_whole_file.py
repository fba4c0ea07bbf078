# SPDX-License-Identifier: Apache-2.0
"""A file is written whole, or what was there stays."""

import gzip
import io
import json
import signal
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from support.randomness import fresh_rng

from tilewright.host.common import generated_files, whole_file
from tilewright.host.common.generated_files import stale_files
from tilewright.host.common.scratch import scratch_folder
from tilewright.host.common.whole_file import (
    LISTING,
    MARK,
    ForeignFileError,
    copy_whole,
    own_folder,
    write_whole,
)
from tilewright.host.common.zip_archives import add_member, read_member
from tilewright.host.lowering.native import records
from tilewright.host.machine import codegen

OURS = f"# {MARK} (map)\n"
QUOTED = f"# Notes\n\nA page says '{MARK}' in its head. {MARK}"


@pytest.mark.parametrize(
    "content",
    [
        b"mine",
        b"\x1f\x8bno gzip",
        b"x" * 5000 + b"y" * 5000,
        QUOTED.encode(),
        f"# {MARK} is what our files begin with".encode(),
        f"{MARK} one".encode(),
        json.dumps({"rows": [], "generator": "me", "note": f'"generator": "{MARK}"'}).encode(),
        f"<!doctype html><html><head><title>{MARK}</title>".encode(),
        gzip.compress(QUOTED.encode(), mtime=0),
        b"PK" + QUOTED.encode(),
        b"\0" + QUOTED.encode(),
        b"\x08\x0a" + QUOTED.encode(),
    ],
)
def test_what_has_no_mark_is_not_replaced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mine"
    path.write_bytes(content)
    with pytest.raises(ForeignFileError, match="move it away"):
        write_whole(path, "two")
    assert path.read_bytes() == content


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a disk that is full")
def test_a_full_disk_names_the_copy_and_not_its_source(tmp_path: Path) -> None:
    (tmp_path / "source").write_text("text")
    with pytest.raises(OSError, match="No space left") as error:
        copy_whole(tmp_path / "source", Path("/dev/full"))
    assert error.value.filename == "/dev/full"


def test_a_link_goes_on_pointing_to_its_file(tmp_path: Path) -> None:
    (tmp_path / "real").write_text(OURS)
    (tmp_path / "link").symlink_to("real")
    write_whole(tmp_path / "link", "two")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "two"


FULL = (
    "import resource, signal, sys\nfrom pathlib import Path\n"
    "from tilewright.host.common.whole_file import write_whole\n"
    "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
    "try:\n    write_whole(Path(sys.argv[1]), 'x' * 5000)\n"
    "except OSError as error:\n    print(error.errno)\n"
)


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    """The limit of a file's size stands for the disk: the write fails in the middle."""
    path = tmp_path / "r.html"
    path.write_text(OURS)
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip().isdecimal(), done.stderr
    assert path.read_text() == OURS
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_before_the_end_leaves_no_part(tmp_path: Path, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(whole_file.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(tmp_path / "r", "text")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_whose_list_only_quotes_the_mark_is_not_ours(tmp_path: Path) -> None:
    own_folder(tmp_path)
    listing = tmp_path / LISTING
    listing.write_text(f"{listing.read_text()}mine\n")
    assert own_folder(tmp_path) == ["mine"]
    listing.write_text(f"as it is {MARK}\nmine\n")
    with pytest.raises(ForeignFileError, match="new or empty folder"):
        own_folder(tmp_path)


@pytest.mark.parametrize("target", ["nowhere/x.json", "link"], ids=["no folder", "a loop"])
def test_a_link_to_nothing_is_refused_before_the_work(tmp_path: Path, target: str) -> None:
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(FileNotFoundError, match="link to nothing"):
        whole_file.prepare_place(tmp_path / "link")
    with pytest.raises(FileNotFoundError, match="link to nothing"):
        whole_file.prepare_place(tmp_path / "link" / "x.json")
    with pytest.raises(ForeignFileError, match="new or empty folder"):
        whole_file.own_folder(tmp_path / "link")


def test_a_link_to_a_new_file_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("new.json")
    whole_file.prepare_place(tmp_path / "link")
    write_whole(tmp_path / "link", "x")
    assert (tmp_path / "new.json").read_text() == "x"


# -- A folder for scratch goes with its owner, at the latest when the next one comes --------------

OWNER = """
import sys, time
from tilewright.host.common.scratch import scratch_folder
with scratch_folder() as folder:
    (folder / "data").write_text("x")
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def temporary(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_a_killed_owners_folder_goes_and_nothing_else_does(temporary) -> None:
    (temporary / "tilewright-of-a-user").mkdir()
    (temporary / "tilewright-of-a-user" / "mine").write_text("kept")
    command = [sys.executable, "-c", OWNER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        left = Path(process.stdout.readline().strip())
        with scratch_folder():
            assert (left / "data").is_file(), "its owner is alive"
        process.send_signal(signal.SIGKILL)
    assert left.is_dir()
    with scratch_folder() as folder:
        assert not left.exists()
        assert folder.is_dir()
    assert [path.name for path in temporary.iterdir()] == ["tilewright-of-a-user"]
    assert (temporary / "tilewright-of-a-user" / "mine").read_text() == "kept"


# -- generated files say what the tables say; stale ones are found --------------------------------

COMMANDS = (codegen, records)
OUTPUTS = {**codegen.OUTPUTS, **records.OUTPUTS}


@pytest.fixture
def written(tmp_path, monkeypatch):
    """A folder with freshly written files, which the commands take for the repository."""
    monkeypatch.setattr(generated_files, "ROOT", tmp_path)
    assert [command.main(["--write"]) for command in COMMANDS] == [0, 0]
    return tmp_path


def test_the_files_of_the_repository_are_fresh():
    assert stale_files(OUTPUTS) == []


def test_written_files_are_fresh(written, capsys):
    assert stale_files(OUTPUTS, written) == []
    assert [command.main(["--check"]) for command in COMMANDS] == [0, 0]
    assert all((written / name).read_text() == generate() for name, generate in OUTPUTS.items())


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_changed_or_missing_file_is_stale_and_rewritten(written, capsys, name):
    command = next(command for command in COMMANDS if name in command.OUTPUTS)
    capsys.readouterr()
    path = written / name
    path.write_text(path.read_text() + "\n")
    assert stale_files(OUTPUTS, written) == [name]
    assert command.main(["--check"]) == 1
    assert f"stale: {name}; run `make generate`" in capsys.readouterr().err
    path.unlink()
    assert stale_files(OUTPUTS, written) == [name]
    assert command.main(["--write"]) == 0
    assert capsys.readouterr().out == f"wrote {name}\n"
    assert stale_files(OUTPUTS, written) == []


# -- archives of anybody: what cannot be read ends in one kind of error ---------------------------

DIRECTORY_ENTRY = b"PK\x01\x02"


def archive_of(**members: bytes) -> bytearray:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in members.items():
            add_member(archive, name, data)
    return bytearray(content.getvalue())


def read(data: bytes, name: str = "a") -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return read_member(archive, name, 1 << 20)


def with_entry(data: bytearray, offset: int, form: str, value: int) -> bytearray:
    """One field of the directory's first entry changed."""
    struct.pack_into(form, data, data.index(DIRECTORY_ENTRY) + offset, value)
    return data


@pytest.mark.parametrize(
    ("offset", "form", "value"),
    [
        pytest.param(24, "<I", 1 << 16, id="it is shorter than it says"),
        pytest.param(10, "<H", 99, id="unknown compression"),
        pytest.param(8, "<H", 1, id="encrypted"),
        pytest.param(16, "<I", 12345, id="another checksum"),
    ],
)
def test_a_damaged_directory_is_a_value_error(offset: int, form: str, value: int) -> None:
    with pytest.raises(ValueError, match=r"^a"):
        read(with_entry(archive_of(a=b"abc" * 100), offset, form, value))


def test_bytes_beyond_the_end_are_a_value_error() -> None:
    data = archive_of(a=fresh_rng().bytes(300))
    # Its size, compressed and not, in front of the end; the end itself does not move.
    with_entry(with_entry(data, 20, "<I", 1 << 16), 24, "<I", 1 << 16)
    with pytest.raises(ValueError, match=r"^a"):
        read(data)


def test_any_damaged_byte_is_a_value_error_or_harmless() -> None:
    whole = archive_of(a=fresh_rng().bytes(200), b=b"x" * 50)
    rng = np.random.default_rng(int(fresh_rng().integers(1 << 30)))
    for _ in range(2000):
        data = bytearray(whole)
        data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
        try:
            read(data)
        except (ValueError, KeyError):
            continue
        except (zipfile.BadZipFile, NotImplementedError, OSError):
            continue  # no archive at all, or one of a later version
