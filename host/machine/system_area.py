# SPDX-License-Identifier: Apache-2.0
"""Resources of a `SystemConfig`: its cores, what each needs around it, and its arbiters.

Cores are estimated as by themselves (`area`). What stands around them are linear models of the LUT
and FF of rtl/system/, taken from Yosys's synthesis of those modules by themselves for xc7. No row
of a whole system is recorded, so every figure here is an estimate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tilewright.host.machine.area import (
    Area,
    Fit,
    estimate,
    port_shortfalls,
    resource_shares,
    resource_shortfalls,
)
from tilewright.host.machine.board import Board
from tilewright.host.machine.system_config import SystemConfig


@dataclass(frozen=True, kw_only=True)
class SurroundModel:
    """Coefficients of the models (counts a unit of the named quantity).

    Attributes:
        fixed: shared page and control port of any system.
        per_core: shared page, queue, scrub and a place in an arbiter of a core.
        per_port: an arbiter.
        per_data_bit: multiplexers of write data for a bit of a core's bus where cores share a port.
    """

    fixed: float
    per_core: float
    per_port: float
    per_data_bit: float


LUT_AROUND: Final = SurroundModel(fixed=130, per_core=1280, per_port=30, per_data_bit=0.6)
FF_AROUND: Final = SurroundModel(fixed=250, per_core=840, per_port=30, per_data_bit=0.0)


def estimate_system(system: SystemConfig) -> Area:
    """Resources of a system: all figures are estimates."""
    cores = [estimate(core.hw) for core in system.cores]
    return Area(
        lut=sum(core.lut for core in cores) + _around(system, LUT_AROUND),
        ff=sum(core.ff for core in cores) + _around(system, FF_AROUND),
        bram36=sum(core.bram36 for core in cores),
        dsp=sum(core.dsp for core in cores),
    )


def fits_system(system: SystemConfig, board: Board) -> Fit:
    """Compare a system with a board's resources and the width and bursts of its ports."""
    area = estimate_system(system)
    problems = resource_shortfalls(area, board)
    for number, core in enumerate(system.cores):
        problems += [f"core {number}: {text}" for text in port_shortfalls(core.hw, board)]
    if problems:
        text = f"{system.name} does not fit {board.name}: {'; '.join(problems)}"
        return Fit(ok=False, text=text, area=area)
    shares = ", ".join(
        f"{name} {value} of {limit}" for name, value, limit in resource_shares(area, board)
    )
    text = f"{system.name} fits {board.name}: {shares} (estimated)"
    return Fit(ok=True, text=text, area=area)


def _around(system: SystemConfig, model: SurroundModel) -> int:
    shared_bits = sum(
        core.hw.axi_data_bits for core in system.cores if len(system.cores_of(core.port)) > 1
    )
    return round(
        model.fixed
        + model.per_core * len(system.cores)
        + model.per_port * system.memory_ports
        + model.per_data_bit * shared_bits
    )
