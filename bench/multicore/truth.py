# SPDX-License-Identifier: Apache-2.0
"""Mapped groups on the RTL of several cores: makespans that models predict, and the one that is.

A group of small layers is mapped onto a system by several mappers, and each mapping runs on the
verilated RTL: all cores at the same time, behind one DRAM, every output compared with the
reference. `MODELS` predict the makespan before.

    tilewright bench multicore-rtl --quick
    tilewright bench multicore-rtl --device twin --systems quad-mixed
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Final

import numpy as np

from tilewright.bench.commands import TruthSettings
from tilewright.bench.framework.records import Cell, Row
from tilewright.bench.framework.study import BenchResult, Study, machine
from tilewright.host.common.errors import WorkloadError
from tilewright.host.lowering import LoweredLayer, lower
from tilewright.host.machine.board import MemoryModel, load_memory
from tilewright.host.machine.system_config import SystemConfig, load_system
from tilewright.host.network.golden import conv2d_int8, random_tensors
from tilewright.host.network.network_table import NetworkTable
from tilewright.host.runtime.device import Bytes
from tilewright.host.runtime.system_device import Submission
from tilewright.sim.devices import open_system
from tilewright.sim.multicore.device import SimulatedSystem
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.twin.device import Twin
from tilewright.sim.twin.native_lowering import decode_schedule
from tilewright.tuner.multicore.allocation import Policy
from tilewright.tuner.multicore.analyse import Analysis, analyse
from tilewright.tuner.multicore.encoding import Population
from tilewright.tuner.multicore.instance import Instance
from tilewright.tuner.multicore.job_table import JobTable
from tilewright.tuner.multicore.jobs import draw_group, task_networks
from tilewright.tuner.multicore.methods.registry import make_group_mapper
from tilewright.tuner.multicore.platform import platform_of, ports_of, regulation_of

MODELS: Final = ("fluid", "directions", "alone", "arbitrated")
"""What is predicted with.

- ``fluid``: as M3E. Latencies behind a memory that never waits; a job needs all its bytes over its
  latency; reads and writes share what both channels have together.
- ``directions``: the same latencies; a job needs the bytes of its busier direction, and the limit
  is that of one channel.
- ``alone``: as ``directions``, but the latency is what the job takes alone behind this memory, and
  `GAP_CYCLES` pass between the programs of a core.
- ``arbitrated``: as ``alone``, but running jobs share by the weights of the arbiter, up to what
  they need, and not in proportion to it; budgets of reads hold, and each port has a memory of its
  own. To the other models the ports are one memory as large as all of them.
"""
MENDED: Final = "arbitrated"
SEARCHED: Final = {"magma": ("fluid", MENDED), "tilewright": ("fluid", MENDED)}
"""Models that a mapper searches with; the others use the first alone."""
GAP_CYCLES: Final = 5
"""Cycles from the end of a program of a queue to the start of the next."""
JOB_CYCLES: Final = 40_000
"""Least cycles of a job on the smallest core, at most: what keeps a run at seconds."""
TIMING: Final = "pynq-z2"
"""Memory whose latencies are taken."""


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A job on a core, ready to run."""

    lowered: LoweredLayer  # the layer
    image: Bytes  # memory with its tensors
    golden: Any  # what it must give
    times: int  # that it runs, one after another

    def is_right(self, memory: Bytes) -> bool:
        """Whether a memory holds the output."""
        return np.array_equal(self.lowered.output(memory), self.golden)


def small_networks(task: str, macs: int) -> list[NetworkTable]:
    """The networks of a task, with their layers of at most so many multiply-accumulates."""
    found = []
    for network in task_networks(task):
        layers = tuple(w for w in network.workloads if w.kind.weighs and w.macs <= macs)
        if layers:
            found.append(NetworkTable(name=network.name, workloads=layers))
    if not found:
        raise WorkloadError(
            f"has no layer of at most {macs:,} multiply-accumulates", field="task", value=task
        )
    return found


def memory_of(bandwidth: float) -> MemoryModel:
    """DRAM of so many bytes per cycle in each direction, with the latencies of `TIMING`."""
    return replace(
        load_memory(TIMING),
        name=f"{bandwidth:g}-bytes",
        read_bytes_per_cycle=bandwidth,
        write_bytes_per_cycle=bandwidth,
        shared_bytes_per_cycle=0.0,
    )


