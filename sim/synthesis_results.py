# SPDX-License-Identifier: Apache-2.0
"""The recorded syntheses: file, fit of the area model and its error, tables of the docs.

``python -m tilewright.sim.synthesis_results record [HW ...]`` synthesises the named configurations
and adds or replaces their rows (all rows when none is named; ``--stale`` leaves out those that the
present RTL made; ``--draw SEED`` adds random configurations that are never fitted);
``--family ecp5`` records the ECP5 counts of rows instead. ``fit`` prints the
coefficients for `host.area`, ``heldout`` the error of the estimate on rows that the fit has not
seen, ``write`` renews the tables in docs/synthesis.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
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
from tilewright.sim.synthesis import ECP5_DEVICES, SynthesisReport, rtl_digest, synthesise

RESULTS_FILE: Final = ROOT / "constraints" / "synthesis" / "results.yaml"
DOCS_FILE: Final = ROOT / "docs" / "synthesis.md"
TABLE_BEGIN: Final = "<!-- table: begin (python -m tilewright.sim.synthesis_results write) -->"
TABLE_END: Final = "<!-- table: end -->"
HELDOUT_BEGIN: Final = "<!-- heldout: begin (python -m tilewright.sim.synthesis_results write) -->"
HELDOUT_END: Final = "<!-- heldout: end -->"
HELDOUT_PREFIX: Final = "heldout-"
"""Rows whose name begins so are never fitted."""

_COUNTS: Final = ("lut", "lutram", "ff", "ramb36", "ramb18", "dsp")
_ECP5_COUNTS: Final = ("lut", "lutram", "ff", "dp16kd", "mult18")
_ECP5_BOARD: Final = "85k"

_DRAWN_MACS: Final = 128
_DRAWN: Final[Mapping[str, tuple[int, ...]]] = {
    "batch": (1, 2),
    "block_in": (4, 8, 16),
    "block_out": (4, 8, 16, 32),
    "vector_lanes": (2, 4, 8, 16),
    "axi_data_bits": (32, 64, 128, 256),
    "mac_pipeline": (1, 2, 3, 4),
    "mac_packed": (0, 1),
    "inp_bytes": (8192, 16384, 32768),
    "wgt_bytes": (16384, 32768, 65536),
    "acc_bytes": (16384, 32768, 65536),
    "out_bytes": (4096, 8192, 16384),
    "uop_bytes": (4096, 8192),
    "res_bytes": (4096, 8192),
    "param_bytes": (2048, 4096),
}
"""What `draw` chooses from: small enough to synthesise within minutes."""


@dataclass(frozen=True, kw_only=True)
class Ecp5Counts:
    """The same configuration on Lattice ECP5.

    Attributes:
        rtl: `rtl_digest` of the sources that were synthesised.
        lut: four-input LUTs: logic, carry chains and memory.
        lutram: those of memory.
        ff, dp16kd, mult18: flip-flops, 18 Kb block RAMs, multipliers.
        seconds: as in `Row`.
    """

    rtl: str
    lut: int
    lutram: int
    ff: int
    dp16kd: int
    mult18: int
    seconds: float

    @property
    def fits(self) -> bool:
        """Whether the largest ECP5 holds them."""
        device = ECP5_DEVICES[_ECP5_BOARD]
        return (
            max(self.lut, self.ff) <= device.lut
            and self.dp16kd <= device.dp16kd
            and self.mult18 <= device.mult18
        )


@dataclass(frozen=True, kw_only=True)
class Row:
    """One recorded synthesis.

    Attributes:
        hw: configuration, under the name of the record.
        rtl: `rtl_digest` of the sources that were synthesised.
        lut, lutram, ff, ramb36, ramb18, dsp: as in `SynthesisReport`.
        seconds: wall-clock time, on a machine that was busy with other work.
        ecp5: counts for ECP5; None: not recorded.
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
    ecp5: Ecp5Counts | None = None

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
    header = "# Written by `python -m tilewright.sim.synthesis_results record`.\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(header + yaml.safe_dump(document, sort_keys=False), encoding="utf-8")


