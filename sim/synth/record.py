# SPDX-License-Identifier: Apache-2.0
"""The file of recorded syntheses: its rows, reading and writing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tilewright.host.common.errors import ConfigError
from tilewright.host.common.places import ROOT
from tilewright.host.common.yaml_files import read_yaml_mapping
from tilewright.host.machine.area import Area
from tilewright.host.machine.hwconfig import (
    HwConfig,
    load_hwconfig,
    named_configs,
)
from tilewright.sim.synth.synthesis import ECP5_DEVICES, Ecp5Device, SynthesisReport

RESULTS_FILE: Final = ROOT / "constraints" / "synthesis" / "results.yaml"
HELDOUT_PREFIX: Final = "heldout-"
"""Rows whose name begins so are never fitted."""
ECP5_DEVICE: Final[Ecp5Device] = ECP5_DEVICES["85k"]
"""The part that ECP5 counts are compared with."""

_COUNTS: Final = ("lut", "lutram", "ff", "ramb36", "ramb18", "dsp")
_ECP5_COUNTS: Final = ("lut", "lutram", "ff", "dp16kd", "mult18")


@dataclass(frozen=True, kw_only=True)
class Ecp5Counts:
    """The same configuration on Lattice ECP5.

    Attributes:
        ff, dp16kd, mult18: flip-flops, 18 Kb block RAMs, multipliers.
    """

    rtl: str  # `rtl_digest` of the sources that were synthesised
    lut: int  # four-input LUTs: logic, carry chains and memory
    lutram: int  # those of memory
    ff: int
    dp16kd: int
    mult18: int
    seconds: float  # as in `Row`

    @property
    def fits(self) -> bool:
        """Whether the largest ECP5 holds them."""
        return (
            max(self.lut, self.ff) <= ECP5_DEVICE.lut
            and self.dp16kd <= ECP5_DEVICE.dp16kd
            and self.mult18 <= ECP5_DEVICE.mult18
        )


@dataclass(frozen=True, kw_only=True)
class Row:
    """One recorded synthesis.

    Attributes:
        lut, lutram, ff, ramb36, ramb18, dsp: as in `SynthesisReport`.
    """

    hw: HwConfig  # configuration, under the name of the record
    rtl: str  # `rtl_digest` of the sources that were synthesised
    lut: int
    lutram: int
    ff: int
    ramb36: int
    ramb18: int
    dsp: int
    seconds: float  # wall-clock time, on a machine that was busy with other work
    ecp5: Ecp5Counts | None = None  # counts for ECP5; None: not recorded

    @property
    def area(self) -> Area:
        """The counts in the form of an estimate."""
        bram36 = self.ramb36 + -(-self.ramb18 // 2)
        return Area(lut=self.lut, ff=self.ff, bram36=bram36, dsp=self.dsp)

    @property
    def fitted(self) -> bool:
        """Whether the row may shape the model."""
        return not self.hw.name.startswith(HELDOUT_PREFIX)

    @property
    def named(self) -> bool:
        """Whether it is a named configuration as it is today (and not a probe of the model)."""
        if self.hw.name not in named_configs():
            return False
        return load_hwconfig(self.hw.name).config_hash == self.hw.config_hash


@dataclass(frozen=True, kw_only=True)
class Results:
    """The results file: which tool, which device family, and the rows in the order of the file."""

    tool: str
    family: str
    rows: tuple[Row, ...]


def load_results(path: Path = RESULTS_FILE) -> Results:
    """Read the recorded syntheses."""
    data = read_yaml_mapping(path, "the synthesis results")
    try:
        rows = tuple(_row(name, entry) for name, entry in data["results"].items())
        return Results(tool=data["tool"], family=data["family"], rows=rows)
    except (KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            "must hold tool, family and results",
            field=str(path),
            remedy="make it anew: tilewright synth-record record",
        ) from error


def _row(name: str, entry: Mapping[str, Any]) -> Row:
    hw = HwConfig.from_mapping({"name": name, **entry["parameters"]}, origin=name)
    other = entry.get("ecp5")
    ecp5 = (
        Ecp5Counts(**{key: other[key] for key in ("rtl", *_ECP5_COUNTS, "seconds")})
        if other
        else None
    )
    return Row(hw=hw, ecp5=ecp5, **{key: entry[key] for key in ("rtl", *_COUNTS, "seconds")})


def row_of(hw: HwConfig, report: SynthesisReport, rtl: str) -> Row:
    """A row for a fresh report on sources whose `rtl_digest` is ``rtl``."""
    counts = {key: getattr(report, key) for key in _COUNTS}
    return Row(hw=hw, rtl=rtl, seconds=report.seconds, **counts)


def ecp5_of(report: SynthesisReport, rtl: str) -> Ecp5Counts:
    """ECP5 counts of a fresh report on sources whose `rtl_digest` is ``rtl``."""
    return Ecp5Counts(
        rtl=rtl,
        lut=report.lut,
        lutram=report.lutram,
        ff=report.ff,
        dp16kd=report.ramb18,
        mult18=report.dsp,
        seconds=report.seconds,
    )


def save_results(results: Results, path: Path = RESULTS_FILE) -> None:
    """Write the results file."""
    document = {
        "tool": results.tool,
        "family": results.family,
        "results": {
            row.hw.name: {
                **{key: getattr(row, key) for key in ("rtl", *_COUNTS, "seconds")},
                **({"ecp5": asdict(row.ecp5)} if row.ecp5 else {}),
                "parameters": row.hw.parameters(),
            }
            for row in results.rows
        },
    }
    header = "# Written by `tilewright synth-record record`.\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(header + yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
