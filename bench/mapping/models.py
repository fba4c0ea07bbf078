# SPDX-License-Identifier: Apache-2.0
"""The cost model of mappings against MAESTRO, ZigZag and our RTL: `bench mapping-models`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tilewright.bench.mapping import maestro, rtl, zigzag
from tilewright.bench.result import BenchResult
from tilewright.host.common.errors import ConfigError
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.zoo import load_network


def run(
    *,
    maestro_folder: Path | None,
    zigzag_file: Path | None,
    hw: str,
    memory: str,
    network: str,
    layers: Sequence[str],
    kind: str,
) -> BenchResult:
    """Compare, and print each row as it is found.

    Args:
        maestro_folder: recorded rows of MAESTRO; None: no comparison.
        zigzag_file: those of ZigZag.
        hw: configuration whose schedule spaces are measured.
        memory: DRAM timing.
        network: has the layers.
        layers: names; none: all that the accelerator runs as they are.
        kind: of the schedule spaces.

    Raises:
        ConfigError: a configuration or memory that there is not; a file without recorded rows.
        WorkloadError: a layer that there is not.
    """
    rows: list[dict[str, Any]] = []
    summary: dict[str, Any] = {}

    def add(row: dict[str, Any]) -> None:
        rows.append(row)
        print(" ".join(f"{key} {value}" for key, value in row.items()), flush=True)

    if maestro_folder is not None:
        found = _recorded(maestro.document, maestro_folder)["groups"]
        summary["maestro_spearman"] = found["all"]["spearman"]
        for name, figures in found.items():
            add({"against": "maestro", "group": name, **figures})
    if zigzag_file is not None:
        found = _recorded(zigzag.document, zigzag_file)["quantities"]
        summary["zigzag_spearman"] = found["energy"]["spearman"]
        for name, figures in found.items():
            add({"against": "zigzag", "quantity": name, **figures})
    config, timing = load_hwconfig(hw), load_memory(memory)
    chosen = rtl.layers_of(config, load_network(network), layers)
    for row in rtl.layer_rows(config, timing, chosen, kind):
        add({"against": "rtl", **row})
    summary["rtl_spearman"] = {
        rule: {row["layer"]: row["spearman"] for row in rows if row.get("assumption") == rule}
        for rule in rtl.ASSUMPTIONS
    }
    conditions = {"hw": hw, "memory": memory, "network": network, "space": kind}
    sound = all(row.get("compute_above_measured", 0) == 0 for row in rows)
    return BenchResult(rows=rows, conditions=conditions, summary=summary, passed=sound)


def _recorded(document: Callable[[Path], dict[str, Any]], path: Path) -> dict[str, Any]:
    try:
        return document(path)
    except (OSError, KeyError, ValueError) as error:
        raise ConfigError(
            f"must hold recorded rows ({type(error).__name__}: {error})",
            field=path.name,
            value=str(path),
            remedy="take those below tests/unit/bench/mapping, or make them as bench/mapping says",
        ) from None
