# SPDX-License-Identifier: Apache-2.0
"""Bundles are copied whole or not at all; stand-ins for ssh and scp make a folder the board."""

import hashlib
import os
import subprocess
import sys

import pytest
from support.boards.bitstreams import write_manifest
from support.boards.bundles import TINY, small_bundle
from support.boards.loopback_ssh import write_stand_ins

from tilewright.host.common.errors import ConfigError, DeviceError, ToolError
from tilewright.host.deploy.board_run import find_bitstream
from tilewright.host.deploy.bundle import read_bundle
from tilewright.host.deploy.send import send
from tilewright.host.machine.bitstream import read_bitstream_manifest


@pytest.fixture(autouse=True)
def _programs(tmp_path, monkeypatch):
    folder = tmp_path / "bin"
    folder.mkdir()
    write_stand_ins(folder, "user@board")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def board(tmp_path):
    return str(tmp_path / "board")


def test_a_bundle_is_installed_and_replaced_whole(tmp_path, board, monkeypatch):
    name, archive = small_bundle(tmp_path)
    place = send(archive, name, "user@board", board)
    assert place == f"{board}/small"
    first = read_bundle(tmp_path / "board/small").folder.resolve()
    _, other = small_bundle(tmp_path, mean=(0.5,))
    monkeypatch.setenv("CUT", "1")
    with pytest.raises(DeviceError, match="the copy is damaged"):
        send(other, name, "user@board", board)
    assert read_bundle(tmp_path / "board/small").folder.resolve() == first
    assert read_bundle(tmp_path / "board/small").mean == (0.0,)
    monkeypatch.delenv("CUT")
    for _ in range(2):
        send(other, name, "user@board", board)
        assert read_bundle(tmp_path / "board/small").mean == (0.5,)
    left = {path.name for path in (tmp_path / "board").iterdir()}
    assert {name for name in left if name.startswith(".") or name.endswith(".old")} == set()


def test_its_bitstream_lies_where_the_runner_looks(tmp_path, board):
    (tmp_path / "tilewright.bit").write_bytes(b"bits")
    digests = {"tilewright.bit": hashlib.sha256(b"bits").hexdigest()}
    manifest = read_bitstream_manifest(
        write_manifest(tmp_path / "tilewright.yaml", TINY, files=digests)
    )
    name, archive = small_bundle(tmp_path, bitstream=manifest)
    send(archive, name, "user@board", board, manifest)
    assert find_bitstream(read_bundle(tmp_path / "board/small"), None).read_bytes() == b"bits"


def test_the_runner_on_the_board_says_what_it_lacks(tmp_path, board):
    name, archive = small_bundle(tmp_path)
    place = send(archive, name, "user@board", board)
    done = subprocess.run(
        [sys.executable, f"{place}/run"], capture_output=True, text=True, check=False,
        cwd="/", env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("error: --bitstream: a bundle without bitstream needs one")
    assert len(done.stderr.splitlines()) == 1
    done = subprocess.run(
        [sys.executable, "-S", f"{place}/run"], capture_output=True, text=True, check=False,
        cwd="/", env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert done.stderr.startswith("error: this needs numpy")
    read_bundle(tmp_path / "board/small")  # running changed nothing


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
def test_words_for_a_shell_are_no_host_and_no_folder(host, folder):
    with pytest.raises(ConfigError, match="must be plain letters"):
        send(b"", "x", host, folder)


def test_a_host_that_does_not_answer_is_one_error():
    with pytest.raises(DeviceError, match=r"ssh failed \(unknown host\)"):
        send(b"", "x", "user@other", "/x")


def test_without_ssh_it_says_so(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ToolError, match="needs the program ssh"):
        send(b"", "x", "user@board", "/x")
