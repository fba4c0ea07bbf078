# SPDX-License-Identifier: Apache-2.0
import json
import re
import shlex
import subprocess
from collections import Counter

import pytest

from tilewright.host.common.errors import ConfigError
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.synth.core_wrapper import write_sources
from tilewright.sim.synth.dsp_packing import check_packing
from tilewright.sim.synth.openxc7 import (
    NETLIST,
    PART,
    openxc7_passes,
    shell_rtl,
    write_openxc7_project,
)
from tilewright.sim.tools.yosys import run_yosys

TINY = load_hwconfig("tiny-4x4")


def test_the_folder_holds_all_that_its_script_names(tmp_path):
    script = write_openxc7_project(TINY, tmp_path)
    assert subprocess.run(["sh", "-n", script], check=False).returncode == 0
    text = script.read_text()
    named = re.findall(r"(?:rtl/)?\w+\.s?v\b", text[: text.index("synth_xilinx")])
    written = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*v")}
    assert {name for name in named if name.startswith("rtl/")} | {"tilewright.v"} == written
    tools = [shlex.split(line)[0] for line in text.splitlines() if re.match(r"[a-z]\w*[ -]", line)]
    assert tools[2:] == ["yosys", "nextpnr-xilinx", "fasm2frames", "xc7frames2bit"]
    assert f"{PART}/part.yaml" in text


@pytest.mark.parametrize(("field", "value"), [("axi_data_bits", 32), ("axi_burst_beats", 32)])
def test_a_bus_that_the_port_does_not_have_is_refused(tmp_path, field, value):
    with pytest.raises(ConfigError, match=f"{field}: must be .* as the port S_AXI_HP0"):
        write_openxc7_project(TINY.with_(name="other", **{field: value}), tmp_path / "p")
    assert not (tmp_path / "p").exists()


@pytest.mark.slow
def test_yosys_makes_its_half(tmp_path):
    """Every cell is one of the device's, and the processing system is connected."""
    run_yosys(openxc7_passes(write_sources(TINY, shell_rtl(), tmp_path)), tmp_path)
    check_packing(tmp_path)
    modules = json.loads((tmp_path / NETLIST).read_text())["modules"]
    top = modules["zynq_top"]
    kinds = Counter(cell["type"] for cell in top["cells"].values())
    assert (kinds["PS7"], kinds["BUFG"]) == (1, 1)
    assert kinds["DSP48E1"] > 0
    assert kinds["RAMB18E1"] + kinds["RAMB36E1"] > 0
    assert not [kind for kind in kinds if kind.startswith("$") and kind != "$scopeinfo"]
    (processing,) = (cell for cell in top["cells"].values() if cell["type"] == "PS7")
    wires = processing["connections"]
    for port in ("MAXIGP0ACLK", "SAXIHP0ACLK", "SAXIHP0ARVALID", "SAXIHP0WVALID"):
        assert isinstance(wires[port][0], int), port
    assert wires["MAXIGP0ACLK"] == wires["SAXIHP0ACLK"]
    assert isinstance(wires["IRQF2P"][0], int)
    assert all(isinstance(bit, int) for bit in wires["SAXIHP0WDATA"])
