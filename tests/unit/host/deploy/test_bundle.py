# SPDX-License-Identifier: Apache-2.0
"""Bundles: what is in them, and how they are copied."""

import hashlib
import io
import json
import os
import subprocess
import sys
import time
import zipfile
from contextlib import closing

import numpy as np
import pytest
from support.boards.bitstreams import write_manifest
from support.boards.bundles import TINY, small_bundle
from support.boards.loopback_ssh import write_stand_ins
from support.documents.json_members import wrong_in

from tilewright.host.common.errors import (
    ConfigError,
    DeviceError,
    ProgramError,
    ToolError,
)
from tilewright.host.common.result_document import result_document, to_json
from tilewright.host.deploy import board_run
from tilewright.host.deploy.board_run import find_bitstream, top_classes
from tilewright.host.deploy.bundle import MANIFEST, read_bundle
from tilewright.host.deploy.bundle_archive import unpack_bundle
from tilewright.host.deploy.send import send
from tilewright.host.machine.bitstream import read_bitstream_manifest
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.reference.device import ReferenceDevice

LABELS = "".join(f"class {number}\n" for number in range(99))


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    return small_bundle(folder, labels=LABELS.splitlines())[1]


@pytest.fixture
def unpacked(archive, tmp_path):
    (tmp_path / "bundle.zip").write_bytes(archive)
    (tmp_path / "small").mkdir()
    return unpack_bundle(tmp_path / "bundle.zip", tmp_path / "small")


def test_the_same_network_gives_the_same_bytes(archive, tmp_path, monkeypatch):
    monkeypatch.setattr(time, "localtime", lambda *_: time.gmtime(2e9))
    assert small_bundle(tmp_path, labels=LABELS.splitlines()) == ("small", archive)


def test_it_says_outputs_latency_and_throughput(unpacked, tmp_path):
    network = board_run.open_network(unpacked)
    shape = (3, *network.inputs[0].shape[1:])
    inputs = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    np.save(tmp_path / "x.npy", inputs)
    said = []
    with closing(ReferenceDevice(TINY)) as device:
        report = board_run.run_bundle(unpacked, network, device, tmp_path / "x.npy", said.append)
        with board_run.runner_of(network, device) as runner:
            expected = runner.run({"x": inputs[1:2]})
    assert [line.partition(":")[0] for line in said] == [
        "input 0", "input 1", "input 2", "small", "latency", "throughput",
    ]  # fmt: skip
    assert top_classes(expected, unpacked.labels) in said[1]
    assert "y: class " in said[1]
    assert "pipelined (2 in flight)" in said[-1]
    rows = report.rows()
    assert [row["input"] for row in rows] == ["input 0", "input 1", "input 2"]
    (output,) = rows[1]["outputs"]
    best = int(np.argmax(expected.outputs["y"].reshape(-1)))
    assert (output["output"], output["top"][0]["index"]) == ("y", best)
    assert output["top"][0]["label"] == unpacked.labels[best]
    assert report.summary()["inputs"] == 3
    held = board_run.conditions(unpacked, None, "board")
    text = to_json(result_document("tilewright board run", rows, held, summary=report.summary()))
    assert wrong_in(json.loads(text)) == []


def test_of_too_many_inputs_the_first_are_run_and_it_says_so(unpacked, tmp_path, monkeypatch):
    monkeypatch.setattr(board_run, "MAX_INPUTS", 2)
    network = board_run.open_network(unpacked)
    np.save(tmp_path / "x.npy", np.zeros((3, *network.inputs[0].shape[1:]), np.float32))
    monkeypatch.setattr(board_run, "image_files", lambda _: [tmp_path / f"{n}.png" for n in "abc"])
    said = []
    with closing(ReferenceDevice(network.hw)) as device:
        report = board_run.run_bundle(unpacked, network, device, tmp_path / "x.npy", said.append)
    assert "only the first 2 are run" in said[0]
    assert list(report.titles) == ["a.png", "b.png"]


