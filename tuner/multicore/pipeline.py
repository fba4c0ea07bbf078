# SPDX-License-Identifier: Apache-2.0
"""A network cut over the cores of a system, so that the slowest stage is fast.

The twin counts each operator's cycles on each core. `best_cut` balances them; the stages then run
at the same time, and what they lose to each other goes into the costs of the next cut.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.lower.cut import crossing
from tilewright.host.compiler.lower.executable import RegionExecutable
from tilewright.host.compiler.lower.qgraph import QGraph
from tilewright.host.compiler.lower.region import ScheduleOf
from tilewright.host.compiler.pipeline import ImportedNetwork, partition
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.run.host_process import HostProcess
from tilewright.host.compiler.run.in_stages import Ticks, pace, run_stages
from tilewright.host.compiler.run.side_by_side import Tenant, check_room, set_shares
from tilewright.host.compiler.staged import (
    compile_part,
    compile_stages,
    moved_bytes,
    record_stages,
    single_region,
)
from tilewright.host.machine.board import Board, MemoryModel
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.system_config import SystemConfig
from tilewright.host.runtime.system_device import SharedPorts, Submission
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.twin.network_timing import time_layers

Costs = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Cut:
    """Stages of a network."""

    places: tuple[int, ...]  # ascending numbers of the operators that begin a stage, without 0
    cores: tuple[int, ...]  # of the stages, in their order
    cycles: float  # of the slowest stage
    moved: int  # bytes that stages hand over


def best_cut(costs: Costs, moved: Sequence[int], cores: Sequence[int] | None = None) -> Cut:
    """The cut with the fastest slowest stage; of equals the one that hands over fewest bytes.

    Dynamic programming over (cores that are used, operators that are placed). The first pass finds
    the cycles of the slowest stage, the second the fewest bytes within them, so the result is
    optimal for these costs. A core may be left out.
    """
    count, operators = costs.shape
    sums = np.concatenate([np.zeros((count, 1)), np.cumsum(costs, axis=1)], axis=1)
    if cores is not None and len(cores) > operators:
        raise WorkloadError(
            f"a network of {operators} operators has no more stages than that",
            field="cores",
            value=len(cores),
            remedy="use fewer cores",
        )
    slowest = _pass(sums, moved, cores, limit=np.inf)[0]
    cycles, handed, places, order = _pass(sums, moved, cores, limit=slowest)
    return Cut(places=places, cores=order, cycles=cycles, moved=handed)


def _pass(
    sums: Costs, moved: Sequence[int], fixed: Sequence[int] | None, *, limit: float
) -> tuple[float, int, tuple[int, ...], tuple[int, ...]]:
    """One pass: with an infinite limit the least slowest stage, else the fewest bytes within it."""
    count, operators = sums.shape[0], sums.shape[1] - 1
    by_bytes = np.isfinite(limit)
    # state: (cores used, operators placed) -> (value, other value, places, order)
    states: dict[int, list[tuple[float, float, tuple[int, ...], tuple[int, ...]] | None]] = {
        0: [(0.0, 0.0, (), ())] + [None] * operators
    }
    best: tuple[float, float, tuple[int, ...], tuple[int, ...]] | None = None
    depth = count if fixed is None else len(fixed)
    for stage in range(depth):
        following: dict[
            int, list[tuple[float, float, tuple[int, ...], tuple[int, ...]] | None]
        ] = {}
        for used, row in states.items():
            tried: list[bytes] = []
            for core in range(count) if fixed is None else (fixed[stage],):
                alike = sums[core].tobytes()  # equal cores are tried once
                if used >> core & 1 or alike in tried:
                    continue
                tried.append(alike)
                target = following.setdefault(used | 1 << core, [None] * (operators + 1))
                for start, state in enumerate(row):
                    if state is None or (stage and not start):
                        continue
                    for end in range(start + 1, operators + 1):
                        cycles = float(sums[core, end] - sums[core, start])
                        if by_bytes and cycles > limit:
                            break
                        handed = float(moved[start]) if start else 0.0
                        value = state[0] + handed if by_bytes else max(state[0], cycles)
                        other = max(state[1], cycles) if by_bytes else state[1] + handed
                        known = target[end]
                        if known is None or (value, other) < known[:2]:
                            places = (*state[2], start) if start else ()
                            target[end] = (value, other, places, (*state[3], core))
        states = following
        if fixed is not None and stage < depth - 1:
            continue
        for row in states.values():
            if row[operators] is not None and (best is None or row[operators][:2] < best[:2]):
                best = row[operators]
    assert best is not None
    value, other, places, order = best
    cycles, handed = (other, value) if by_bytes else (value, other)
    return cycles, round(handed), places, order


ROUNDS: Final = 3
"""Cuts that are tried: the first balances what stages take alone."""

ScheduleBook = Callable[[HwConfig], ScheduleOf]


@dataclass(frozen=True, kw_only=True, eq=False)
class Pipeline:
    """A network in stages."""

    cut: Cut  # where, and on which cores
    stages: tuple[RegionExecutable, ...]  # compiled
    cycles: tuple[int, ...]  # of each stage while all work
    tick: int  # cycles of the slowest, from the common start
    rounds: int  # cuts that were tried


@dataclass(frozen=True, kw_only=True, eq=False)
class Whole:
    """A region on one core."""

    executable: RegionExecutable  # compiled
    operators: Costs  # cycles of each operator in its place
    cycles: int  # of all, on the twin


def whole_on(graph: QGraph, hw: HwConfig, memory: MemoryModel, schedule_of: ScheduleOf) -> Whole:
    """A fused region on a configuration, timed by the twin."""
    places = {operator.name: place for place, operator in enumerate(graph.operators)}
    found, total = np.zeros(len(graph.operators)), 0
    executable = compile_part(graph, hw, schedule_of)
    for step in executable.steps:
        counters, timings = time_layers(step.program, memory)
        total += counters.cycles
        for layer, timing in zip(step.program.layers, timings, strict=True):
            found[places[layer.operators[0]]] += timing.cycles
    return Whole(executable=executable, operators=found, cycles=total)


def balanced(
    graph: QGraph,
    device: SharedPorts,
    costs: Costs,
    book: ScheduleBook,
    *,
    cores: Sequence[int] | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Pipeline:
    """Cut a network over the cores of a system."""
    hws = [core.hw for core in device.system.cores]
    moved = [
        sum(prod(graph.tensors[name].shape) for name in crossing(graph, place))
        for place in range(len(graph.operators))
    ]
    slower = np.ones(len(hws))
    best: Pipeline | None = None
    tried: set[tuple[tuple[int, ...], tuple[int, ...]]] = set()
    for number in range(1, ROUNDS + 1):
        cut = best_cut(costs * slower[:, None], moved, cores)
        if (cut.places, cut.cores) in tried:
            break
        tried.add((cut.places, cut.cores))
        tell(f"cut {number}: {len(cut.cores)} stages")
        stages = compile_stages(graph, cut.places, [hws[core] for core in cut.cores], book)
        cycles, tick = _together(device, stages, cut.cores)
        if best is None or tick < best.tick:
            best = Pipeline(cut=cut, stages=tuple(stages), cycles=cycles, tick=tick, rounds=number)
        edges = [0, *cut.places, len(graph.operators)]
        for place, core in enumerate(cut.cores):
            alone = costs[core, edges[place] : edges[place + 1]].sum()
            slower[core] = cycles[place] / alone if alone else 1.0
    assert best is not None
    return best


def _together(
    device: SharedPorts, stages: Sequence[RegionExecutable], cores: Sequence[int]
) -> tuple[tuple[int, ...], int]:
    """Cycles of stages that run at the same time, on any data, and those until the last ends."""
    given, owner = [], []
    for place, (stage, core) in enumerate(zip(stages, cores, strict=True)):
        for step in stage.steps:
            program = step.program.program
            given.append(Submission(core=core, program=program, memory=program.image()))
            owner.append(place)
    result = device.run(given)
    begin: dict[int, int] = {}
    end: dict[int, int] = {}
    for place, one in zip(owner, result.results, strict=True):
        if one.error is not None:
            raise one.error
        begin[place] = min(begin.get(place, one.begin), one.begin)
        end[place] = max(end.get(place, 0), one.end)
    cycles = tuple(end[place] - begin[place] for place in range(len(stages)))
    return cycles, result.makespan


@dataclass(frozen=True, kw_only=True, eq=False)
class Figures:
    """What was measured of a pipeline."""

    pipeline: Pipeline  # the stages
    operators: tuple[str, ...]  # names of the network's operators, in order
    alone: tuple[float, ...]  # cycles of each stage by itself
    ticks: Ticks  # all frames through all stages; none on a device without data
    moved: int  # bytes that the CPU reads and writes per frame between stages
    whole: Mapping[str, int]  # cycles of the network on one core, by configuration
    # against the outputs of the network that is not cut; None: not compared
    wrong_elements: int | None


def measure_pipeline(
    imported: ImportedNetwork,
    device: SharedPorts,
    shares: SystemConfig,
    board: Board,
    memory: MemoryModel,
    book: ScheduleBook,
    *,
    frames: int,
    cores: Sequence[int] | None = None,
    one: HwConfig | None = None,
    seed: int = 0,
    check: bool = True,
    tell: Callable[[str], None] = lambda _: None,
) -> Figures:
    """Cut a network over the cores of a system and run frames of noise through it."""
    from tilewright.host.compiler.divide.cost import CostModel  # noqa: PLC0415  (heavy)

    hws = [core.hw for core in shares.cores]
    widest = max(hws, key=lambda hw: hw.macs_per_cycle)
    parts = partition(imported, CostModel(widest, board).refused)
    graph = single_region(parts)
    known: dict[int, Whole] = {}
    for hw in (*hws, *([one] if one else [])):
        if hw.config_hash not in known:
            tell(f"layers on {hw.name}")
            known[hw.config_hash] = whole_on(graph, hw, memory, book(hw))
    set_shares(device, shares)
    costs = np.stack([known[hw.config_hash].operators for hw in hws])
    found = balanced(graph, device, costs, book, cores=cores, tell=tell)
    ticks, wrong = Ticks(ticks=()), None
    if check:
        count = max(frames, len(found.stages))
        programs = [step.program.program for stage in found.stages for step in stage.steps]
        check_room(count * sum(program.memory_bytes for program in programs))
        tell("the stages on the reference")
        noise = Calibration(random_samples=count, seed=seed)
        inputs = list(noise.batches(imported.inputs))
        with ExitStack() as stack:
            part = stack.enter_context(HostProcess(parts.host.to_json()))
            references = [
                stack.enter_context(closing(ReferenceDevice(hws[core]))) for core in found.cut.cores
            ]
            staged = record_stages(part, graph, found.stages, references, inputs)
            uncut = known[hws[found.cut.cores[0]].config_hash].executable
            (expected,) = record_stages(part, graph, [uncut], references[:1], inputs[:1])
        wrong = sum(
            int(np.count_nonzero(array != staged[0].outputs[name]))
            for name, array in expected.outputs.items()
        )
        tenants = [
            Tenant(
                name=f"stage {place}",
                core=core,
                frames=tuple(each.stages[place] for each in staged),
            )
            for place, core in enumerate(found.cut.cores)
        ]
        ticks = run_stages(device, tenants, tell=lambda text, at, of: tell(f"{text}: {at} of {of}"))
    edges = [0, *found.cut.places, len(graph.operators)]
    return Figures(
        pipeline=found,
        operators=tuple(operator.name for operator in graph.operators),
        alone=tuple(
            float(costs[core, edges[place] : edges[place + 1]].sum())
            for place, core in enumerate(found.cut.cores)
        ),
        ticks=ticks,
        moved=moved_bytes(found.stages),
        whole={hw.name: known[hw.config_hash].cycles for hw in (*hws, *([one] if one else []))},
        wrong_elements=wrong,
    )


def pipeline_rows(found: Figures, board: Board) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Rows, one per stage, and the summary of a pipeline."""
    edges = [0, *found.pipeline.cut.places, len(found.operators)]
    rows = [
        {
            "stage": place,
            "core": core,
            "operators": edges[place + 1] - edges[place],
            "first": found.operators[edges[place]],
            "last": found.operators[edges[place + 1] - 1],
            "alone_cycles": round(found.alone[place]),
            "together_cycles": found.pipeline.cycles[place],
        }
        for place, core in enumerate(found.pipeline.cut.cores)
    ]
    clock = board.clock_mhz * 1e6
    serial, overlapped = (
        pace(found.pipeline.tick, len(rows), found.moved, board, overlapped=each)
        for each in (False, True)
    )
    summary: dict[str, Any] = {
        "tick_cycles": found.pipeline.tick,
        "moved_bytes": found.moved,
        "rounds": found.pipeline.rounds,
        "frames_per_s": round(clock / serial.period, 3),
        "latency_ms": round(1e3 * serial.latency / clock, 3),
        "overlapped_frames_per_s": round(clock / overlapped.period, 3),
        "overlapped_latency_ms": round(1e3 * overlapped.latency / clock, 3),
        "whole": {
            name: {
                "cycles": cycles,
                "frames_per_s": round(
                    clock / pace(cycles, 1, 0, board, overlapped=False).period, 3
                ),
            }
            for name, cycles in found.whole.items()
        },
        "wrong_bytes": found.ticks.wrong_bytes,
        "wrong_elements": found.wrong_elements,
        "stopped": found.ticks.stopped,
    }
    return rows, summary
