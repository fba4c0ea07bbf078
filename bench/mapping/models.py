# SPDX-License-Identifier: Apache-2.0
"""The cost model of mappings against MAESTRO, ZigZag and our RTL: `bench mapping-models`.

On the RTL whole schedule spaces are predicted and measured. Every legal schedule of a layer runs on
the twin, whose cycles are those of the RTL. Each is written as a mapping, too, and predicted.
`ASSUMPTIONS` are what models of this family assume.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.bench.framework.records import Cell, Row
from tilewright.bench.framework.statistics import rank_correlation
from tilewright.bench.framework.study import BenchResult, Study
from tilewright.bench.mapping import maestro, zigzag
from tilewright.host.common.errors import ConfigError
from tilewright.host.machine.board import MemoryModel, load_memory
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.network.network_table import NetworkTable
from tilewright.host.network.schedule import LoopOrder, Schedule
from tilewright.host.network.workload import Kind, Workload
from tilewright.host.network.zoo import load_network
from tilewright.tuner.exhaustive.exhaust import exhaust
from tilewright.tuner.mapping.architecture import accelerator_architecture
from tilewright.tuner.mapping.cost import CostModel, Costs
from tilewright.tuner.mapping.mapping import COLUMNS, Batch, Level, Mapping, batch_of
from tilewright.tuner.mapping.nest import LoopNest, nest_of
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.schedule.spaces import ScheduleSpace

_SLOTS: Final = 2
"""Tiles of a streamed operand that a scratchpad holds, where there are virtual threads."""


def mapping_of_schedule(hw: HwConfig, nest: LoopNest, schedule: Schedule) -> Mapping:
    """What a schedule does, as a mapping.

    Virtual threads make one larger tile: the tiles of a group share what they load. A resident
    operand is written as a tile with the whole reduction, which the scratchpad holds of it. With
    threads a streamed operand has two slots, so two tiles that take turns stay: all weights, or the
    inputs of an output tile. They are written as one.
    """
    k, c, y, x, r, s = nest.sizes
    lanes = -(-c // hw.block_in)
    steps = -(-lanes // schedule.tile_ci)
    tile_k, tile_c = schedule.tile_co * hw.block_out, schedule.tile_ci
    tiles_k, tiles_y = -(-k // tile_k), -(-y // schedule.tile_h)
    groups_k = -(-tiles_k // schedule.oc_threading)
    tile_k *= schedule.oc_threading
    if schedule.loop_order is not LoopOrder.OUTPUT_STATIONARY:
        tile_c = lanes
    elif schedule.h_threading * schedule.oc_threading > 1:
        if tiles_k * steps <= _SLOTS:
            tile_k, tile_c = k, lanes
        elif steps <= _SLOTS and min(schedule.h_threading, tiles_y) == 1 and groups_k > 1:
            tile_c = lanes
    outer = Level(
        tile=(
            min(k, tile_k),
            min(lanes, tile_c),
            min(y, schedule.tile_h * schedule.h_threading),
            min(x, schedule.tile_w),
            r,
            s,
        ),
        order="KYXCRS" if schedule.loop_order is LoopOrder.WEIGHT_STATIONARY else "YXKCRS",
        parallel="C",
    )
    inner = Level(tile=(1, 1, 1, 1, 1, 1), order="KYXCRS", parallel="K")
    return Mapping(outer=outer, inner=inner, clusters=hw.block_in, cluster_size=hw.block_out)


Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """What the model says of a layer's legal schedules, each of shape ``[n]``."""

    compute: Numbers  # cycles of the array
    dram: Numbers  # cycles of DRAM
    fill: Numbers  # first and last tiles
    waits: Numbers  # latency of DRAM, once for each outer step
    threads: npt.NDArray[np.int64]  # contexts of the schedule; with one, nothing overlaps


def _overlapped(of: Predicted) -> Numbers:
    return np.maximum(of.compute, of.dram) + of.fill


def _serial(of: Predicted) -> Numbers:
    return np.where(of.threads > 1, _overlapped(of), of.compute + of.dram)


def _waiting(of: Predicted) -> Numbers:
    return _serial(replace(of, dram=of.dram + of.waits))


ASSUMPTIONS: Final[dict[str, Callable[[Predicted], Numbers]]] = {
    "DRAM alone": lambda of: of.dram,
    "always overlapped": _overlapped,
    "overlapped with threads alone": _serial,
    "the same, and each step waits for DRAM": _waiting,
}
"""Predictions by what they assume. The cost model's own is *always overlapped*."""