def draw(seed: int, count: int = 4) -> tuple[HwConfig, ...]:
    """Random legal configurations of at most `_DRAWN_MACS` MACs, named as never fitted.

    Args:
        seed: decides every value.
        count: how many.
    """
    rng = np.random.default_rng(seed)
    found: list[HwConfig] = []
    while len(found) < count:
        values = {name: int(rng.choice(choices)) for name, choices in _DRAWN.items()}
        try:
            hw = HwConfig(name=f"{HELDOUT_PREFIX}{seed}-{len(found) + 1}", **values)
        except ConfigError:
            continue
        if hw.macs_per_cycle <= _DRAWN_MACS:
            found.append(hw)
    return tuple(found)


def record(
    names: Sequence[str | HwConfig],
    path: Path = RESULTS_FILE,
    *,
    family: str = "xc7",
    stale_only: bool = False,
) -> Results:
    """Synthesise for the record and save after each synthesis.

    Args:
        names: configurations to add or replace, some by name; none: every row of the file.
        path: results file; made when it is missing.
        family: ``xc7`` makes rows, ``ecp5`` adds its counts to rows that exist.
        stale_only: leave out what sources as they are now have made.

    Raises:
        ConfigError: ECP5 counts for a configuration without a row, or a family without a record.
        TilewrightError: as `load_hwconfig` and `synthesise`.
    """
    if family not in ("xc7", "ecp5"):
        raise ConfigError("must be xc7 or ecp5", field="family", value=family)
    known = load_results(path) if path.exists() else Results(tool="", family="", rows=())
    rows = {row.hw.name: row for row in known.rows}
    configs = [name if isinstance(name, HwConfig) else load_hwconfig(name) for name in names] or [
        load_hwconfig(row.hw.name) if row.hw.name in named_configs() else row.hw
        for row in rows.values()
    ]
    results = known
    for hw in configs:
        rtl, row = rtl_digest(), rows.get(hw.name)
        if stale_only and row is not None and _made_by(row, family) == rtl and row.hw == hw:
            continue
        if family == "ecp5" and (row is None or row.hw != hw):
            raise ConfigError(
                "must have a row of these parameters before its ECP5 counts",
                field=hw.name,
                remedy="record it for xc7 first",
            )
        report = synthesise(hw, family=family)
        if family == "ecp5" and row is not None:
            rows[hw.name] = replace(row, ecp5=ecp5_of(report, rtl))
        else:
            kept = row.ecp5 if row is not None and row.hw == hw else None
            rows[hw.name] = replace(row_of(hw, report, rtl), ecp5=kept)
        results = Results(tool=report.tool, family="xc7", rows=tuple(rows.values()))
        save_results(results, path)
        sys.stdout.write(f"{hw.name}: {report.lut:,} LUT, {report.ff:,} FF ({family})\n")
        sys.stdout.flush()
    return results


