# SPDX-License-Identifier: Apache-2.0
"""What the fidelities that share the RTL of the control elaborate.

``rtl`` is the whole design with the sizes of one configuration. ``timing`` leaves out arithmetic
and data, ``dpi`` computes them in C++ (see harness/data_path.h). Both read the sizes that shape
control when a simulation starts, so that one build for a bus width serves every configuration.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tilewright.host.common.errors import ConfigError
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import PARAMETERS, HwConfig

RUNTIME: Final = Path(__file__).resolve().parent / "runtime"
"""SystemVerilog of the general fidelities; no synthesis reads it."""
_SIZES: Final = "tw_sizes.sv"


SIMULATED: Final = (Fidelity.RTL, Fidelity.DPI, Fidelity.TIMING)
"""The fidelities that are Verilator's."""
GENERAL: Final = (Fidelity.DPI, Fidelity.TIMING)
"""Those of which one build serves every configuration of a bus width."""


def elaborated(hw: HwConfig, fidelity: Fidelity) -> HwConfig:
    """The configuration whose parameters a build for ``hw`` gives the top.

    General builds have the widest counters that any legal configuration of the bus needs, and LOAD
    for all forms of weights.
    """
    if fidelity not in SIMULATED:
        raise ConfigError(
            "must be one that Verilator simulates",
            field="fidelity",
            value=fidelity.value,
            remedy=f"use one of {', '.join(SIMULATED)}",
        )
    if fidelity not in GENERAL:
        return hw
    largest = {p.name: p.high for p in PARAMETERS if p.name.endswith("_bytes")}
    return HwConfig(
        name=f"general-axi{hw.axi_data_bits}",
        **largest,
        batch=1,
        block_in=4,
        block_out=64,
        vector_lanes=1,
        axi_data_bits=hw.axi_data_bits,
        axi_burst_beats=64,
        read_outstanding=16,
        write_outstanding=16,
        mac_pipeline=6,
        mac_packed=0,
        mac_lut_columns=0,
        int4_weights=2,
    )


def sources(manifest: Sequence[Path], fidelity: Fidelity) -> list[Path]:
    """The manifest with the files that a fidelity puts in the place of others, or adds."""
    if fidelity not in GENERAL:
        return list(manifest)
    files = [RUNTIME / _SIZES if path.name == _SIZES else path for path in manifest]
    return [*files, *([RUNTIME / "tw_data.sv"] if fidelity is Fidelity.DPI else [])]