def predict(hw: HwConfig, memory: MemoryModel, layer: Workload, of: list[Schedule]) -> Predicted:
    """Predictions of schedules."""
    nest = nest_of(layer)
    # Whether a schedule fits is the accelerator's to say.
    arch = replace(accelerator_architecture(hw, memory), l2_bytes=0)
    batch = batch_of(mapping_of_schedule(hw, nest, schedule) for schedule in of)
    costs: Costs = CostModel(nest, arch).costs(batch)
    dram = sum(costs[f"dram_{t}_bytes"] for t in ("weight", "input", "output"))
    steps = outer_steps(nest, batch)
    return Predicted(
        compute=costs["compute_cycles"],
        dram=np.asarray(dram) / arch.dram_bytes_per_cycle,
        fill=costs["cycles"]
        - np.maximum.reduce(
            [
                costs["compute_cycles"],
                np.maximum(costs["noc_in_bytes"], costs["noc_out_bytes"])
                / arch.noc_bytes_per_cycle,
                np.asarray(dram) / arch.dram_bytes_per_cycle,
            ]
        ),
        waits=steps * (memory.read_latency + memory.write_latency),
        threads=np.array([s.h_threading * s.oc_threading for s in of]),
    )


def outer_steps(nest: LoopNest, batch: Batch) -> Numbers:
    """Steps of the outer level of mappings, shape ``[n]``."""
    loops = np.arange(len(nest.sizes))
    parallel = batch[:, COLUMNS.index("outer_parallel")]
    clusters = batch[:, COLUMNS.index("clusters")]
    units = np.where(loops == parallel[:, None], clusters[:, None], 1)
    trips = np.ceil(np.array(nest.sizes) / (batch[:, loops] * units))
    steps: Numbers = trips.prod(axis=1)
    return steps


def figures(predicted: Numbers, measured: Numbers) -> dict[str, float | None]:
    """Rank correlation; ratios of prediction to measurement; what its choice costs.

    ``regret_pct`` is how much slower than the optimum the schedule is that the prediction puts
    first; of several with the same prediction, the median.
    """
    ratio = predicted / measured
    chosen = np.median(measured[predicted == predicted.min()])
    return {
        "spearman": rank_correlation(predicted, measured),
        "least_ratio": round(float(ratio.min()), 3),
        "median_ratio": round(float(np.median(ratio)), 3),
        "largest_ratio": round(float(ratio.max()), 3),
        "regret_pct": round(float(chosen / measured.min() - 1) * 100, 2),
    }


def layer_rows(
    hw: HwConfig, memory: MemoryModel, layers: list[Workload], kind: str
) -> Iterator[dict[str, Any]]:
    """One row for each layer and assumption."""
    for layer in layers:
        space = ScheduleSpace(layer, hw, host_rules(), kind)
        with tempfile.TemporaryDirectory() as folder:
            cycles = exhaust(space, memory, Path(folder), identity="bench").cycles
        legal = np.flatnonzero(cycles > 0)
        shape = tuple(len(knob) for knob in space.knobs)
        places = np.stack(np.unravel_index(legal, shape), axis=1)
        schedules = [space.decode(tuple(int(i) for i in place)) for place in places]
        predicted = predict(hw, memory, layer, schedules)
        measured = cycles[legal].astype(np.float64)
        for name, rule in ASSUMPTIONS.items():
            yield {
                "layer": layer.name,
                "schedules": len(legal),
                "assumption": name,
                **figures(rule(predicted), measured),
                "compute_above_measured": int((predicted.compute > measured).sum()),
            }


def layers_of(hw: HwConfig, network: NetworkTable, names: Sequence[str]) -> list[Workload]:
    """Layers of a network: those of ``names``, else convolutions that run as they are."""
    if names:
        return list(network.select(names))
    return [
        layer
        for layer in network.workloads
        if layer.kind is Kind.CONV2D and layer.channels_in >= hw.block_in
    ]


class Models(Study):
    """The cost model against recorded rows of other models, where given, and against the RTL."""

    tells = False

    def cells(self) -> list[Cell]:
        given = self.settings
        recorded = {"maestro": given.maestro, "zigzag": given.zigzag}
        named = [name for name, path in recorded.items() if path is not None]
        return [{"against": name} for name in (*named, "rtl")]

    def measure(self, cell: Cell) -> Iterator[Row]:
        given = self.settings
        if cell["against"] == "maestro":
            for name, figures in _recorded(maestro.document, given.maestro)["groups"].items():
                yield {"group": name, **figures}
        elif cell["against"] == "zigzag":
            for name, figures in _recorded(zigzag.document, given.zigzag)["quantities"].items():
                yield {"quantity": name, **figures}
        else:
            config, timing = load_hwconfig(given.hw), load_memory(given.memory)
            chosen = layers_of(config, load_network(given.network), given.layers)
            yield from layer_rows(config, timing, chosen, given.space.value)

    def conditions(self) -> Row:
        space = self.settings.space.value
        return {**self.of_settings("hw", "memory", "network"), "space": space}

    def summarise(self, rows: Sequence[Row]) -> Row:
        found: dict[str, Any] = {}
        for row in rows:
            if row.get("group") == "all":
                found["maestro_spearman"] = row["spearman"]
            if row.get("quantity") == "energy":
                found["zigzag_spearman"] = row["spearman"]
        found["rtl_spearman"] = {
            rule: {row["layer"]: row["spearman"] for row in rows if row.get("assumption") == rule}
            for rule in ASSUMPTIONS
        }
        return found

    def passed(self, result: BenchResult) -> bool:
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