def _made_by(row: Row, family: str) -> str:
    if family == "ecp5":
        return row.ecp5.rtl if row.ecp5 else ""
    return row.rtl


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


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Error of an estimate for a row that its fit has not seen.

    Attributes:
        name: configuration.
        fresh: never fitted (else left out of a fit over all the others).
        lut, ff: estimate over count, less one.
        bram36, dsp: estimate less count.
    """

    name: str
    fresh: bool
    lut: float
    ff: float
    bram36: int
    dsp: int


def held_out(rows: Sequence[Row]) -> tuple[HeldOut, ...]:
    """Leave-one-out errors of the fitted rows, and the errors of the rows that are never fitted.

    Raises:
        ConfigError: fewer fitted rows than the model has coefficients of a resource, and one.
    """
    seen = [row for row in rows if row.fitted]
    terms = max(
        sum(f.name.startswith(resource) for f in fields(LogicModel)) for resource in ("lut", "ff")
    )
    if len(seen) <= terms:
        raise ConfigError(f"must be more than {terms} rows", field="results", value=len(seen))
    whole = fit(seen)
    errors = []
    for row in rows:
        model = fit([other for other in seen if other is not row]) if row.fitted else whole
        guess, area = estimate(row.hw, model), row.area
        errors.append(
            HeldOut(
                name=row.hw.name,
                fresh=not row.fitted,
                lut=guess.lut / area.lut - 1,
                ff=guess.ff / area.ff - 1,
                bram36=guess.bram36 - area.bram36,
                dsp=guess.dsp - area.dsp,
            )
        )
    return tuple(errors)


def held_out_table(errors: Sequence[HeldOut]) -> str:
    """Markdown: a line each, and the largest error of each kind."""
    lines = ["| row | how held out | LUT | FF | BRAM36 | DSP |", "|---|---|--:|--:|--:|--:|"]
    for error in errors:
        how = "never fitted" if error.fresh else "left out"
        lines.append(
            f"| {error.name} | {how} | {error.lut:+.1%} | {error.ff:+.1%} "
            f"| {error.bram36:+d} | {error.dsp:+d} |"
        )
    for how, fresh in (("left out", False), ("never fitted", True)):
        some = [error for error in errors if error.fresh == fresh]
        if some:
            lines.append(
                f"| largest | {how} | {max(abs(e.lut) for e in some):.1%} "
                f"| {max(abs(e.ff) for e in some):.1%} | {max(abs(e.bram36) for e in some)} "
                f"| {max(abs(e.dsp) for e in some)} |"
            )
    return "\n".join(lines)


# -- table ----------------------------------------------------------------------------------


def table(results: Results) -> str:
    """Markdown: counts, error of the estimate, the boards that hold it, and the counts on ECP5."""
    boards = [load_board(name) for name in named_boards()]
    device = ECP5_DEVICES[_ECP5_BOARD].name
    lines = [
        (
            "| configuration | LUT | as memory | FF | RAMB36 + 18 | DSP | est. LUT | est. FF "
            f"| fits | ECP5: LUT4 | FF | DP16KD | MULT18 | {device} |"
        ),
        "|---|--:|--:|--:|--:|--:|--:|--:|---|--:|--:|--:|--:|---|",
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
        ecp5 = row.ecp5
        other = (
            f"{ecp5.lut:,} | {ecp5.ff:,} | {ecp5.dp16kd} | {ecp5.mult18} "
            f"| {'fits' if ecp5.fits else 'too large'}"
            if ecp5
            else "- | - | - | - | -"
        )
        lines.append(
            f"| {name} | {row.lut:,} | {row.lutram:,} | {row.ff:,} "
            f"| {row.ramb36} + {row.ramb18} | {row.dsp} "
            f"| {guess.lut / row.lut - 1:+.1%} | {guess.ff / row.ff - 1:+.1%} "
            f"| {', '.join(holds) or 'none'} | {other} |"
        )
    digests = {row.rtl for row in results.rows}
    digests |= {row.ecp5.rtl for row in results.rows if row.ecp5}
    lines += [
        "",
        (
            f"Tool: {results.tool}, families {results.family} and ecp5. "
            f"RTL: {', '.join(sorted(digests))}."
        ),
    ]
    return "\n".join(lines)


def renewed(text: str, results: Results) -> str:
    """The docs page with its tables replaced by those of ``results``.

    Raises:
        ConfigError: the page has no place for a table.
    """
    text = _put(text, TABLE_BEGIN, TABLE_END, table(results))
    return _put(text, HELDOUT_BEGIN, HELDOUT_END, held_out_table(held_out(results.rows)))


def _put(text: str, begin: str, end: str, content: str) -> str:
    before, found_begin, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise ConfigError(f"must hold {begin} and {end}", field=str(DOCS_FILE))
    return f"{before}{begin}\n{content}\n{end}{after}"


# -- command --------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Record syntheses, fit the area model and tell its error, or renew the tables of the docs."""
    parser = argparse.ArgumentParser(
        prog="tilewright.sim.synthesis_results", description=main.__doc__
    )
    parser.add_argument("action", choices=("record", "fit", "heldout", "write"))
    parser.add_argument(
        "hw", nargs="*", help="record: names or YAML files (default: those of the results file)"
    )
    parser.add_argument(
        "--family", choices=("xc7", "ecp5"), default="xc7", help="record: default %(default)s"
    )
    parser.add_argument(
        "--stale", action="store_true", help="record: leave out rows of the present RTL"
    )
    parser.add_argument(
        "--draw",
        type=int,
        metavar="SEED",
        help="record: add four random configurations that are never fitted",
    )
    options = parser.parse_args(arguments)
    try:
        if options.action == "record":
            more = () if options.draw is None else draw(options.draw)
            record([*options.hw, *more], family=options.family, stale_only=options.stale)
        elif options.action == "fit":
            sys.stdout.write(f"{fit([row for row in load_results().rows if row.fitted])}\n")
        elif options.action == "heldout":
            sys.stdout.write(held_out_table(held_out(load_results().rows)) + "\n")
        else:
            text = DOCS_FILE.read_text(encoding="utf-8")
            DOCS_FILE.write_text(renewed(text, load_results()), encoding="utf-8")
    except TilewrightError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