def test_a_watched_image_that_goes_away_ends_nothing(tmp_path, monkeypatch):
    (tmp_path / "gone.png").symlink_to(tmp_path / "nowhere")  # listed, but without a size
    (tmp_path / "here.png").write_bytes(b"x")
    monkeypatch.setattr(board_run, "_LOOK_SECONDS", 0)
    assert next(board_run.new_images(tmp_path)) == tmp_path / "here.png"


def test_a_watched_folder_that_is_missing_is_refused(tmp_path, monkeypatch):
    def no_wait(_):
        raise AssertionError("it waits for a folder that is not there")

    monkeypatch.setattr(time, "sleep", no_wait)
    with pytest.raises(ConfigError, match="must be a folder that can be read") as refused:
        next(board_run.new_images(tmp_path / "inbix"))
    assert refused.value.field == "--watch"


def test_the_runner_names_the_option_of_inputs_that_do_not_fit(
    unpacked, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(
        board_run, "open_device", lambda _, network, __: ReferenceDevice(network.hw)
    )
    np.save(tmp_path / "x.npy", np.zeros((1, 1, 1, 1), np.float32))
    assert board_run.main(unpacked.folder, ["--images", str(tmp_path / "x.npy")]) == 2
    assert "--images" in (said := capsys.readouterr().err)
    assert "calibration" not in said


def test_the_runner_refuses_a_file_that_it_could_not_write_before_it_runs(
    unpacked, tmp_path, monkeypatch, capsys
):
    def no_device(*_):
        raise AssertionError("it ran")

    monkeypatch.setattr(board_run, "open_device", no_device)
    assert board_run.main(unpacked.folder, ["--json", str(tmp_path)]) == 2
    assert "error: --json: " in capsys.readouterr().err


@pytest.mark.parametrize("other", ["--images", "--json"])
def test_the_runner_watches_or_measures(unpacked, capsys, other):
    with pytest.raises(SystemExit) as ended:
        board_run.main(unpacked.folder, ["--watch", "inbox", other, "x"])
    assert ended.value.code == 2
    assert "--watch goes without --images and --json" in capsys.readouterr().err


def test_a_device_of_another_configuration_is_refused(unpacked):
    network = board_run.open_network(unpacked)
    with (
        closing(ReferenceDevice(load_hwconfig("edge-8x8"))) as device,
        pytest.raises(ProgramError, match="was compiled for tiny-4x4"),
    ):
        board_run.runner_of(network, device)


def _with_bitstream(folder, config=TINY, **changes):
    (folder / "tilewright.bit").write_bytes(b"bits")
    (folder / "tilewright.hwh").write_bytes(b"metadata")
    digests = {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for name in ("tilewright.bit", "tilewright.hwh")
    }
    path = write_manifest(folder / "tilewright.yaml", config, files=digests, **changes)
    return read_bitstream_manifest(path)


def test_a_bitstream_is_found_by_its_sha256(tmp_path):
    _, archive = small_bundle(tmp_path, bitstream=_with_bitstream(tmp_path))
    (tmp_path / "b.zip").write_bytes(archive)
    (tmp_path / "small").mkdir()
    bundle = unpack_bundle(tmp_path / "b.zip", tmp_path / "small")
    with pytest.raises(ConfigError, match="the bitstream cannot be read"):
        board_run.find_bitstream(bundle, None)
    assert board_run.find_bitstream(bundle, tmp_path / "tilewright.bit").read_bytes() == b"bits"
    (tmp_path / "tilewright.hwh").write_bytes(b"of another build")
    with pytest.raises(ConfigError, match="must be the file that the bundle was made for"):
        board_run.find_bitstream(bundle, tmp_path / "tilewright.bit")


def test_a_bitstream_of_another_configuration_or_board_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="of the network's configuration"):
        small_bundle(tmp_path, bitstream=_with_bitstream(tmp_path, load_hwconfig("edge-8x8")))
    with pytest.raises(ConfigError, match="must be built for pynq-z2"):
        small_bundle(tmp_path, bitstream=_with_bitstream(tmp_path, board="zcu104"))
    (tmp_path / "tilewright.bit").write_bytes(b"other")
    with pytest.raises(ConfigError, match="SHA-256"):
        small_bundle(
            tmp_path, bitstream=read_bitstream_manifest(write_manifest(
                tmp_path / "tilewright.yaml", TINY, files={"tilewright.bit": "0" * 64}
            )),
        )  # fmt: skip


