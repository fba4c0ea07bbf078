# SPDX-License-Identifier: Apache-2.0
"""`estimate`: the clock that a netlist may reach, before anybody places or routes it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from tilewright.host.common.errors import ConfigError
from tilewright.host.common.names import choices
from tilewright.sim.synth.design import Design
from tilewright.sim.synth.place_route import netlist as routed_netlist
from tilewright.sim.synth.synthesis import synthesis_commands
from tilewright.sim.synth.timing_report import WRAPPER
from tilewright.sim.timing.delays import FAMILIES, load_library
from tilewright.sim.timing.netlist import read_netlist
from tilewright.sim.timing.paths import Path as TimingPath
from tilewright.sim.timing.paths import Timing
from tilewright.sim.tools.build_cache import builder, cache_dir
from tilewright.sim.tools.yosys import run_yosys, yosys_version

WIRE_FACTORS: Final = (0.67, 1.0)
"""Short and long wires: routed ECP5 designs have the mean length on all nets (1.0), and on their
slowest path, which the placer favours, down to two thirds of it."""
LATE_NS: Final = 10.0
"""Inputs of registers that are reached later are counted: 100 MHz."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """Paths from one unit's registers to another's."""

    path: TimingPath  # the slowest with short wires
    long_ns: float  # the slowest with long wires


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Static timing of one netlist: slowest paths with wires of none and of `WIRE_FACTORS`."""

    design: str  # configuration or system
    family: str  # of `FAMILIES`
    part: str  # device and speed grade of the delays
    control_only: bool  # whether the data path was left out
    rtl: str  # digest of the sources
    tool: str  # of the synthesis
    cells_ns: float
    short_ns: float
    long_ns: float
    late: int  # inputs of registers that are reached after `LATE_NS` with short wires
    ends: int  # inputs of registers in all
    families: tuple[Family, ...]  # slowest first

    @property
    def mhz(self) -> tuple[float, float]:
        """Clock with long wires and with short ones."""
        return 1000 / self.long_ns, 1000 / self.short_ns


def estimate(design: Design, *, family: str = "xc7", control_only: bool = False) -> Estimate:
    """Synthesise a design when nobody has, and time its netlist.

    Args:
        design: an accelerator; for ``xc7`` a system too.
        family: one of `FAMILIES`. For ``ecp5`` the netlist is that of `sim.synth.place_route`,
            with registers around every port.
        control_only: leave out the data path: minutes become seconds. Only for ``xc7``.

    Raises:
        ConfigError: a family without delays, or a design that this family's netlist cannot hold.
        BuildError: Yosys failed, or left a cell that has no delays.
    """
    if family not in FAMILIES:
        raise ConfigError(
            "has no table of delays",
            field="family",
            value=family,
            remedy=choices(family, FAMILIES, "families"),
        )
    if family == "ecp5" and (control_only or len(design.cores) > 1):
        what = "a system" if len(design.cores) > 1 else "control alone"
        raise ConfigError(
            f"has no netlist of {what}", field="family", value=family, remedy="take xc7"
        )
    if family == "ecp5":
        path, top = routed_netlist(design.cores[0]), WRAPPER
    else:
        path, top = _netlist(design, family, control_only), design.top
    return time_netlist(design, path, top=top, family=family, control_only=control_only)


def time_netlist(
    design: Design, path: Path, *, top: str, family: str, control_only: bool = False
) -> Estimate:
    """Time a netlist of Yosys that is there; arguments as for `estimate`."""
    library = load_library(family)
    netlist = read_netlist(json.loads(path.read_text(encoding="utf-8")), top)
    timing = Timing(netlist, library)
    bare, short, long = (timing.analyse(factor) for factor in (0.0, *WIRE_FACTORS))
    longest = long.families()
    stretch = WIRE_FACTORS[1] / WIRE_FACTORS[0]
    return Estimate(
        design=design.name,
        family=family,
        part=library.part,
        control_only=control_only,
        rtl=design.rtl,
        tool=yosys_version(),
        cells_ns=round(bare.worst_ns, 3),
        short_ns=round(short.worst_ns, 3),
        long_ns=round(long.worst_ns, 3),
        late=short.slower_than(LATE_NS),
        ends=len(short.ends),
        families=tuple(
            # With longer wires another family may be the slowest at every end of this one.
            Family(
                path=path,
                long_ns=round(
                    longest[key].total_ns
                    if key in longest
                    else path.cell_ns + stretch * path.wire_ns,
                    3,
                ),
            )
            for key, path in short.families().items()
        ),
    )


