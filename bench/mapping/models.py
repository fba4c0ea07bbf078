# SPDX-License-Identifier: Apache-2.0
"""The cost model of mappings against MAESTRO, ZigZag and our RTL: `bench mapping-models`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tilewright.bench.framework.records import Cell, Row
from tilewright.bench.framework.study import BenchResult, Study
from tilewright.bench.mapping import maestro, rtl, zigzag
from tilewright.host.common.errors import ConfigError
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.zoo import load_network


class Models(Study):
    """The cost model against recorded rows of other models, where given, and against the RTL."""

    tells = False

    def cells(self) -> list[Cell]:
        given = self.settings
        recorded = {"maestro": given.maestro, "zigzag": given.zigzag}
        named = [name for name, path in recorded.items() if path is not None]
        return [{"against": name} for name in (*named, "rtl")]

    def measure(self, cell: Cell) -> Iterator[Row]:
        """How far predictions agree, by group, quantity, or layer and assumption."""
        given = self.settings
        if cell["against"] == "maestro":
            for name, figures in _recorded(maestro.document, given.maestro)["groups"].items():
                yield {"group": name, **figures}
        elif cell["against"] == "zigzag":
            for name, figures in _recorded(zigzag.document, given.zigzag)["quantities"].items():
                yield {"quantity": name, **figures}
        else:
            config, timing = load_hwconfig(given.hw), load_memory(given.memory)
            chosen = rtl.layers_of(config, load_network(given.network), given.layers)
            yield from rtl.layer_rows(config, timing, chosen, given.space.value)

    def conditions(self) -> Row:
        given = self.settings
        names = ("hw", "memory", "network")
        return {**{name: getattr(given, name) for name in names}, "space": given.space.value}

    def summarise(self, rows: Sequence[Row]) -> Row:
        found: dict[str, Any] = {}
        for row in rows:
            if row.get("group") == "all":
                found["maestro_spearman"] = row["spearman"]
            if row.get("quantity") == "energy":
                found["zigzag_spearman"] = row["spearman"]
        found["rtl_spearman"] = {
            rule: {row["layer"]: row["spearman"] for row in rows if row.get("assumption") == rule}
            for rule in rtl.ASSUMPTIONS
        }
        return found

    def passed(self, result: BenchResult) -> bool:
        """No schedule runs faster than its products alone take."""
        return all(row.get("compute_above_measured", 0) == 0 for row in result.rows)


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
