# SPDX-License-Identifier: Apache-2.0
"""The scripts for Vivado, run in a Tcl interpreter against a model of Vivado (support/vivado)."""

import hashlib
import re
import shutil
import string
import subprocess
from dataclasses import replace
from itertools import starmap
from pathlib import Path

import pytest
import yaml
from support.randomness import fresh_rng, often
from support.vivado import stub
from support.vivado.design import Design
from support.vivado.stub import Vivado
from support.vivado.tcl import ScriptError, run_in_tclsh, run_script

from tilewright.host.common.errors import BuildError, ConfigError, ToolError
from tilewright.host.machine.bitstream import read_bitstream_manifest
from tilewright.host.machine.board import load_board, load_vivado_target, named_boards
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.machine.vivado_target import CELL, CORE, PROCESSORS, REGISTERS_BYTES
from tilewright.host.runtime.driver import WINDOW_BYTES
from tilewright.sim.synth import bitstream
from tilewright.sim.synth.core_wrapper import top_ports, wrapper
from tilewright.sim.tools.yosys import rtl_parameters
from tilewright.sim.verilator import pynq_simulation
from tilewright.sim.verilator.build import read_manifest

TINY = load_hwconfig("tiny-4x4")


def project(
    folder: Path, board: str = "pynq-z2", hw: HwConfig = TINY, flow: str = "memory"
) -> Path:
    bitstream.write_project(hw, load_board(board), load_vivado_target(board), folder, flow=flow)
    return folder


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A project of every board that comes with Tilewright."""
    return {name: project(tmp_path_factory.mktemp(name), name) for name in named_boards()}


def run(folder: Path, **conditions: object) -> Vivado:
    vivado = Vivado(folder, **conditions)  # type: ignore[arg-type]  # any mapping
    vivado.run()
    return vivado


def design_of(vivado: Vivado) -> Design:
    assert vivado.design is not None
    return vivado.design


# -- what is built --------------------------------------------------------------------------


@pytest.mark.parametrize("boards", [False, True], ids=["no-board-files", "board-files"])
@pytest.mark.parametrize("name", named_boards())
def test_the_scripts_build_every_board(projects, tmp_path, name, boards):
    folder = shutil.copytree(projects[name], tmp_path / "p")
    vivado = run(folder, boards=boards)
    built = read_bitstream_manifest(folder / "tilewright.yaml")
    built.check_files()
    board = load_board(name)
    assert (built.board, built.part, built.hw) == (name, board.part, TINY)
    assert built.clock_mhz == pytest.approx(board.clock_mhz, rel=0.07)
    assert built.utilisation == {"lut": 20123, "ff": 15001, "bram36": 130.5, "dsp": 210}
    assert (folder / "tilewright.hwh").read_text() == "<stub/>", "not SmartConnect's own"
    assert design_of(vivado).saved


@pytest.mark.parametrize("name", often("boards in projects", named_boards(), 3))
def test_a_project_on_disk_builds_the_same(projects, tmp_path, name):
    usual = run(shutil.copytree(projects[name], tmp_path / "usual"))
    vivado = run(project(tmp_path / "p", name, flow="project"))
    files = [folder / "tilewright.yaml" for folder in (tmp_path / "usual", tmp_path / "p")]
    built, expected = (yaml.safe_load(file.read_text()) for file in files)
    assert (built.pop("flow"), expected.pop("flow")) == ("memory", "project")
    assert built == expected
    assert design_of(vivado).assigned == design_of(usual).assigned
    read_bitstream_manifest(tmp_path / "p" / "tilewright.yaml").check_files()
    assert "write_bitstream" not in vivado.called, "the run wrote it"
    run(tmp_path / "p")  # over what the first left


@pytest.mark.parametrize("name", ["synth_1", "impl_1"])
def test_a_run_that_failed_is_named_and_leaves_no_bitstream(tmp_path, name):
    with pytest.raises(ScriptError, match=rf"run {name}: {name} ERROR; read .*runme\.log"):
        run(project(tmp_path, flow="project"), failing_run=name)
    assert not list(tmp_path.glob("tilewright.[bhy]*"))


def test_a_project_on_disk_is_held_to_timing_too(tmp_path):
    with pytest.raises(ScriptError, match="timing is not met: setup"):
        run(project(tmp_path, flow="project"), setup_slack=-0.1)
    assert not list(tmp_path.glob("tilewright.[bhy]*"))


@pytest.mark.parametrize("size", [0, 1, 55, 56, 63, 64, 65, 119, 120, 4000])
def test_digests_need_no_program(tmp_path, size):
    data = fresh_rng().bytes(size)
    (tmp_path / "data").write_bytes(data)
    said: list[str] = []
    script = f"source {{{bitstream.SCRIPTS}/sha256.tcl}}\nputs [sha256::digest data]"
    run_script(script, tmp_path, [], lambda _, words: said.append(words[-1]) or "")
    assert said == [hashlib.sha256(data).hexdigest()]


def test_nothing_of_the_scripts_is_a_program_of_one_system():
    for script in bitstream.SCRIPTS.glob("*.tcl"):
        assert not re.search(r"\bexec\b", script.read_text(encoding="utf-8")), script


@pytest.mark.parametrize("name", named_boards())
def test_the_address_map_is_what_the_driver_expects(projects, tmp_path, name):
    vivado = run(shutil.copytree(projects[name], tmp_path / "p"))
    target = load_vivado_target(name)
    assert design_of(vivado).cells[CELL].vlnv == CORE, "what the driver looks for"
    assigned = design_of(vivado).assigned
    registers = assigned.pop(("processor/Data", "accelerator/s_axil/reg0"))
    assert registers == (target.registers_base, REGISTERS_BYTES)
    assert registers[1] >= WINDOW_BYTES
    assert list(assigned.values()) == [(0, target.memory_bytes)]
    assert load_board(name).cpu.contiguous_bytes <= target.memory_bytes


def test_the_simulated_board_is_what_the_bitstream_of_a_zynq_7000_is():
    assert load_vivado_target("pynq-z2").registers_base == pynq_simulation.WINDOW_BASE
    assert "tilewright" in CORE, "how the driver tells it from other IP"
    assert WINDOW_BYTES <= REGISTERS_BYTES


@pytest.mark.parametrize("name", named_boards())
def test_the_port_and_the_clock_are_those_of_the_board(projects, tmp_path, name):
    design = design_of(run(shutil.copytree(projects[name], tmp_path / "p")))
    board = load_board(name)
    processor = design.cells["processor"]
    port = processor.interfaces()[design.links["to_dram/M00_AXI"].split("/")[1]]
    assert port.width == board.axi_data_bits
    assert port.protocol == ("AXI3" if board.axi_data_bits == 64 else "AXI4")
    assert float(processor.values[processor.ip["clock_property"]]) == board.clock_mhz


@pytest.mark.parametrize(
    "hw",
    often(
        "ports",
        [
            pytest.param(hw, id=hw.name[:6])
            for hw in (
                load_hwconfig("pynq-16x16"),
                load_hwconfig("zu-32x32"),
                HwConfig(name="odd (name) @x=+*:,", axi_data_bits=32, axi_burst_beats=4),
                HwConfig(
                    name="narrow", block_in=8, block_out=32, axi_data_bits=32, mac_lut_columns=3
                ),
            )
        ],
        2,
    ),
)
def test_any_configuration_that_the_port_takes_is_built(tmp_path, hw):
    board = "zcu104" if hw.axi_data_bits == 128 else "pynq-z2"
    vivado = run(project(tmp_path, board, hw))
    assert read_bitstream_manifest(tmp_path / "tilewright.yaml").hw == hw
    assert vivado.core is not None
    assert vivado.core.interfaces["m_axi"].signals["WDATA"][2] == hw.axi_data_bits


def test_a_configuration_with_a_wider_port_or_longer_bursts_is_refused(tmp_path):
    for changes in ({"axi_data_bits": 128}, {"axi_burst_beats": 32}):
        with pytest.raises(ConfigError, match="must be at most") as caught:
            project(tmp_path, hw=HwConfig(**changes))
        assert caught.value.field in changes


def test_the_hwh_is_found_where_newer_releases_put_it(tmp_path):
    run(project(tmp_path), outputs=".gen/sources_1/bd")
    read_bitstream_manifest(tmp_path / "tilewright.yaml").check_files()
    assert (tmp_path / "tilewright.hwh").read_text() == "<stub/>"
    run(tmp_path, outputs=".gen/sources_1/bd")  # over what the first left


def test_the_manifest_has_the_clock_that_the_plls_make(tmp_path):
    run(project(tmp_path, "zcu104"))
    built = read_bitstream_manifest(tmp_path / "tilewright.yaml")
    assert built.clock_mhz == 187.5  # 200 is planned; 1500 / 8


@pytest.mark.parametrize("kind", ["setup", "hold"])
def test_negative_slack_leaves_no_bitstream_and_names_the_worst_path(tmp_path, kind):
    run(project(tmp_path))
    slack = {f"{kind}_slack": -1.5}
    with pytest.raises(ScriptError) as caught:
        run(tmp_path, **slack)
    text = str(caught.value)
    assert f"timing is not met: {kind} slack -1.500 ns at 100.000 MHz" in text
    assert "u_gemm/a_q_reg[0]/C to" in text
    assert (tmp_path / "reports/worst_path.txt").is_file()
    assert not list(tmp_path.glob("tilewright.[bhy]*")), "of an earlier build"
    if kind == "setup":
        assert "--clock 86" in text  # 1000 / 11.5


@pytest.mark.parametrize("name", ["work", "reports", ".gen", ".srcs", "tilewright.bit"])
def test_a_build_removes_nothing_that_no_build_made(projects, tmp_path, name):
    folder = shutil.copytree(projects["pynq-z2"], tmp_path / "p")
    (folder / name).mkdir()
    (folder / name / "mine").write_text("mine")
    with pytest.raises(ScriptError, match=f"not of an earlier build here: {re.escape(name)}"):
        run(folder)
    assert (folder / name / "mine").read_text() == "mine"


def test_what_an_earlier_project_left_is_replaced(tmp_path):
    project(tmp_path)
    (tmp_path / "rtl" / "old.sv").write_text("module old; endmodule")
    listing = tmp_path / ".tilewright"  # of a version whose RTL had a file more
    listing.write_text(f"{listing.read_text()}rtl/old.sv\n")
    project(tmp_path, "zcu104")
    assert not (tmp_path / "rtl" / "old.sv").exists()
    names = {path.name for path in (tmp_path / "rtl").iterdir()}
    assert names == {path.name for path in read_manifest()}


def test_the_wrapper_reads_the_header_as_verilator_does(projects, tmp_path):
    vivado = run(shutil.copytree(projects["pynq-z2"], tmp_path / "p"))
    source = next(p for p in read_manifest() if p.name == "tilewright_top.sv").read_text()
    ports = top_ports(source, rtl_parameters(TINY))
    assert vivado.core is not None
    assert vivado.core.ports == {port.pin: (port.direction, port.width) for port in ports}
    for parameter in rtl_parameters(TINY):
        assert re.search(rf"\.{parameter}\(\S+\)", wrapper(TINY, source))


def test_a_port_of_no_interface_is_refused():
    source = next(p for p in read_manifest() if p.name == "tilewright_top.sv").read_text()
    with pytest.raises(BuildError, match="belongs to no interface"):
        wrapper(TINY, source.replace("irq_o", "alarm_o"))
    with pytest.raises(BuildError, match="no parameter BlockIn"):
        wrapper(TINY, source.replace("BlockIn ", "BlockInn "))


# -- what is found --------------------------------------------------------------------------

RTL = (
    ("rtl/tilewright_top.sv", "s_axil_wvalid,", "s_axil_wvld,", "the RTL is refused"),
    ("rtl/tilewright_top.sv", "BlockOut         = 16", "BlockOt = 16", "the RTL is refused"),
    ("rtl/tilewright_top.sv", "m_axi_awaddr,", "m_axi_awadr,", "the RTL is refused"),
    ("rtl/tilewright_top.sv", "[             39:0] m_axi_awaddr", "[31:0] m_axi_awaddr", "refused"),
    ("tilewright.v", ".BlockOut(", ".BlockOt(", "the RTL is refused"),
    ("tilewright.v", ".irq_o(irq)", ".irq(irq)", "the RTL is refused"),
    ("tilewright.v", "m_axi AWVALID", "m_axi AWVLD", "no AXI signal AWVLD"),
    ("tilewright.v", "PROTOCOL AXI4LITE", "PROTOCOL AXI5", "no protocol AXI5"),
    ("tilewright.v", "NUM_READ_OUTSTANDING", "NUM_READS", "no interface parameter"),
    ("tilewright.v", "m_axi, PROTOCOL AXI4, DATA_WIDTH 64", "m_axi, PROTOCOL AXI4, DATA_WIDTH 32",
     "m_axi_wdata has 64 bits, must have 32"),
    ("tilewright.v", "s_axil:m_axi", "s_axil", "no clock"),
    ("tilewright.v", ":aximm:1.0 s_axil WSTRB", ":aximm:1.0 s_axis WSTRB", "WSTRB is missing"),
)  # fmt: skip
DROPPED = (
    ("block_design.tcl", "accelerator/aclk ", "", "accelerator/aclk is not driven"),
    ("block_design.tcl", " to_dram/aresetn", "", "to_dram/aresetn is not driven"),
    ("block_design.tcl", "wire accelerator/irq", "#", "is not driven"),
    ("block_design.tcl", "link accelerator/m_axi to_dram/S00_AXI\n", "", "does not reach"),
    ("block_design.tcl", "link to_registers/M00_AXI accelerator/s_axil\n", "", "does not reach"),
    ("block_design.tcl", "    lappend readers processor/$pin\n", "", "ACLK is not driven"),
    ("block_design.tcl", "wire processor/$processor::reset", "#", "ext_reset_in is not driven"),
)
WRONG = (
    ("block_design.tcl", "reset/ext_reset_in", "reset/external_reset", "no pins reset/external"),
    ("block_design.tcl", "wire accelerator/irq", "wire accelerator/irq_o", "no pins"),
    ("block_design.tcl", "accelerator/s_axil\n", "accelerator/s_axi\n", "no intf_pins"),
    ("block_design.tcl", "accelerator/m_axi to_dram", "accelerator/s_axil to_dram", "already"),
    ("block_design.tcl", "wire reset/peripheral_aresetn", "wire processor/$processor::clock",
     "is driven by clock"),
    ("block_design.tcl", "CONFIG.NUM_MI", "CONFIG.NUM_MASTERS", "no property CONFIG.NUM_MASTERS"),
    ("block_design.tcl", "-offset $settings(registers_base)", "-offset 0x83C00000", "no window"),
    ("block_design.tcl", "-offset $settings(memory_base)", "-offset 0x10000000", "multiple"),
    ("block_design.tcl", "-range $settings(memory_bytes)", "-range 0x40000000", "exceeds"),
    ("block_design.tcl", "-range $settings(registers_bytes)", "-range 0x10000", "exceeds"),
    ("block_design.tcl", "file mkdir work/design", "", "no folder work/design"),
    ("block_design.tcl", "work/ip]", "work/ips]", "no packaged IP"),
    ("block_design.tcl", "tilewright:core:tilewright:1.0", "tilewright:core:tilewright:2", "no IP"),
    ("block_design.tcl", "validate_bd_design\n", "", "not validated"),
    ("block_design.tcl", "-target_address_space", "-target_space", "no option -target_space"),
    ("processor_zynq7000.tcl", "PCW_USE_S_AXI_HP0 1", "PCW_USE_S_AXI_HP_0 1", "no property"),
    ("processor_zynq7000.tcl", "PCW_USE_S_AXI_HP0 1", "PCW_USE_S_AXI_HP0 2", "cannot be 2"),
    ("processor_zynq7000.tcl", "PCW_USE_S_AXI_HP1 0", "PCW_USE_S_AXI_HP1 1", "is not driven"),
    ("processor_zynq7000.tcl", "HP0_DDR_LOWOCM", "HP0_DDR_LOW", "no addr_segs"),
    ("processor_zynq7000.tcl", "FIXED_IO, DDR", "FIXED_IO", "no automation make_external"),
    ("settings.tcl", "settings(port_bits) 64", "settings(port_bits) 128", "cannot be 128"),
    ("settings.tcl", "settings(clock_mhz) 100", "settings(clock_mhz) fast", "must be from"),
    ("settings.tcl", "rtl/tw_mac.sv", "rtl/tw_macs.sv", "no file rtl/tw_macs.sv"),
    ("settings.tcl", "xc7z020clg400-1", "xc7z020clg400-9", "no part"),
    ("settings.tcl", "settings(strategy) Explore", "settings(strategy) Explored", "cannot be"),
    ("settings.tcl", "settings(processor) zynq7000", "settings(processor) z", "processor_z.tcl"),
    ("implement_memory.tcl", "opt_design -directive", "opt_design -plan", "no option -plan"),
    ("implement_memory.tcl", "route_design", "rout_design", "invalid command name"),
    ("implement_memory.tcl", "read_xdc tilewright.xdc", "read_xdc tilewrite.xdc", "no file"),
    ("implement_memory.tcl", "synth_checkpoint_mode None", "synth_checkpoint_mode Nil",
     "cannot be Nil"),
    ("tilewright.xdc", "-to [get_pins", "-too [get_pins", "no option -too"),
    ("package_core.tcl", "-taxonomy", "-taxonomie", "no option -taxonomie"),
    ("package_core.tcl", "ipx::save_core $core", "", "no packaged IP"),
    ("package_core.tcl", "set_property top tilewright", "set_property top tilewrite", "no module"),
)  # fmt: skip


def mutated(origin: Path, folder: Path, file: str, old: str, new: str) -> Path:
    shutil.copytree(origin, folder)
    text = (folder / file).read_text(encoding="utf-8")
    assert old in text
    (folder / file).write_text(text.replace(old, new, 1), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    often("seeded faults", starmap(pytest.param, [*RTL, *DROPPED, *WRONG]), 8),
)
def test_a_seeded_fault_is_found(projects, tmp_path, file, old, new, told):
    folder = mutated(projects["pynq-z2"], tmp_path / "p", file, old, new)
    with pytest.raises(ScriptError, match=re.escape(told)):
        run(folder)


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        ("block_design.tcl", "        exclude_bd_addr_seg", "#", "neither assigned"),
        ("block_design.tcl", "segments/*", "segment/*", "can't read"),
        ("processor_zynqmp.tcl", "M_AXI_GP2 0", "M_AXI_GP2 1", "maxihpm0_lpd_aclk is not driven"),
        ("processor_zynqmp.tcl", "saxihp0_fpd_aclk", "saxihp0_aclk", "no pins"),
        ("processor_zynqmp.tcl", "PSU__USE__IRQ0", "PSU__USE_IRQ0", "no property"),
        ("processor_zynqmp.tcl", "dram HP0_DDR_LOW", "dram HP0_LPS_OCM", "exceeds"),
        ("settings.tcl", "0xa0000000", "0x43c00000", "no window"),
        ("settings.tcl", "settings(port_bits) 128", "settings(port_bits) 256", "cannot be 256"),
    ],
)
def test_a_seeded_fault_is_found_on_ultrascale(projects, tmp_path, file, old, new, told):
    folder = mutated(projects["zcu104"], tmp_path / "p", file, old, new)
    with pytest.raises(ScriptError, match=re.escape(told)):
        run(folder)


CONDITIONS: tuple[dict[str, object], ...] = (
    {},
    {"boards": True, "outputs": ".gen/sources_1/bd"},
    {"setup_slack": -1.0},
    {"flow": "project"},
    {"flow": "project", "failing_run": "synth_1"},
)
"""With and without board files, in an older and a newer release, with timing that is not met, and
in a project on disk."""


def outcome(folder: Path, conditions: dict[str, object]) -> object:
    """What comes out of a run: the manifest, or the error."""
    flow = conditions.get("flow", "memory")
    settings = folder / bitstream.SETTINGS
    text = settings.read_text(encoding="utf-8")
    settings.write_text(re.sub(r"(?<=settings\(flow\) )\w+", str(flow), text), encoding="utf-8")
    try:
        run(folder, **{key: value for key, value in conditions.items() if key != "flow"})
    except ScriptError as error:
        return str(error).replace(str(folder), "")
    return yaml.safe_load((folder / "tilewright.yaml").read_text(encoding="utf-8"))


# Words that are free: the text of messages that no fault of the scripts brings up, names of files
# that nobody reads, names that only people read, and rows of reports of another family.
_FREE = re.compile(
    r'error "|puts "|puts \$file "#|file delete|runme|-jobs|-force system|reports/|routed\.dcp'
    r"|display_name|/UserIP|set made|set found|\\$found|create_project -force"
    r"|create_bd_design|NAME =~|rename -force|CLB"
    r"|exclude_bd|segments/\*"
)


def words_of(script: Path) -> list[int]:
    """Where the words of a script end, without comments and free ones."""
    ends, position = [], 0
    for line in script.read_text(encoding="utf-8").splitlines(keepends=True):
        if not line.lstrip().startswith("#") and not _FREE.search(line):
            ends += [position + word.end() for word in re.finditer(r"[A-Za-z_]\w*", line)]
        position += len(line)
    return ends


@pytest.mark.parametrize("number", [24, pytest.param(150, marks=pytest.mark.slow)])
def test_a_misspelt_word_is_found(projects, tmp_path, number):
    origin = projects["pynq-z2"]
    folder = shutil.copytree(origin, tmp_path / "usual")
    usual = [outcome(folder, conditions) for conditions in CONDITIONS]
    scripts = [p for p in sorted(origin.iterdir()) if p.suffix in {".tcl", ".xdc"}]
    # Of a loop without its end there is no outcome; digests have a test of their own.
    others = [p for p in scripts if p.name not in {"settings.tcl", "sha256.tcl"}]
    places = [(p, end) for p in others for end in words_of(p)]
    assert len(places) > 500
    order = fresh_rng().permutation(len(places))[:number]
    missed = []
    for each in order:
        script, end = places[each]
        shutil.rmtree(tmp_path / "p", ignore_errors=True)  # what a wrong build.tcl left
        folder = shutil.copytree(origin, tmp_path / "p")
        text = script.read_text(encoding="utf-8")
        (folder / script.name).write_text(text[:end] + "x" + text[end:], encoding="utf-8")
        if all(outcome(folder, c) == known for c, known in zip(CONDITIONS, usual, strict=True)):
            missed.append(f"{script.name}: ...{text[max(0, end - 40) : end]}x")
    assert not missed


def test_the_commands_in_the_data_are_those_that_the_stub_answers_and_the_scripts_use(projects):
    text = "".join(
        path.read_text(encoding="utf-8")
        for folder in projects.values()
        for path in folder.iterdir()
        if path.suffix in {".tcl", ".xdc"}
    )
    # get_bd_pins and its like are spelt get_bd_$kind where a name is looked up.
    used = {name for name in stub.commands() if name in text or name.startswith("get_bd_")}
    assert used == set(stub.commands())
    assert not [n for n in stub.commands() if not hasattr(Vivado, "_" + n.replace("::", "_"))]


# -- Tcl ------------------------------------------------------------------------------------


def test_tclsh_runs_the_scripts_too(projects, tmp_path):
    tclsh = shutil.which("tclsh")
    if tclsh is None:
        pytest.skip("no tclsh on PATH; Python's Tcl has run them")
    folder = shutil.copytree(projects["pynq-z2"], tmp_path / "p")
    vivado = Vivado(folder)
    run_in_tclsh(tclsh, "source build.tcl", folder, stub.commands(), vivado.answer)
    assert read_bitstream_manifest(folder / "tilewright.yaml").hw == TINY
    with pytest.raises(ScriptError, match="invalid command name"):
        run_in_tclsh(tclsh, "source build.tcl; nothing_like_it", folder, [], vivado.answer)


@pytest.mark.parametrize(
    "text",
    ["plain", "two words", "", "a{b", "}{", 'q"uote', "$x [y]", "back\\slash", "l\n{i}ne", "#"],
)
def test_a_tcl_word_is_one_word_whatever_is_in_it(tmp_path, text):
    said: list[str] = []
    script = f"set settings(a) {bitstream.tcl_word(text)}\nputs $settings(a)"
    run_script(script, tmp_path, [], lambda _, words: said.append(words[-1]) or "")
    assert said == [text]


LETTERS = string.printable + "\0\x1a\x1b\x7f\x85äéß€\u2028\u202e\ufeff"


@pytest.mark.skipif(shutil.which("tclsh") is None, reason="no tclsh on PATH")
@pytest.mark.parametrize("source", [True, False], ids=["settings", "list"])
def test_any_text_is_one_word_to_tclsh(tmp_path, source):
    """Tcl reads `\\r\\n` in a file as one letter, and nothing behind the letter 0x1a."""
    rng = fresh_rng()
    texts = ["".join(rng.choice(list(LETTERS), int(rng.integers(1, 12)))) for _ in range(300)]
    texts += ["\r", "a\\\n", "\\", "{\\}", "x\x1by", "\x1a", "[exit 3]\r[exit 4]", "a\\ [exit 3]"]
    words = [bitstream.tcl_word(text) for text in texts]
    if source:
        lines = [f"set settings({n}) {word}" for n, word in enumerate(words)]
        shown = [f"$settings({n})" for n in range(len(words))]
    else:
        lines = [f"set all {bitstream.tcl_word(' '.join(words))}"]
        shown = [f"[lindex $all {n}]" for n in range(len(words))]
    (tmp_path / "settings.tcl").write_bytes("\n".join([*lines, ""]).encode())
    puts = [f"puts [binary encode hex [encoding convertto utf-8 {one}]]" for one in shown]
    script = "\n".join([f"source {{{tmp_path}/settings.tcl}}", *puts, ""])
    done = subprocess.run(
        ["tclsh"], input=script, capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    # Tcl holds NUL as two bytes within, and writes it as one or as those.
    got = [bytes.fromhex(line).replace(b"\xc0\x80", b"\0") for line in done.stdout.splitlines()]
    assert got == [text.encode() for text in texts]


EVIL = ['a" [exec touch x]', "a\\ [x]", "$x", "x\r[y]", "../../x", "a/b", "..", "", "=1+1", "-x",
        "<b>", "a\x1b[2J", "x" * 101, "a;b", "{", None, 7]  # fmt: skip


@pytest.mark.parametrize("name", EVIL)
def test_names_that_could_be_more_are_refused(name):
    board, target = load_board("pynq-z2"), load_vivado_target("pynq-z2")
    for make in (
        lambda: TINY.with_(name=name),
        lambda: replace(board, name=name),
        lambda: replace(board, part=name),
        lambda: replace(board.memory, name=name),
        lambda: replace(board.cpu, name=name),
        lambda: replace(target, board_part=name),
        lambda: replace(target, processor_properties={name: 1}),
        lambda: replace(target, processor_properties={"PCW_X": f"{name}$"}),
    ):
        with pytest.raises(ConfigError):
            make()


# -- without Vivado -------------------------------------------------------------------------


def test_without_vivado_the_message_says_how_to_go_on(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match="not on PATH") as caught:
        bitstream.find_vivado()
    assert "--dry-run" in caught.value.remedy


FAKE = """#!/bin/sh
echo "tilewright: package_core"
{}
"""


def fake_vivado(tmp_path: Path, body: str) -> Path:
    path = tmp_path / "vivado"
    path.write_text(FAKE.format(body), encoding="utf-8")
    path.chmod(0o755)
    return path


def test_a_failed_build_tells_the_error_of_the_scripts(tmp_path):
    entry = project(tmp_path / "p") / bitstream.ENTRY
    vivado = fake_vivado(
        tmp_path, "echo 'tilewright error: timing is not met: setup'; seq 30; exit 1"
    )
    steps: list[str] = []
    with pytest.raises(BuildError, match="timing is not met") as caught:
        bitstream.build_bitstream(vivado, entry, steps.append)
    assert "vivado.log" in caught.value.remedy
    assert "30" not in caught.value.rule
    assert steps[0] == "package_core"


def test_a_build_is_checked_against_its_manifest(tmp_path):
    folder = project(tmp_path / "p")
    run(folder)
    built = bitstream.build_bitstream(
        fake_vivado(tmp_path, "exit 0"), folder / bitstream.ENTRY, lambda _: None
    )
    assert built.clock_mhz == 100
    (folder / "tilewright.bit").write_bytes(b"another")
    with pytest.raises(ConfigError, match="SHA-256"):
        built.check_files()


def test_each_processor_has_its_script():
    found = {path.stem for path in bitstream.SCRIPTS.glob("processor_*.tcl")}
    assert found == {f"processor_{name}" for name in PROCESSORS}
