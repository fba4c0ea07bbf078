# SPDX-License-Identifier: Apache-2.0
"""Make the record of syntheses and the tables of the pages: `tilewright synth-record`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from tilewright.host.common.errors import ConfigError
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig, named_configs
from tilewright.sim.synth.design import accelerator, rtl_digest
from tilewright.sim.synth.record import (
    HELDOUT_PREFIX,
    RESULTS_FILE,
    Results,
    Row,
    ecp5_of,
    load_results,
    row_of,
    save_results,
)
from tilewright.sim.synth.synthesis import synthesise
from tilewright.sim.synth.system_record import SYSTEMS_PAGE, load_system_rows, systems_table
from tilewright.sim.synth.tables import (
    CLOCKS_PAGE,
    CONFIGURATIONS_FILE,
    DOCS_FILE,
    SYSTEMS_BEGIN,
    SYSTEMS_END,
    put_table,
    renewed,
    renewed_clocks,
    renewed_overview,
)

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


def draw(seed: int, count: int = 4) -> tuple[HwConfig, ...]:
    """Random legal configurations of at most `_DRAWN_MACS` MACs, named as never fitted."""
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
    note: Callable[[str], object] | None = None,
) -> Results:
    """Synthesise for the record and save after each synthesis."""
    if family not in ("xc7", "ecp5"):
        raise ConfigError("must be xc7 or ecp5", field="family", value=family)
    known = load_results(path) if path.exists() else Results(tool="", family="", rows=())
    rows = {row.hw.name: row for row in known.rows}
    configs = [load_hwconfig(name) for name in names] or [
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
        report = synthesise(accelerator(hw), family=family)
        if family == "ecp5" and row is not None:
            rows[hw.name] = replace(row, ecp5=ecp5_of(report, rtl))
        else:
            kept = row.ecp5 if row is not None and row.hw == hw else None
            rows[hw.name] = replace(row_of(hw, report, rtl), ecp5=kept)
        results = Results(tool=report.tool, family="xc7", rows=tuple(rows.values()))
        save_results(results, path)
        if note is not None:
            note(f"{hw.name}: {report.lut:,} LUT, {report.ff:,} FF ({family})")
    return results


def _made_by(row: Row, family: str) -> str:
    if family == "ecp5":
        return row.ecp5.rtl if row.ecp5 else ""
    return row.rtl


def write_tables() -> tuple[Path, ...]:
    """Renew the tables of the pages from the record."""
    results = load_results()
    for page, renew in ((DOCS_FILE, renewed), (CONFIGURATIONS_FILE, renewed_overview)):
        page.write_text(renew(page.read_text(encoding="utf-8"), results), encoding="utf-8")
    table = systems_table(load_system_rows(), results)
    text = SYSTEMS_PAGE.read_text(encoding="utf-8")
    text = put_table(text, SYSTEMS_PAGE, SYSTEMS_BEGIN, SYSTEMS_END, table)
    SYSTEMS_PAGE.write_text(text, encoding="utf-8")
    CLOCKS_PAGE.write_text(
        renewed_clocks(CLOCKS_PAGE.read_text(encoding="utf-8")), encoding="utf-8"
    )
    return DOCS_FILE, CONFIGURATIONS_FILE, SYSTEMS_PAGE, CLOCKS_PAGE