def test_without_a_bitstream_one_must_be_named(unpacked):
    with pytest.raises(ConfigError, match="--bitstream"):
        board_run.find_bitstream(unpacked, None)


# -- damage ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("run", b"import os", "SHA-256 of the manifest"),
        ("network.tw", b"", "SHA-256 of the manifest"),
        ("run", bytes(1 << 16), "at most"),
        (MANIFEST, b"{}", "must be a bundle of format 2"),
        (MANIFEST, b"[" * 100_000, "must be the manifest"),
        (MANIFEST, b'{"tilewright_bundle": 1}', "must be a bundle of format 2, not 1"),
        (MANIFEST, b'{"tilewright_bundle": 2}', "a field is missing"),
        (MANIFEST, b" " * (1 << 21), "at most"),
    ],
)
def test_a_folder_that_was_changed_is_refused(unpacked, name, content, message):
    (unpacked.folder / name).write_bytes(content)
    with pytest.raises(ProgramError, match=message):
        read_bundle(unpacked.folder)


def test_links_and_missing_files_are_refused(unpacked):
    run = unpacked.folder / "run"
    content = run.read_bytes()
    run.unlink()
    with pytest.raises(ProgramError, match="must be a file of the bundle"):
        read_bundle(unpacked.folder)
    (unpacked.folder.parent / "elsewhere").write_bytes(content)
    run.symlink_to(unpacked.folder.parent / "elsewhere")
    with pytest.raises(ProgramError, match="must be a file of the bundle"):
        read_bundle(unpacked.folder)


@pytest.mark.parametrize("name", ["json.py", "lib/numpy/__init__.py", "lib/x.txt", "re.so"])
def test_what_python_would_import_and_the_manifest_does_not_name_is_refused(unpacked, name):
    path = unpacked.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("raise SystemExit('imported')")
    with pytest.raises(ProgramError, match="must be named by the manifest"):
        read_bundle(unpacked.folder)


def repacked(archive, change):
    """The archive with its manifest and members changed."""
    with zipfile.ZipFile(io.BytesIO(archive)) as old:
        members = {name: old.read(name) for name in old.namelist()}
    manifest = json.loads(members.pop(MANIFEST))
    change(manifest, members)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as new:
        new.writestr(MANIFEST, json.dumps(manifest))
        for name, data in members.items():
            new.writestr(name, data)
    return content.getvalue()


def added(name, data=b"x", size=None):
    def change(manifest, members):
        members[name] = data
        digest = hashlib.sha256(data).hexdigest()
        manifest["files"][name] = {"sha256": digest, "bytes": len(data) if size is None else size}

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (added("../evil"), "plain name"),
        (added("/etc/evil"), "plain name"),
        (added("lib/../../evil"), "plain name"),
        (added("lib\\evil"), "plain name"),
        (added(".bashrc"), "plain name"),
        (added("a" * 300), "plain name"),
        (added("zeros", bytes(1 << 26)), "must not swell"),
        (added("short", b"x" * 9, size=3), "larger than 3 bytes"),
        (added("long", b"x", size=3), None),
        (added("huge", b"x", size=1 << 40), "integer 0"),
        (lambda manifest, members: members.update(unnamed=b"x"), "not in its manifest"),
        (lambda manifest, members: members.pop("run"), "must be a bundle"),
        (lambda manifest, members: manifest.update(config_hash=-1), "integer 0"),
        (lambda manifest, members: manifest.update(name="a/b"), "plain name"),
        (lambda manifest, members: manifest["files"].pop("network.tw"), "not in its manifest"),
    ],
)
def test_a_hostile_archive_is_refused(archive, tmp_path, change, message):
    (tmp_path / "b.zip").write_bytes(repacked(archive, change))
    (tmp_path / "in").mkdir()
    if message is None:  # a size that is stated too large: the digest is what counts
        assert unpack_bundle(tmp_path / "b.zip", tmp_path / "in").name == "small"
        return
    with pytest.raises(ProgramError, match=message):
        unpack_bundle(tmp_path / "b.zip", tmp_path / "in")
    assert {path.name for path in tmp_path.iterdir()} == {"b.zip", "in"}


