# SPDX-License-Identifier: Apache-2.0
import hashlib
import math
from pathlib import Path

import pytest
from support.boards.bitstreams import write_manifest

from tilewright.host.common.errors import ConfigError
from tilewright.host.machine.bitstream import REACHED, bit_file, read_bitstream_manifest
from tilewright.host.machine.board import BOARD_DIR, board_with_bitstream, load_board, load_memory
from tilewright.host.machine.board import load_vivado_target as load_target
from tilewright.host.machine.hwconfig import HwConfig

HW = HwConfig(name="mine", block_in=8, block_out=8, vector_lanes=8)


def test_a_manifest_stands_for_its_board_at_the_clock_that_was_reached(tmp_path):
    path = write_manifest(tmp_path / "tilewright.yaml", HW, clock_mhz=50)
    board, planned = load_board(path), load_board("pynq-z2")
    assert (board.name, board.clock_mhz, planned.clock_mhz) == ("pynq-z2", 50, 100)
    assert board.sources["clock_mhz"].startswith(REACHED)
    assert f"{HW.config_hash:#010x}" in board.sources["clock_mhz"]
    assert board.lut == planned.lut


def test_the_memory_keeps_its_times_at_another_clock(tmp_path):
    board = load_board(write_manifest(tmp_path / "tilewright.yaml", HW, clock_mhz=50))
    planned = load_board("pynq-z2")
    assert board.memory.read_latency == planned.memory.read_latency / 2
    assert board.memory.shared_bytes_per_cycle == 2 * planned.memory.shared_bytes_per_cycle
    assert board.memory.read_bytes_per_cycle == planned.memory.read_bytes_per_cycle
    assert load_memory(tmp_path / "tilewright.yaml") == board.memory
    assert planned.at_clock(1, "for a test").memory.read_latency == 1


def test_the_planned_clock_changes_nothing_but_its_source(tmp_path):
    board = load_board(write_manifest(tmp_path / "tilewright.yaml", HW))
    planned = load_board("pynq-z2").to_mapping()
    assert board.to_mapping() | {"sources": 0} == planned | {"sources": 0}


def test_the_manifest_beside_a_bitstream_gives_the_clock(tmp_path):
    board = load_board("pynq-z2")
    assert board_with_bitstream(board, None) is board
    assert board_with_bitstream(board, tmp_path / "tilewright.bit") is board
    (tmp_path / "tilewright.yaml").write_text("name: another file\n", encoding="utf-8")
    assert board_with_bitstream(board, tmp_path / "tilewright.bit") is board
    write_manifest(tmp_path / "tilewright.yaml", HW, clock_mhz=80)
    assert board_with_bitstream(board, tmp_path / "tilewright.bit").clock_mhz == 80
    with pytest.raises(ConfigError, match="part of board zcu104") as caught:
        board_with_bitstream(load_board("zcu104"), tmp_path / "tilewright.bit")
    assert caught.value.remedy == "give --board pynq-z2"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"bitstream": 2}, "format 1"),
        ({"vivado": None}, "add vivado"),
        ({"config_hash": 1}, "must be the hash of the configuration"),
        ({"hw": 7}, "must be a mapping"),
        ({"clock_mhz": "fast"}, "must be a number"),
        ({"clock_mhz": 0}, "from 1 to 2000"),
        ({"timing": {"setup_slack_ns": -0.1, "limit_mhz": 90}}, "must meet timing"),
        ({"timing": {"setup_slack_ns": math.nan, "limit_mhz": 90}}, "must be a number"),
        ({"timing": {"setup_slack_ns": 0.1}}, "limit_mhz: must be a number"),
        ({"utilisation": {}}, "must be a number"),
        ({"board": "pynq-z9"}, "pynq-z9"),
        ({"part": "xc7z010clg400-1"}, "part of board pynq-z2"),
    ],
)
def test_a_manifest_that_cannot_be_used_is_refused(tmp_path, changes, told):
    path = write_manifest(tmp_path / "tilewright.yaml", HW, **changes)
    with pytest.raises(ConfigError, match=told):
        load_board(path)


def test_files_are_those_of_the_build(tmp_path):
    digest = hashlib.sha256(b"bits").hexdigest()
    path = write_manifest(tmp_path / "tilewright.yaml", HW, files={"tilewright.bit": digest})
    manifest = read_bitstream_manifest(path)
    with pytest.raises(ConfigError, match="must lie beside it"):
        manifest.check_files()
    (tmp_path / "tilewright.bit").write_bytes(b"bits")
    manifest.check_files()
    (tmp_path / "tilewright.bit").write_bytes(b"other")
    with pytest.raises(ConfigError, match="SHA-256"):
        manifest.check_files()


SECTION = """
  processor: zynq7000
  board_part: a:b:part0:*
  registers_base: 0x40000000
  memory_bytes: 0x20000000
  processor_properties: {}
"""


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("processor: zynq7000", "processor: versal", "family of processing systems"),
        ("0x40000000", "0x40000001", "multiple of 4096"),
        ("0x20000000", "large", "multiple of 4096"),
        ("a:b:part0:*", "7", "must be a name of"),
        ("{}", "[1]", "must be a mapping"),
        ("memory_bytes", "memory_byte", "unknown key"),
        ("  processor_properties: {}\n", "", "processor_properties: must be stated"),
    ],
)
def test_what_vivado_must_know_of_a_board_is_checked(tmp_path, old, new, told):
    path = tmp_path / "mine.yaml"
    planned = (BOARD_DIR / "pynq-z2.yaml").read_text(encoding="utf-8")
    before, _, after = planned.partition("\nvivado:")
    rest = after[after.index("\nsources:") :]
    path.write_text(f"{before}\nvivado:{SECTION}{rest}", encoding="utf-8")
    assert load_target(path).memory_bytes == 1 << 29
    path.write_text(f"{before}\nvivado:{SECTION.replace(old, new)}{rest}", encoding="utf-8")
    with pytest.raises(ConfigError, match=told):
        load_target(path)
    load_board(path)  # nothing else needs the section


def test_a_board_without_the_section_is_told_how_to_get_one(tmp_path):
    planned = (BOARD_DIR / "pynq-z2.yaml").read_text(encoding="utf-8")
    before, _, after = planned.partition("\nvivado:")
    path = tmp_path / "mine.yaml"
    path.write_text(before + after[after.index("\nsources:") :], encoding="utf-8")
    with pytest.raises(ConfigError, match="how Vivado builds") as caught:
        load_target(path)
    assert "processor" in caught.value.remedy


@pytest.mark.parametrize("name", ["a.bit", "a.yaml", "folder.bit/b.yaml", "plain"])
def test_a_bitstream_is_named_by_itself_or_by_its_manifest(name: str) -> None:
    found = bit_file(Path(name))
    assert found == (Path(name) if name == "plain" else Path(name).with_suffix(".bit"))


def test_the_manifest_is_found_beside_its_bitstream(tmp_path) -> None:
    (tmp_path / "t.yaml").write_text("bitstream: 99\n")
    for name in ("t.bit", "t.yaml"):
        with pytest.raises(Exception, match=r"t\.yaml: bitstream: must be a manifest of format"):
            read_bitstream_manifest(tmp_path / name)
