# SPDX-License-Identifier: Apache-2.0
"""`Platform`: cores that share the bandwidth of one memory, read from a YAML file.

::

    clock_mhz: 1000
    bandwidths: [1, 4, 16]
    cores:
      - {architecture: nvdla-like, name: hb, count: 3, l2_bytes: 149504}
      - {hwconfig: pynq-16x16, flexible: true}

A core is an architecture of the mapping model, with its own values for some fields, or a
configuration of Tilewright's accelerator.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.errors import ConfigError, errors_in
from tilewright.host.common.names import check_name
from tilewright.host.common.places import CONSTRAINTS_DIR
from tilewright.host.common.plain_values import build_record, refuse_unknown
from tilewright.host.common.yaml_files import named_file, read_yaml_mapping
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.machine.system_config import SystemConfig, SystemCore
from tilewright.tuner.mapping.architecture import Architecture, load_architecture
from tilewright.tuner.multicore.allocation import Regulation
from tilewright.tuner.multicore.job_table import require_number

PLATFORM_DIR: Final = CONSTRAINTS_DIR / "platforms"

MAX_CORES: Final = 64

FLEXIBLE: Final = "-flexible"
"""After the name of a platform: with cores whose array takes any shape (`Platform.flexible`)."""

_KINDS: Final = ("architecture", "hwconfig")
_OWN_KEYS: Final = ("name", "count", "flexible")
_VALUES: Final = tuple(f.name for f in fields(Architecture) if f.name not in ("name", "sources"))
"""Keys of a core that replace a value of its architecture."""


@dataclass(frozen=True, kw_only=True)
class Core:
    """A core of a platform."""

    name: str  # label; cores of one kind share it
    hardware: Architecture | HwConfig  # what it is
    flexible: bool = False  # the number of its PEs is fixed, the shape of the array follows the job


@dataclass(frozen=True, kw_only=True)
class Platform:
    """Cores that share one memory.

    Attributes:
        bandwidths: of the memory, in GB/s (10^9 bytes per second), ascending; a study sweeps them.
        sources: where figures come from.
    """

    name: str  # label
    cores: tuple[Core, ...]  # in the order of the columns of a job table
    clock_mhz: float  # of all cores
    bandwidths: tuple[float, ...]
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        """Validate."""
        if not 1 <= len(self.cores) <= MAX_CORES:
            raise ConfigError(
                f"must be from 1 to {MAX_CORES} cores", field="cores", value=len(self.cores)
            )
        require_number("clock_mhz", self.clock_mhz)
        values = self.bandwidths
        if not isinstance(values, list | tuple) or not values:
            raise ConfigError(
                "must be a list of bandwidths in GB/s",
                field="bandwidths",
                value=values,
                remedy="write, for example, [1, 4, 16]",
            )
        for index, value in enumerate(values):
            require_number(f"bandwidths[{index}]", value)
        if any(b <= a for a, b in itertools.pairwise(values)):
            raise ConfigError("must be ascending", field="bandwidths", value=list(values))
        object.__setattr__(self, "bandwidths", tuple(float(value) for value in values))

    def bytes_per_cycle(self, bandwidth: float) -> float:
        """A bandwidth in GB/s in the unit of job tables and allocators."""
        require_number("bandwidth", bandwidth)
        found = bandwidth * 1000 / self.clock_mhz
        require_number("bandwidth", found)
        return found

    def flexible(self) -> Platform:
        """The platform with cores of as many PEs in an array of any shape."""
        cores = tuple(replace(core, flexible=True) for core in self.cores)
        return replace(self, name=f"{self.name}{FLEXIBLE}", cores=cores)


def named_platforms() -> tuple[str, ...]:
    """Names of the platforms that ship with Tilewright."""
    return tuple(sorted(path.stem for path in PLATFORM_DIR.glob("*.yaml")))


def load_platform(name_or_path: str | Path | Platform) -> Platform:
    """Load a named platform or a YAML file; one that is loaded stays as it is.

    A name with `FLEXIBLE` at its end is that platform with flexible cores.

    Example:
        >>> platform = load_platform("S2")
        >>> [core.name for core in platform.cores], platform.bytes_per_cycle(16)
        (['hb-32x64', 'hb-32x64', 'hb-32x64', 'lb-32x64'], 16.0)
    """
    if isinstance(name_or_path, Platform):
        return name_or_path
    name = str(name_or_path)
    if name.removesuffix(FLEXIBLE) in named_platforms() and name.endswith(FLEXIBLE):
        return load_platform(name.removesuffix(FLEXIBLE)).flexible()
    path = named_file(name_or_path, PLATFORM_DIR, "platform", "platform", named_platforms())
    values = read_yaml_mapping(path, "a platform")
    values.setdefault("name", path.stem)
    listed = values.get("cores", ())
    if not isinstance(listed, list | tuple):
        raise ConfigError(
            "must be a list of cores",
            field=f"{path}: cores",
            value=listed,
            remedy="write 'cores:' and below it one mapping per kind of core",
        )
    if "cores" in values:
        values["cores"] = tuple(
            core
            for index, each in enumerate(listed)
            for core in _cores(f"{path}: cores[{index}]", each)
        )
    found: Platform = build_record(Platform, values, str(path))
    return found


def _cores(place: str, values: Any) -> Iterator[Core]:
    """The cores of one entry of a file."""
    if not isinstance(values, dict):
        raise ConfigError(
            "must be a mapping of a core's fields",
            field=place,
            value=values,
            remedy="write, for example, {hwconfig: pynq-16x16, count: 2}",
        )
    kinds = [kind for kind in _KINDS if kind in values]
    if len(kinds) != 1:
        raise ConfigError(
            "must have either an architecture or a hwconfig", field=place, value=list(values)
        )
    known = (*_KINDS, *_OWN_KEYS, *(_VALUES if kinds == ["architecture"] else ()))
    refuse_unknown(values, known, where=place)
    with errors_in(place):
        hardware: Architecture | HwConfig
        if kinds == ["hwconfig"]:
            hardware = load_hwconfig(values["hwconfig"])
        else:
            changed = {key: value for key, value in values.items() if key in _VALUES}
            hardware = replace(load_architecture(values["architecture"]), **changed)
        count, flexible = values.get("count", 1), values.get("flexible", False)
        if type(count) is not int or not 1 <= count <= MAX_CORES:
            raise ConfigError(
                f"must be an integer from 1 to {MAX_CORES}", field="count", value=count
            )
        if type(flexible) is not bool:
            raise ConfigError("must be true or false", field="flexible", value=flexible)
        name = values.get("name", hardware.name)
        check_name(name, "name")
    core = Core(name=name, hardware=hardware, flexible=flexible)
    return iter((core,) * count)


def platform_of(system: SystemConfig, *, clock_mhz: float, bandwidths: Sequence[float]) -> Platform:
    """The cores of a system; `ports_of` says behind which memory port each is."""
    return Platform(
        name=system.name,
        cores=tuple(Core(name=core.hw.name, hardware=core.hw) for core in system.cores),
        clock_mhz=clock_mhz,
        bandwidths=tuple(bandwidths),
    )


def ports_of(system: SystemConfig) -> tuple[int, ...]:
    """The memory port of each core, for `Instance.ports`: those that have cores, from 0.

    Example:
        >>> from tilewright.host.machine.system_config import load_system
        >>> ports_of(load_system("quad-mixed"))
        (0, 1, 0, 1)
    """
    used = sorted({core.port for core in system.cores})
    return tuple(used.index(core.port) for core in system.cores)


def regulation_of(system: SystemConfig, *, reads: bool = False) -> Regulation:
    """What weights and budgets of a system's registers mean in bytes.

    A turn is a number of bursts, so a weight counts as often as a burst has bytes. The model has
    one bucket for both directions: it gets both budgets, and no limit where a direction has none.

    Example:
        >>> from tilewright.host.machine.system_config import load_system
        >>> regulation_of(load_system("big-little")).window
        1024.0
    """
    return Regulation(
        window=float(system.window),
        budgets=tuple(_budget(core, reads=reads) for core in system.cores),
        weights=tuple(
            float(core.weight * core.hw.axi_burst_beats * core.hw.axi_bytes)
            for core in system.cores
        ),
    )


def _budget(core: SystemCore, *, reads: bool) -> float:
    beats = (core.read_budget,) if reads else (core.read_budget, core.write_budget)
    return math.inf if 0 in beats else float(sum(beats) * core.hw.axi_bytes)
