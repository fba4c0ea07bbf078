# SPDX-License-Identifier: Apache-2.0
"""The recorded syntheses: file, fit of the area model, table of the docs.

``python -m tilewright.sim.synthesis_results record [HW ...]`` synthesises the named configurations
and adds or replaces their rows (all rows when none is named), ``fit`` prints the coefficients for
`host.area`, ``write`` renews the table in docs/synthesis.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import numpy as np
import yaml

from tilewright.host.area import Area, LogicModel, estimate
from tilewright.host.board import load_board, named_boards
from tilewright.host.errors import ConfigError, TilewrightError
from tilewright.host.hwconfig import (
    HwConfig,
    load_hwconfig,
    named_configs,
    read_yaml_mapping,
)
from tilewright.sim.build import ROOT
from tilewright.sim.synthesis import SynthesisReport, rtl_digest, synthesise

RESULTS_FILE: Final = ROOT / "constraints" / "synthesis" / "results.yaml"
DOCS_FILE: Final = ROOT / "docs" / "synthesis.md"
TABLE_BEGIN: Final = "<!-- table: begin (python -m tilewright.sim.synthesis_results write) -->"
TABLE_END: Final = "<!-- table: end -->"

_COUNTS: Final = ("lut", "lutram", "ff", "ramb36", "ramb18", "dsp")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One recorded synthesis.

    Attributes:
        hw: configuration, under the name of the record.
        rtl: `rtl_digest` of the sources that were synthesised.
        lut, lutram, ff, ramb36, ramb18, dsp: as in `SynthesisReport`.
        seconds: wall-clock time, on a machine that was busy with other work.
    """

    hw: HwConfig
    rtl: str
    lut: int
    lutram: int
    ff: int
    ramb36: int
    ramb18: int
    dsp: int
    seconds: float

    @property
    def area(self) -> Area:
        """The counts in the form of an estimate."""
        bram36 = self.ramb36 + -(-self.ramb18 // 2)
        return Area(lut=self.lut, ff=self.ff, bram36=bram36, dsp=self.dsp)

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
    """Read the recorded syntheses.

    Raises:
        ConfigError: the file is missing or malformed.
    """
    data = read_yaml_mapping(path, "the synthesis results")
    try:
        rows = tuple(_row(name, entry) for name, entry in data["results"].items())
        return Results(tool=data["tool"], family=data["family"], rows=rows)
    except (KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            "must hold tool, family and results",
            field=str(path),
            remedy="make it anew: python -m tilewright.sim.synthesis_results record",
        ) from error


def _row(name: str, entry: Mapping[str, Any]) -> Row:
    hw = HwConfig.from_mapping({"name": name, **entry["parameters"]}, origin=name)
    return Row(hw=hw, **{key: entry[key] for key in ("rtl", *_COUNTS, "seconds")})


def row_of(hw: HwConfig, report: SynthesisReport, rtl: str) -> Row:
    """A row for a fresh report on sources whose `rtl_digest` is ``rtl``."""
    counts = {key: getattr(report, key) for key in _COUNTS}
    return Row(hw=hw, rtl=rtl, seconds=report.seconds, **counts)


def save_results(results: Results, path: Path = RESULTS_FILE) -> None:
    """Write the results file."""
    document = {
        "tool": results.tool,
        "family": results.family,
        "results": {
            row.hw.name: {
                **{key: getattr(row, key) for key in ("rtl", *_COUNTS, "seconds")},
                "parameters": row.hw.parameters(),
            }
            for row in results.rows
        },
    }
    header = "# Written by `python -m tilewright.sim.synthesis_results record`.\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(header + yaml.safe_dump(document, sort_keys=False), encoding="utf-8")


def record(names: Sequence[str], path: Path = RESULTS_FILE) -> Results:
    """Synthesise for the record and save after each synthesis.

    Args:
        names: configurations to add or replace; none: every row of the file.
        path: results file; made when it is missing.

    Raises:
        TilewrightError: as `load_hwconfig` and `synthesise`.
    """
    rows = {row.hw.name: row for row in load_results(path).rows} if path.exists() else {}
    configs = [load_hwconfig(name) for name in names] or [
        load_hwconfig(row.hw.name) if row.hw.name in named_configs() else row.hw
        for row in rows.values()
    ]
    results = Results(tool="", family="", rows=())
    for hw in configs:
        rtl, report = rtl_digest(), synthesise(hw)
        rows[hw.name] = row_of(hw, report, rtl)
        results = Results(tool=report.tool, family=report.family, rows=tuple(rows.values()))
        save_results(results, path)
        sys.stdout.write(f"{hw.name}: {report.lut:,} LUT, {report.ff:,} FF\n")
    return results


# -- fit ------------------------------------------------------------------------------------


def fit(rows: Sequence[Row]) -> LogicModel:
    """Least squares of the relative error over the coefficients of `LogicModel`.

    The model is linear, so a term is what a coefficient of one adds to the estimate without any.
    """
    solution: dict[str, float] = {}
    for resource in ("lut", "ff"):
        names = [f.name for f in fields(LogicModel) if f.name.startswith(f"{resource}_")]
        known = np.array([getattr(estimate(row.hw, LogicModel()), resource) for row in rows])
        with_one = [
            [getattr(estimate(row.hw, LogicModel(**{name: 1.0})), resource) for name in names]
            for row in rows
        ]
        counts = np.array([getattr(row, resource) for row in rows], dtype=float)
        terms = (np.array(with_one) - known[:, None]) / counts[:, None]
        values = np.linalg.lstsq(terms, (counts - known) / counts, rcond=None)[0]
        solution |= {name: round(float(v), 1) for name, v in zip(names, values, strict=True)}
    return LogicModel(**solution)


# -- table ----------------------------------------------------------------------------------


def table(results: Results) -> str:
    """Markdown: counts, error of the estimate, and the boards that hold the configuration."""
    boards = [load_board(name) for name in named_boards()]
    lines = [
        "| configuration | LUT | as memory | FF | RAMB36 + 18 | DSP | est. LUT | est. FF | fits |",
        "|---|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    for row in results.rows:
        guess, area = estimate(row.hw), row.area
        holds = [
            board.name
            for board in boards
            if area.lut <= board.lut
            and area.ff <= board.ff
            and area.bram36 <= board.bram36
            and area.dsp <= board.dsp
            and row.hw.axi_data_bits <= board.axi_data_bits
        ]
        name = f"`{row.hw.name}`" if row.named else row.hw.name
        lines.append(
            f"| {name} | {row.lut:,} | {row.lutram:,} | {row.ff:,} "
            f"| {row.ramb36} + {row.ramb18} | {row.dsp} "
            f"| {guess.lut / row.lut - 1:+.1%} | {guess.ff / row.ff - 1:+.1%} "
            f"| {', '.join(holds) or 'none'} |"
        )
    versions = ", ".join(sorted({row.rtl for row in results.rows}))
    lines += ["", f"Tool: {results.tool}, family {results.family}. RTL: {versions}."]
    return "\n".join(lines)


def renewed(text: str, results: Results) -> str:
    """The docs page with its table replaced by that of ``results``.

    Raises:
        ConfigError: the page has no place for the table.
    """
    before, begin, rest = text.partition(TABLE_BEGIN)
    _, end, after = rest.partition(TABLE_END)
    if not begin or not end:
        raise ConfigError(f"must hold {TABLE_BEGIN} and {TABLE_END}", field=str(DOCS_FILE))
    return f"{before}{begin}\n{table(results)}\n{end}{after}"


# -- command --------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Record syntheses, fit the area model to them, or renew the table of the docs."""
    parser = argparse.ArgumentParser(
        prog="tilewright.sim.synthesis_results", description=main.__doc__
    )
    parser.add_argument("action", choices=("record", "fit", "write"))
    parser.add_argument(
        "hw", nargs="*", help="record: names or YAML files (default: those of the results file)"
    )
    options = parser.parse_args(arguments)
    try:
        if options.action == "record":
            record(options.hw)
        elif options.action == "fit":
            sys.stdout.write(f"{fit(load_results().rows)}\n")
        else:
            text = DOCS_FILE.read_text(encoding="utf-8")
            DOCS_FILE.write_text(renewed(text, load_results()), encoding="utf-8")
    except TilewrightError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
