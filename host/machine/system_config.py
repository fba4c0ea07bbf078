# SPDX-License-Identifier: Apache-2.0
"""`SystemConfig`: several cores, the memory ports behind them and how these are shared.

The RTL is rtl/system/; `host.machine.system_wrapper` writes the top of a system.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.errors import ConfigError, errors_in
from tilewright.host.common.names import check_name
from tilewright.host.common.places import CONSTRAINTS_DIR
from tilewright.host.common.plain_values import check_integer, refuse_unknown
from tilewright.host.common.yaml_files import named_file, read_yaml_mapping
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig

SYSTEM_VERSION: Final = 1
"""Version of a system's register map; part of every system's hash."""

MAX_CORES: Final = 8
MAX_PORTS: Final = 4
MAX_WEIGHT: Final = 15
MAX_WINDOW: Final = 65535
MAX_IN_FLIGHT: Final = 32
"""Bursts of a direction that an arbiter can keep in flight."""

QUEUE_DEPTHS: Final = (2, 4, 8, 16)


@dataclass(frozen=True, kw_only=True)
class SystemCore:
    """One core of a system and its share of a memory port.

    Attributes:
        read_budget, write_budget: beats a window that it may ask for; 0: no limit.
    """

    hw: HwConfig  # its configuration
    port: int = 0  # memory port that it is connected to
    weight: int = 1  # bursts in a row that it gets while others of its port want the bus, 1 to 15
    read_budget: int = 0
    write_budget: int = 0


@dataclass(frozen=True, kw_only=True)
class SystemConfig:
    """One legal system; construction refuses an illegal one.

    Weights, budgets, window and limits are what registers hold after a reset; the host may change
    them while programs run.

    Attributes:
        port_reads, port_writes: bursts in flight of a port, 1 to 32.

    Example:
        >>> from tilewright.host.machine.system_config import load_system
        >>> system = load_system("big-little")
        >>> [core.hw.macs_per_cycle for core in system.cores]
        [256, 16]
    """

    name: str = "custom"  # label, no part of the hash
    cores: tuple[SystemCore, ...]  # 1 to 8 of them; a core's number is its place here
    memory_ports: int = 1  # AXI4 ports to DRAM, 1 to 4. Each has a core
    window: int = 1024  # cycles in which a budget counts, 16 to 65535
    port_reads: int = 16
    port_writes: int = 16
    queue_depth: int = 8  # descriptors, and completions, that a core's queue holds: 2, 4, 8 or 16

    def __post_init__(self) -> None:
        """Check every rule in order."""
        check_name(self.name, "name")
        if not 1 <= len(self.cores) <= MAX_CORES:
            raise ConfigError(
                f"a system has 1 to {MAX_CORES} cores",
                field="cores",
                value=len(self.cores),
                remedy="list that many configurations",
            )
        for name, low, high in (
            ("memory_ports", 1, min(MAX_PORTS, len(self.cores))),
            ("window", 16, MAX_WINDOW),
            ("port_reads", 1, MAX_IN_FLIGHT),
            ("port_writes", 1, MAX_IN_FLIGHT),
        ):
            check_integer(name, getattr(self, name), low, high)
        if type(self.queue_depth) is not int or self.queue_depth not in QUEUE_DEPTHS:
            raise ConfigError(
                f"must be one of {', '.join(map(str, QUEUE_DEPTHS))}",
                field="queue_depth",
                value=self.queue_depth,
                remedy="8 serves most hosts",
            )
        for number, core in enumerate(self.cores):
            self._check_core(number, core)
        for port in range(self.memory_ports):
            self._check_port(port)

    def _check_core(self, number: int, core: SystemCore) -> None:
        place = f"cores[{number}]"
        check_integer(f"{place}.port", core.port, 0, self.memory_ports - 1)
        check_integer(f"{place}.weight", core.weight, 1, MAX_WEIGHT)
        for name in ("read_budget", "write_budget"):
            value = getattr(core, name)
            check_integer(f"{place}.{name}", value, 0, MAX_WINDOW)
            if value > self.window:
                raise ConfigError(
                    f"a port moves at most one beat a cycle, so that a budget above the window of "
                    f"{self.window} cycles limits nothing",
                    field=f"{place}.{name}",
                    value=value,
                    remedy="0 says that there is no limit",
                )

    def _check_port(self, port: int) -> None:
        numbers = self.cores_of(port)
        if not numbers:
            raise ConfigError(
                "every memory port must have a core",
                field="memory_ports",
                value=f"port {port} has none",
                remedy="lower memory_ports or give a core that port",
            )
        first = self.cores[numbers[0]].hw
        for number in numbers[1:]:
            hw = self.cores[number].hw
            if hw.axi_data_bits != first.axi_data_bits:
                raise ConfigError(
                    f"cores of one memory port must have equal bus widths: an arbiter passes beats "
                    f"on as they are (core {numbers[0]} has {first.axi_data_bits} bits)",
                    field=f"cores[{number}].axi_data_bits",
                    value=hw.axi_data_bits,
                    remedy="give it the same width or a memory port of its own",
                )

    # -- identity ---------------------------------------------------------------------------

    def parameters(self) -> dict[str, Any]:
        """What the RTL of the system is made of, without labels."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "name"}
        own["cores"] = [
            {
                **{f.name: getattr(core, f.name) for f in fields(core)},
                "hw": core.hw.config_hash,
            }
            for core in self.cores
        ]
        return own

    @property
    def config_hash(self) -> int:
        """32-bit identity of the system (a hardware register); labels are no part of it."""
        text = json.dumps({"system": SYSTEM_VERSION, **self.parameters()}, sort_keys=True)
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")

    def cores_of(self, port: int) -> tuple[int, ...]:
        """Numbers of the cores of a memory port, in order."""
        return tuple(n for n, core in enumerate(self.cores) if core.port == port)

    # -- YAML -------------------------------------------------------------------------------

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any]) -> SystemConfig:
        """Build from a mapping (a parsed YAML document)."""
        refuse_unknown(data, [f.name for f in fields(cls)], of="a system")
        cores = data.get("cores")
        if not isinstance(cores, Sequence) or isinstance(cores, str):
            raise ConfigError(
                "must be a list of configurations",
                field="cores",
                value=cores,
                remedy="write '- tiny-4x4' lines",
            )
        return cls(**{**data, "cores": tuple(_core(n, core) for n, core in enumerate(cores))})


