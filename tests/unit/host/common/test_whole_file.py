# SPDX-License-Identifier: Apache-2.0
"""A file is written whole, or what was there stays."""

import gzip
import io
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import onnx
import pytest

from tilewright.host.common import whole_file
from tilewright.host.common.result_document import result_document, to_json
from tilewright.host.common.whole_file import (
    LISTING,
    MARK,
    ForeignFileError,
    copy_whole,
    own_folder,
    write_whole,
)
from tilewright.sim.verilator.device import _mark_waves
from tilewright.tuner.report.drawing.page import document

OURS = f"# {MARK} (map)\n"
QUOTED = f"# Notes\n\nA page says '{MARK}' in its head. {MARK}"


def test_replaces_a_file_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "a" / "r.html"
    write_whole(path, f"{OURS} one")
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask
    path.chmod(0o640)
    write_whole(path, b"two")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("two", 0o640)
    assert list(path.parent.iterdir()) == [path]


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


def marked_archive() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("a", "x" * 9000)
        archive.comment = MARK.encode()
    return content.getvalue()


def marked_waves() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "w.fst"
        path.write_bytes(b"\0" * 9000)
        _mark_waves(path)
        return path.read_bytes()


def marked_model() -> bytes:
    model = onnx.ModelProto(ir_version=10)
    model.metadata_props.add(key="tilewright", value=MARK)
    return model.SerializeToString()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        to_json(result_document("run", [], {})).encode(),
        OURS.encode(),
        f"<!-- {MARK} -->\n# Study".encode(),
        json.dumps({"generator": MARK, "rows": []}, indent=1).encode(),
        (document("a study") + "x" * 9000).encode(),
        gzip.compress(f'# {{"format": "t", "version": 1, "generator": "{MARK}"}}'.encode()),
        marked_archive(),
        marked_waves(),
        marked_model(),
    ],
)
def test_what_is_empty_or_has_a_mark_is_replaced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "ours"
    path.write_bytes(content)
    write_whole(path, "two")
    assert path.read_text() == "two"


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


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a disk that is full")
def test_an_error_of_a_device_names_it() -> None:
    with pytest.raises(OSError, match="No space left") as error:
        write_whole(Path("/dev/full"), "text")
    assert error.value.filename == "/dev/full"


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