def _netlist(design: Design, family: str, control_only: bool) -> Path:
    """The netlist of a design as JSON of Yosys; made when missing."""
    read = design.read
    if control_only:
        read = read.replace(" --top", " -G DataPath=0 --top", 1)
    commands = [read, *synthesis_commands(family, design.top), "write_json netlist.json"]
    recipe = json.dumps([*commands, design.rtl, yosys_version()])
    key = hashlib.sha256(recipe.encode()).hexdigest()[:32]
    result = cache_dir() / "timing" / f"{key}.netlist.json"
    with builder(f"timing-{key}") as work:
        if not result.exists():
            design.put(work)
            run_yosys(commands, work)
            result.parent.mkdir(exist_ok=True)
            (work / "netlist.json").replace(result)
    return result


# -- as text ----------------------------------------------------------------------------------


def describe(found: Estimate, most: int) -> str:
    """The estimate as text, with the ``most`` slowest families of paths."""
    low, high = found.mhz
    what = f"{found.design}, control alone" if found.control_only else found.design
    short, long = WIRE_FACTORS
    lines = [
        f"{what} on {found.part}: {low:.1f} to {high:.1f} MHz, a static estimate",
        (
            f"slowest path {found.long_ns:.2f} ns with wires x {long:g}, {found.short_ns:.2f} ns "
            f"x {short:g}, {found.cells_ns:.2f} ns in cells alone"
        ),
        (
            f"{found.late:,} of {found.ends:,} inputs of registers are later than {LATE_NS:g} ns "
            f"with wires x {short:g}"
        ),
        f"{found.tool}; a wire's length comes from its sinks: nothing was placed or routed",
        "",
        f"{f'ns x {short:g}':>9}{f'x {long:g}':>7}  cells  wires  LUT carry  from -> to",
    ]
    lines += [_row(family) for family in found.families[:most]]
    if len(found.families) > most:
        lines.append(f"and {len(found.families) - most} more families: --paths N")
    return "\n".join(lines)


def _row(family: Family) -> str:
    path = family.path
    return (
        f"{path.total_ns:>9.2f}{family.long_ns:>7.2f}{path.cell_ns:>7.2f}{path.wires:>7}"
        f"{path.luts:>5}{path.carries:>6}  {path.source} -> {path.target} ({path.pin})"
    )


def rows_of(found: Estimate) -> list[dict[str, object]]:
    """The families as rows of plain values."""
    return [
        {
            "source": f.path.source,
            "target": f.path.target,
            "source_unit": f.path.source_unit,
            "target_unit": f.path.target_unit,
            "pin": f.path.pin,
            "short_ns": round(f.path.total_ns, 3),
            "long_ns": f.long_ns,
            "cell_ns": f.path.cell_ns,
            "wires": f.path.wires,
            "luts": f.path.luts,
            "carries": f.path.carries,
            "signals": list(f.path.signals),
        }
        for f in found.families
    ]


def summary_of(found: Estimate) -> dict[str, object]:
    """What holds for the whole netlist, as plain values."""
    low, high = found.mhz
    own = {
        field.name: getattr(found, field.name)
        for field in fields(found)
        if field.name != "families"
    }
    return {
        **own,
        "low_mhz": round(low, 2),
        "high_mhz": round(high, 2),
        "factors": list(WIRE_FACTORS),
        "late_ns": LATE_NS,
    }


# -- the ratchet ------------------------------------------------------------------------------

NOISE: Final = 0.02
"""Share by which a family may be slower than its record: ABC maps the same logic in another way
when something beside it changes."""
FLOOR_NS: Final = 6.0
"""Families that are faster are not recorded."""


def worst_by_family(found: Estimate) -> dict[str, float]:
    """The slowest path of each family above `FLOOR_NS` with short wires, in ns."""
    return {
        f"{f.path.source_unit} -> {f.path.target_unit}": round(f.path.total_ns, 2)
        for f in found.families
        if f.path.total_ns > FLOOR_NS
    }


def slower(found: Mapping[str, float], recorded: Mapping[str, float]) -> Sequence[str]:
    """Families that are slower than their record, or new and slow, each as a line of text."""
    return [
        f"{name}: {ns:.2f} ns, recorded {recorded.get(name, FLOOR_NS):.2f}"
        for name, ns in found.items()
        if ns > (1 + NOISE) * recorded.get(name, FLOOR_NS)
    ]