def _group(
    options: TruthSettings,
    system: SystemConfig,
    device: SimulatedSystem[Any],
    networks: Sequence[NetworkTable],
    seed: int,
    bandwidth: float,
) -> Iterable[dict[str, Any]]:
    """The rows of one group: every mapper with every model that it searches with."""
    cores = len(system.cores)
    group = draw_group("group", networks, seed=seed, size=options.size, mini_batch=1, cores=cores)
    ports = system.memory_ports
    platform = platform_of(system, clock_mhz=1000, bandwidths=(2 * ports * bandwidth,))
    analysis = analyse(group, platform)
    pieces = pieces_of(analysis, system)
    right = device.fidelity.computes or right_on_the_reference(pieces, system)
    instances = instances_of(analysis, pieces, system, bandwidth)
    for method in options.methods:
        for model in SEARCHED.get(method, MODELS[:1]):
            trace = make_group_mapper(method).run(instances[model], options.budget, seed)
            measured, exact = measure(device, pieces, trace.mapping)
            exact = exact and right
            yield {
                "method": method,
                "searched_with": model,
                "predicted": {
                    name: round(float(each.makespans(trace.mapping)[0]))
                    for name, each in instances.items()
                },
                "measured": measured,
                "exact": exact,
            }


def pieces_of(analysis: Analysis, system: SystemConfig) -> list[list[Piece]]:
    """Every job on every core with the schedule of the analysis, ``[jobs][cores]``."""
    found = []
    for number, (job, costs) in enumerate(zip(analysis.group.jobs, analysis.costs, strict=True)):
        workload, times = job.piece()
        tensors = random_tensors(workload, np.random.default_rng(number))
        golden = conv2d_int8(workload, tensors)
        row = []
        for core, cost in zip(system.cores, costs, strict=True):
            lowered = lower(core.hw, workload, decode_schedule(cost.how))
            image = lowered.image(tensors)
            row.append(Piece(lowered=lowered, image=image, golden=golden, times=times))
        found.append(row)
    return found


def instances_of(
    analysis: Analysis,
    pieces: Sequence[Sequence[Piece]],
    system: SystemConfig,
    bandwidth: float,
) -> dict[str, Instance]:
    """The group as each of `MODELS` sees it."""
    shape = analysis.table.latency.shape
    busier, alone = np.empty(shape), np.empty(shape)
    for core, entry in enumerate(system.cores):
        twin = Twin(entry.hw, memory_of(bandwidth))
        try:
            for job, row in enumerate(pieces):
                counted = twin.counters(row[core].lowered.program)
                moved = max(counted.values["bytes_read"], counted.values["bytes_written"])
                busier[job, core] = moved * row[core].times
                alone[job, core] = (counted.cycles + GAP_CYCLES) * row[core].times
        finally:
            twin.close()
    ideal, names = analysis.table.latency, analysis.table.names
    behind = JobTable(alone, busier / alone, names)
    channel = system.memory_ports * bandwidth
    return {
        "fluid": Instance(table=analysis.table, bandwidth=2 * channel),
        "directions": Instance(table=JobTable(ideal, busier / ideal, names), bandwidth=channel),
        "alone": Instance(table=behind, bandwidth=channel),
        "arbitrated": Instance(
            table=behind,
            bandwidth=bandwidth,
            policy=Policy.REGULATED,
            regulation=regulation_of(system, reads=True),
            ports=ports_of(system),
        ),
    }


def measure(
    device: SimulatedSystem[Any], pieces: Sequence[Sequence[Piece]], mapping: Population
) -> tuple[int, bool]:
    """Cycles of a mapping on the hardware, and whether every output that it gives is right."""
    core, priority = mapping.core[0], mapping.priority[0]
    given = []
    for job in np.lexsort((np.arange(len(priority)), priority)):
        piece = pieces[job][core[job]]
        one = Submission(core=int(core[job]), program=piece.lowered.program, memory=piece.image)
        given += [(one, piece)] * piece.times
    result = device.run([submission for submission, _ in given])
    exact = all(
        ended.error is None and (not device.fidelity.computes or piece.is_right(ended.memory))
        for ended, (_, piece) in zip(result.results, given, strict=True)
    )
    return result.makespan, exact