def test_another_network_in_the_bundle_is_refused(archive, tmp_path):
    def change(manifest, members):
        manifest["config_hash"] ^= 1

    (tmp_path / "b.zip").write_bytes(repacked(archive, change))
    (tmp_path / "in").mkdir()
    bundle = unpack_bundle(tmp_path / "b.zip", tmp_path / "in")
    with pytest.raises(ProgramError, match="must be of configuration"):
        board_run.open_network(bundle)


def test_run_imports_nothing_that_lies_beside_it(archive, tmp_path):
    (tmp_path / "b.zip").write_bytes(archive)
    folder = tmp_path / "in"
    folder.mkdir()
    unpack_bundle(tmp_path / "b.zip", folder)
    for name in ("pathlib", "numpy", "json", "tilewright"):
        (folder / f"{name}.py").write_text("raise SystemExit('ran a file of the folder')")
    done = subprocess.run(
        [sys.executable, str(folder / "run"), "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_bytes_that_are_no_archive_are_refused(archive, tmp_path):
    for size in (0, 1, 100, len(archive) // 2, archive.rindex(b"PK\5\6") + 21):
        (tmp_path / "b.zip").write_bytes(archive[:size])
        with pytest.raises(ProgramError, match="must be a bundle"):
            unpack_bundle(tmp_path / "b.zip", tmp_path)


# -- Bundles are copied whole or not at all; stand-ins for ssh and scp make a folder the board
@pytest.fixture
def board(tmp_path, monkeypatch):
    folder = tmp_path / "bin"
    folder.mkdir()
    write_stand_ins(folder, "user@board")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return str(tmp_path / "board")


def test_its_bitstream_lies_where_the_runner_looks(tmp_path, board):
    (tmp_path / "tilewright.bit").write_bytes(b"bits")
    digests = {"tilewright.bit": hashlib.sha256(b"bits").hexdigest()}
    manifest = read_bitstream_manifest(
        write_manifest(tmp_path / "tilewright.yaml", TINY, files=digests)
    )
    name, archive = small_bundle(tmp_path, bitstream=manifest)
    send(archive, name, "user@board", board, manifest)
    assert find_bitstream(read_bundle(tmp_path / "board/small"), None).read_bytes() == b"bits"


@pytest.mark.parametrize(
    ("host", "folder"),
    [
        ("-oProxyCommand=touch /tmp/x", "/x"),
        ("user@board; true", "/x"),
        ("user@board", "relative"),
        ("user@board", "/a/../b"),
        ("user@board", "/a b"),
        ("user@board", "/$(true)"),
    ],
)
def test_words_for_a_shell_are_no_host_and_no_folder(board, host, folder):
    with pytest.raises(ConfigError, match="must be plain letters"):
        send(b"", "x", host, folder)


def test_a_host_that_does_not_answer_is_one_error(board):
    with pytest.raises(DeviceError, match=r"ssh failed \(unknown host\)"):
        send(b"", "x", "user@other", "/x")


def test_without_ssh_it_says_so(board, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ToolError, match="needs the program ssh"):
        send(b"", "x", "user@board", "/x")
