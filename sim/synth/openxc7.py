# SPDX-License-Identifier: Apache-2.0
"""A recipe for a Zynq-7000 with openXC7: Yosys, nextpnr-xilinx, Project X-Ray. Unproven.

None of openXC7 but Yosys comes from a package registry. Its half runs in a test; nobody has placed,
routed or loaded the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tilewright.host.common.errors import ConfigError
from tilewright.host.common.places import RTL_DIR
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.sim.synth.core_wrapper import write_sources
from tilewright.sim.synth.dsp_packing import packing_commands
from tilewright.sim.synth.open_board import SCRIPT, write_script
from tilewright.sim.verilator.rtl_variant import read_manifest

NAME: Final = "openxc7-z7020"
"""What `tilewright bitstream --board` calls it."""
TOP: Final = "zynq_top"
PART: Final = "xc7z020clg400-1"
NETLIST: Final = "tilewright.json"

_PORT: Final = {"axi_data_bits": 64, "axi_burst_beats": 16}
"""S_AXI_HP0 (Xilinx UG585, chapter 5); the bus must be as wide, a burst may be shorter."""


def shell_rtl() -> list[Path]:
    """What stands around the accelerator, in dependency order."""
    return read_manifest(RTL_DIR / "boards" / "zynq7000.f")


def openxc7_passes(names: Sequence[str]) -> list[str]:
    """Passes of Yosys from the files of `write_openxc7_project` to a netlist."""
    flow = f"synth_xilinx -family xc7 -flatten -top {TOP}"
    return [
        # The processing system is a black box of the library.
        "read_verilog -lib +/xilinx/cells_sim.v +/xilinx/cells_xtra.v",
        f"read_slang --top {TOP} {' '.join(names)}",
        *packing_commands(flow),
        f"{flow} -run coarse:",
        f"write_json {NETLIST}",
    ]


def write_openxc7_project(hw: HwConfig, folder: Path) -> Path:
    """Write the folder that openXC7's tools build from."""
    _check_port(hw)
    names = write_sources(hw, shell_rtl(), folder, [SCRIPT])
    passes = "; ".join(openxc7_passes(names))
    return write_script(
        folder,
        hw,
        NAME,
        "Yosys with the plugin slang, nextpnr-xilinx, fasm2frames and xc7frames2bit",
        [
            ': "${CHIPDB:?the chip database of nextpnr-xilinx, a .bin file of the part}"',
            ': "${XRAY_DB:?prjxray-db/zynq7}"',
            f"yosys -m slang -p '{passes}'",
            f'nextpnr-xilinx --chipdb "$CHIPDB" --json {NETLIST} --fasm tilewright.fasm',
            f'fasm2frames --part {PART} --db-root "$XRAY_DB" tilewright.fasm > tilewright.frames',
            " ".join(
                [
                    *("xc7frames2bit", "--part_name", PART),
                    *("--part_file", f'"$XRAY_DB/{PART}/part.yaml"'),
                    *("--frm_file", "tilewright.frames", "--output_file", "tilewright.bit"),
                ]
            ),
        ],
    )


def _check_port(hw: HwConfig) -> None:
    bits, beats = _PORT["axi_data_bits"], _PORT["axi_burst_beats"]
    if hw.axi_data_bits != bits:
        raise ConfigError(
            f"must be {bits}, as the port S_AXI_HP0",
            field="axi_data_bits",
            value=hw.axi_data_bits,
            remedy=f"use a configuration with axi_data_bits: {bits}",
        )
    if hw.axi_burst_beats > beats:
        raise ConfigError(
            f"must be at most {beats}, as the port S_AXI_HP0",
            field="axi_burst_beats",
            value=hw.axi_burst_beats,
            remedy=f"use a configuration with axi_burst_beats: {beats}",
        )
