# SPDX-License-Identifier: Apache-2.0
"""`OpenBoard`: a board without a processor, which open tools build for (constraints/ecp5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from tilewright.host.common.errors import ConfigError
from tilewright.host.common.places import CONSTRAINTS_DIR, RTL_DIR
from tilewright.host.common.yaml_files import read_yaml_mapping
from tilewright.sim.synth.place_route import Conditions
from tilewright.sim.verilator.rtl_variant import read_manifest

FOLDER: Final = CONSTRAINTS_DIR / "ecp5"


@dataclass(frozen=True, kw_only=True)
class OpenBoard:
    """How to build for a board with a Lattice ECP5.

    Attributes:
        name: of the board, of its YAML file, and of its list of RTL files in rtl/boards.
        part: whole name of the device.
        device, speed, package: nextpnr's words for it.
        top: module whose ports are the board's pins.
        clock_mhz: of the oscillator.
        memory_bytes: of the memory for programs, in block RAM.
        constraints: LPF file beside the YAML file.
        program: command that loads ``tilewright.bit``.
        sources: where each figure comes from.
    """

    name: str
    part: str
    device: str
    speed: int
    package: str
    top: str
    clock_mhz: float
    memory_bytes: int
    constraints: str
    program: str
    sources: Mapping[str, str]

    @property
    def conditions(self) -> Conditions:
        """What it is placed for."""
        return Conditions(device=self.device, speed=self.speed, frequency_mhz=self.clock_mhz)

    @property
    def lpf(self) -> Path:
        """Pins and clock."""
        return FOLDER / self.constraints

    def rtl(self) -> list[Path]:
        """What stands around the accelerator, in dependency order."""
        return read_manifest(RTL_DIR / "boards" / f"{self.name}.f")


def named_open_boards() -> tuple[str, ...]:
    """Names of the boards that open tools build for."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


def load_open_board(name: str) -> OpenBoard:
    """One of `named_open_boards`.

    Raises:
        ConfigError: its file cannot be used.
    """
    path = FOLDER / f"{name}.yaml"
    data = read_yaml_mapping(path, "a board")
    wanted = {field.name for field in fields(OpenBoard)} - {"name"}
    if set(data) != wanted:
        raise ConfigError(
            f"must have the keys {', '.join(sorted(wanted))}",
            field=str(path),
            value=", ".join(sorted(set(data) ^ wanted)),
        )
    return OpenBoard(name=name, **data)
