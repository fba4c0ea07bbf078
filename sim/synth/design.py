# SPDX-License-Identifier: Apache-2.0
"""What is synthesised: one accelerator, or a system of several."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tilewright.host.common.yaml_files import named_file, read_yaml_mapping
from tilewright.host.machine.area import Area, estimate, port_shortfalls, resource_shortfalls
from tilewright.host.machine.board import Board
from tilewright.host.machine.hwconfig import CONFIG_DIR, HwConfig, load_hwconfig, named_configs
from tilewright.host.machine.system_config import SystemConfig, load_system, named_systems
from tilewright.sim.tools.yosys import copy_sources, read_command
from tilewright.sim.verilator.build import TOP, read_manifest
from tilewright.sim.verilator.system_top import TOP as SYSTEM_TOP
from tilewright.sim.verilator.system_top import system_sources, system_top


@dataclass(frozen=True, kw_only=True)
class Design:
    """RTL with its parameters, and what is known of it before any synthesis."""

    name: str  # of the configuration or the system
    top: str  # its top module
    read: str  # the pass of Yosys that reads it from a folder that `put` has filled
    sources: tuple[Path, ...]  # files of the RTL
    written: Mapping[str, str] = field(default_factory=dict)  # generated files, text by name
    cores: tuple[HwConfig, ...]  # the configuration of each core
    estimate: Area  # resources as tuners take them

    @property
    def rtl(self) -> str:
        """Identity of the RTL sources, for records of what was synthesised."""
        written = {name: text.encode() for name, text in self.written.items()}
        return _identity({**_contents(self.sources), **written})

    def put(self, work: Path) -> None:
        """Write every file of the RTL into a working folder."""
        copy_sources(self.sources, work)
        for name, text in self.written.items():
            (work / name).write_text(text, encoding="utf-8")

    def shortfalls(self, area: Area, board: Board) -> list[str]:
        """What it needs beyond a board's resources and the width and bursts of its ports."""
        return [*resource_shortfalls(area, board), *self.port_shortfalls(board)]

    def port_shortfalls(self, board: Board) -> list[str]:
        """What its cores need beyond the width and the bursts of a board's ports."""
        if len(self.cores) == 1:
            return port_shortfalls(self.cores[0], board)
        return [
            f"core {number}: {text}"
            for number, core in enumerate(self.cores)
            for text in port_shortfalls(core, board)
        ]


def rtl_digest(manifest: Path | None = None) -> str:
    """`Design.rtl` of one accelerator; by default of the RTL that is built."""
    return _identity(_contents(read_manifest(manifest)))


def accelerator(hw: HwConfig, manifest: Path | None = None) -> Design:
    """One accelerator, with its own MAC style; by default of the RTL that is built."""
    sources = read_manifest(manifest)
    return Design(
        name=hw.name,
        top=TOP,
        read=read_command(hw, TOP, sources),
        sources=tuple(sources),
        cores=(hw,),
        estimate=estimate(hw),
    )


def system_design(system: SystemConfig) -> Design:
    """A system: its cores, each with its own MAC style, and all that stands around them."""
    sources = system_sources()
    written = {f"{SYSTEM_TOP}.sv": system_top(system)}
    files = [*sources, *(Path(name) for name in written)]
    return Design(
        name=system.name,
        top=SYSTEM_TOP,
        read=read_command(None, SYSTEM_TOP, files),
        sources=tuple(sources),
        written=written,
        cores=tuple(core.hw for core in system.cores),
        estimate=estimate(system),
    )


def load_design(name_or_path: str) -> Design:
    """A named configuration or system, or a YAML file of one; that of a system has ``cores``."""
    systems = named_systems()
    if name_or_path in systems:
        return system_design(load_system(name_or_path))
    what = "configuration or system"
    path = named_file(name_or_path, CONFIG_DIR, what, "hw", (*named_configs(), *systems))
    if "cores" in read_yaml_mapping(path, f"a {what}"):
        return system_design(load_system(path))
    return accelerator(load_hwconfig(name_or_path))


def _contents(sources: Iterable[Path]) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sources}


def _identity(contents: Mapping[str, bytes]) -> str:
    state = hashlib.sha256()
    for name, content in contents.items():
        state.update(name.encode() + b"\0" + content + b"\0")
    return state.hexdigest()[:16]