def _core(number: int, data: object) -> SystemCore:
    place = f"cores[{number}]"
    if isinstance(data, str):
        data = {"hw": data}
    if not isinstance(data, Mapping) or "hw" not in data:
        raise ConfigError(
            "must be the name of a configuration, or a mapping with one as hw",
            field=place,
            value=data,
            remedy="write '- tiny-4x4' or '- {hw: tiny-4x4, weight: 2}'",
        )
    with errors_in(place):
        base = load_hwconfig(data["hw"])
        shares = {f.name for f in fields(SystemCore)}
        changes = {key: value for key, value in data.items() if key not in shares}
        refuse_unknown(changes, {*base.parameters(), "name"} | shares, of="a core")
        own = {key: value for key, value in data.items() if key in shares and key != "hw"}
        if changes:
            changes.setdefault("name", f"{base.name}-{number}")
        return SystemCore(hw=base.with_(**changes), **own)


SYSTEM_DIR: Final = CONSTRAINTS_DIR / "systems"


def named_systems() -> tuple[str, ...]:
    """Names of the systems that ship with Tilewright."""
    return tuple(sorted(path.stem for path in SYSTEM_DIR.glob("*.yaml")))


def load_system(name_or_path: str | Path | SystemConfig) -> SystemConfig:
    """Load a named system (``dual-tiny``) or a YAML file; a loaded one stays as it is."""
    if isinstance(name_or_path, SystemConfig):
        return name_or_path
    path = named_file(name_or_path, SYSTEM_DIR, "system", "system", named_systems())
    data = read_yaml_mapping(path, "a system")
    data.setdefault("name", path.stem)
    with errors_in(str(path)):
        return SystemConfig.from_mapping(data)


def load_core(name_or_path: str | Path) -> HwConfig:
    """Load a configuration, or that of a core of a system: ``big-little:0``."""
    system, mark, number = str(name_or_path).rpartition(":")
    if not (system and mark and number.isdecimal()):
        return load_hwconfig(name_or_path)
    cores = load_system(system).cores
    if int(number) >= len(cores):
        raise ConfigError(
            f"{system} has cores 0 to {len(cores) - 1}",
            field="core",
            value=int(number),
            remedy=f"{system}:0 is its first",
        )
    return cores[int(number)].hw