def right_on_the_reference(pieces: Sequence[Sequence[Piece]], system: SystemConfig) -> bool:
    """Whether each job on each core gives its output: asked once where the device has no data."""
    devices = [ReferenceDevice(core.hw) for core in system.cores]
    return all(
        piece.is_right(device.run(piece.lowered.program, piece.image).memory)
        for row in pieces
        for device, piece in zip(devices, row, strict=True)
    )


def summarise(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the rows say.

    ``rtl_prediction_error_pct`` is the median size of the mended model's error; ``error_pct`` has
    median and largest size per model. ``choice_regret_pct``: how much slower than the best mapping
    of its group the one is that a model puts first, mean over groups. ``mended_search_gain``: the
    makespans of the mappings that `tilewright` found with the first model, over those with the
    mended one, geometric mean.
    """
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        key = (row["system"], row["task"], row["seed"], row["bytes_per_cycle"])
        groups.setdefault(key, []).append(row)
    errors = {
        model: [abs(row["predicted"][model] / row["measured"] - 1) * 100 for row in rows]
        for model in MODELS
    }
    regrets = {model: [_regret(each, model) for each in groups.values()] for model in MODELS}
    return {
        "rtl_groups": len(groups),
        "rtl_runs": len(rows),
        "exact": all(row["exact"] for row in rows),
        "rtl_prediction_error_pct": round(median(errors[MENDED]), 3),
        "error_pct": {
            model: {"median": round(median(found), 3), "largest": round(max(found), 3)}
            for model, found in errors.items()
        },
        "choice_regret_pct": {
            model: {"mean": round(float(np.mean(found)), 3), "largest": round(max(found), 3)}
            for model, found in regrets.items()
        },
        "mended_search_gain": _gain(groups.values()),
    }


def _regret(group: Sequence[Mapping[str, Any]], model: str) -> float:
    """Per cent over the best mapping of the one that a model puts first."""
    chosen = min(group, key=lambda row: row["predicted"][model])
    return float((chosen["measured"] / min(row["measured"] for row in group) - 1) * 100)


def _gain(groups: Iterable[Sequence[Mapping[str, Any]]]) -> float | None:
    """See `summarise`; None: that mapper did not run with both models."""
    ratios = []
    for group in groups:
        found = {r["searched_with"]: r["measured"] for r in group if r["method"] == "tilewright"}
        if {MODELS[0], MENDED} <= set(found):
            ratios.append(found[MODELS[0]] / found[MENDED])
    return round(float(np.exp(np.mean(np.log(ratios)))), 4) if ratios else None


class Truth(Study):
    """Groups of jobs on systems behind DRAMs of several bandwidths."""

    def cells(self) -> list[Cell]:
        given = self.settings
        grid = itertools.product(given.systems, given.bandwidths, given.tasks, range(given.seeds))
        return [
            {"system": system, "task": task, "seed": seed, "bytes_per_cycle": bandwidth}
            for system, bandwidth, task, seed in grid
        ]

    def measure(self, cell: Cell) -> Iterator[Row]:
        given, system, bandwidth = (
            self.settings,
            load_system(cell["system"]),
            cell["bytes_per_cycle"],
        )
        macs = JOB_CYCLES * min(core.hw.block_in * core.hw.block_out for core in system.cores)
        networks = small_networks(cell["task"], macs)
        with closing(open_system(given.device.value, system, memory_of(bandwidth))) as device:
            yield from _group(given, system, device, networks, cell["seed"], bandwidth)

    def conditions(self) -> Row:
        return {
            "memory": f"latencies of {TIMING}",
            "jobs": self.settings.size,
            "budget": self.settings.budget,
            "job_cycles": JOB_CYCLES,
            "fidelity": self.settings.device.value,
        }

    def environment(self) -> Row:
        return {name: value for name, value in machine().items() if name != "python"}

    def summarise(self, rows: Sequence[Row]) -> Row:
        return summarise(rows)

    def passed(self, result: BenchResult) -> bool:
        return bool(result.summary.get("exact", True))

    def line(self, row: Row) -> str:
        told = ", ".join(
            f"{model} {100 * (value / row['measured'] - 1):+.1f} %"
            for model, value in row["predicted"].items()
        )
        right = "bit-exact" if row["exact"] else "WRONG OUTPUT"
        return (
            f"{row['system']} {row['task']} {row['seed']}, {row['bytes_per_cycle']:g} B/cycle, "
            f"{row['method']} with {row['searched_with']}: {row['measured']:,} cycles, {right}; "
            f"{told}"
        )
