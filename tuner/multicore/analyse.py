# SPDX-License-Identifier: Apache-2.0
"""From a group and a platform to a job table: what each job takes on each core, and why.

Each distinct layer is costed once on each distinct core, and the build cache keeps the result.

The cost of a layer on a core that is a configuration of ours: counted by the twin, no model.

The schedules of VTA's space, in every loop order, are ranked by the closed form of `LayerModel`.
The best few, and the default, run on the twin behind a memory that never waits.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from tilewright.host.common.errors import ConfigError, ProgramError, ScheduleError, WorkloadError
from tilewright.host.common.names import choices
from tilewright.host.common.str_enum import StrEnum
from tilewright.host.lowering import default_schedule
from tilewright.host.machine.board import MemoryModel, load_memory
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.schedule import LoopOrder, Schedule
from tilewright.host.network.workload import Workload
from tilewright.sim.tools.build_cache import builder, cache_dir, digest, keep_json, source_text
from tilewright.sim.twin.build import build_twin
from tilewright.sim.twin.device import COUNTER_NAMES, Refusal, Twin
from tilewright.sim.twin.library import CSchedule
from tilewright.sim.twin.native_lowering import NativeLowering, Points, encode_schedules
from tilewright.tuner.mapping.cost import NATIVE_DIR as MAPPING_DIR
from tilewright.tuner.mapping.nest import nest_of
from tilewright.tuner.multicore import core_cost
from tilewright.tuner.multicore.core_cost import IMPOSSIBLE, CoreCost, mapped_cost
from tilewright.tuner.multicore.job_table import JobTable
from tilewright.tuner.multicore.jobs import Group, Job
from tilewright.tuner.multicore.platform import Core, Platform
from tilewright.tuner.schedule.layer_model import LayerModel
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.schedule.space_prior import schedule_points
from tilewright.tuner.schedule.spaces import ScheduleSpace

MEASURED: Final = 16
"""Schedules that run on the twin, the default besides."""

RANKED: Final = 20_000
"""Schedules of a larger space that are ranked."""

_COLUMNS: Final = tuple(name for name, _ in CSchedule._fields_)
_ORDER: Final = _COLUMNS.index("loop_order")
_READ, _WRITTEN = (COUNTER_NAMES.index(name) for name in ("bytes_read", "bytes_written"))


def twin_cost(workload: Workload, hw: HwConfig, link: float, *, flexible: bool = False) -> CoreCost:
    """The cost of a layer on a configuration, with the best of a few schedules.

    The best has the least cycles and, where it moves more than ``link`` bytes per cycle, the least
    bytes; with ``flexible`` it is the best over all legal shapes of as many multipliers.
    """
    memory = load_memory("ideal")
    configs = tuple(shapes_of(hw)) if flexible else (hw,)
    return min(
        (_cost(workload, each, memory, link) for each in configs),
        key=lambda cost: (max(cost.latency, cost.bytes / link), cost.latency),
    )


def shapes_of(hw: HwConfig) -> Iterator[HwConfig]:
    """The configuration and all others that differ in the array's shape alone."""
    yield hw
    pes = hw.block_in * hw.block_out
    block_in = 1
    while block_in <= pes:
        if block_in != hw.block_in:
            with contextlib.suppress(ConfigError):  # no legal shape
                yield hw.with_(block_in=block_in, block_out=pes // block_in)
        block_in *= 2


def _cost(workload: Workload, hw: HwConfig, memory: MemoryModel, link: float) -> CoreCost:
    try:
        points = np.concatenate(
            [encode_schedules([default_schedule(hw, workload)]), _promising(workload, hw, memory)]
        )
    except (ProgramError, ScheduleError):
        return IMPOSSIBLE
    twin, lowering = Twin(hw, memory), NativeLowering(hw, workload)
    try:
        ran = twin.batch(lowering, points)
    finally:
        lowering.close()
        twin.close()
    counted = (ran.rules == 0) & (ran.refusals == Refusal.NONE)
    if not counted.any():
        return IMPOSSIBLE
    moved = ran.counters[:, [_READ, _WRITTEN]].sum(axis=1)
    at_link = np.where(counted, np.maximum(ran.cycles, moved / link), np.inf)
    best = int(np.lexsort((ran.cycles, at_link))[0])
    return CoreCost(
        latency=float(ran.cycles[best]),
        bytes=float(moved[best]),
        shape=(hw.block_in, hw.block_out),
        how=dict(zip(_COLUMNS, points[best].tolist(), strict=True)),
    )


def _promising(workload: Workload, hw: HwConfig, memory: MemoryModel) -> Points:
    """The legal schedules that the closed form predicts to be fastest, int32 ``[n, 9]``."""
    space = ScheduleSpace(workload, hw, host_rules(), "vta")
    sizes = tuple(len(knob) for knob in space.knobs)
    flat = np.arange(space.raw_size)
    if len(flat) > RANKED:
        flat = np.sort(np.random.default_rng(0).choice(space.raw_size, RANKED, replace=False))
    points = schedule_points(space.knobs, np.stack(np.unravel_index(flat, sizes), axis=1))
    orders = encode_schedules(
        Schedule(tile_h=1, tile_w=1, tile_ci=1, tile_co=1, loop_order=order) for order in LoopOrder
    )[:, _ORDER]
    points = np.repeat(points, len(orders), axis=0)
    points[:, _ORDER] = np.tile(orders, len(points) // len(orders))
    model = LayerModel(hw, workload, memory)
    points = points[model.within(points)]
    points = points[model.legal(points)]
    return points[np.argsort(model.predict(points).cycles, kind="stable")[:MEASURED]]


class BandwidthModel(StrEnum):
    """What the required bandwidth of a job is."""

    TRAFFIC = "traffic"
    """All that it reads from and writes to DRAM, over its latency."""
    PAPER = "paper"
    """One copy of the tiles in the core's shared buffer, over its latency: what M3E's code takes.
    It is far below the traffic of most layers."""


Listener = Callable[[int, int, str], None]
"""Told about costs done, costs in all, and what was done."""


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """The job table of a group on a platform, and what is behind it.

    Attributes:
        costs: of the piece of each job (see `Job.piece`) on each core, ``[jobs][cores]``.
    """

    group: Group  # its jobs are the rows
    platform: Platform  # its cores are the columns
    table: JobTable  # the job analysis table; bandwidths in bytes per cycle
    costs: tuple[tuple[CoreCost, ...], ...]

    @property
    def proven(self) -> bool:
        """Every latency of a described core is proven to be the least."""
        return all(
            cost.gap == 0
            for row in self.costs
            for cost, core in zip(row, self.platform.cores, strict=True)
            if not isinstance(core.hardware, HwConfig)
        )


def analyse(
    group: Group,
    platform: Platform,
    *,
    bandwidth: float | None = None,
    bw_model: str = BandwidthModel.TRAFFIC,
    link: float | None = None,
    listener: Listener | None = None,
) -> Analysis:
    """What each job takes on each core.

    Args:
        group: jobs.
        platform: cores.
        bandwidth: of the memory, in GB/s; by default the largest of the platform's.
        bw_model: one of `BandwidthModel`.
        link: bytes per cycle of a core for which its mappings and schedules are made; by default
            its share when all cores have the same. It shapes the table and is no limit of it.
        listener: told after each cost.
    """
    if bw_model not in tuple(BandwidthModel):
        raise ConfigError(
            "no bandwidth model of that name",
            field="bw_model",
            value=bw_model,
            remedy=choices(str(bw_model), tuple(BandwidthModel)),
        )
    own = [core.name for core in platform.cores if isinstance(core.hardware, HwConfig)]
    if own and bw_model == BandwidthModel.PAPER:
        raise ConfigError(
            f"must be {BandwidthModel.TRAFFIC} for {own[0]}: the twin counts bytes, no tiles",
            field="bw_model",
            value=str(bw_model),
        )
    if len(group.jobs) < len(platform.cores):
        raise WorkloadError(
            f"must have at least as many jobs as {platform.name} has cores ({len(platform.cores)})",
            field=group.name,
            value=len(group.jobs),
        )
    total = platform.bytes_per_cycle(platform.bandwidths[-1] if bandwidth is None else bandwidth)
    link = total / len(platform.cores) if link is None else link
    if not (math.isfinite(link) and link > 0):
        raise ConfigError("must be a finite number above 0", field="link", value=link)
    known = _all_costs(group, platform, link, listener)
    costs = tuple(
        tuple(known[_place(job, core, link)] for core in platform.cores) for job in group.jobs
    )
    times = [job.piece()[1] for job in group.jobs]
    for job, row in zip(group.jobs, costs, strict=True):
        if all(cost == core_cost.IMPOSSIBLE for cost in row):
            raise WorkloadError(
                f"no core of {platform.name} can run it",
                field=job.name,
                remedy="leave the layer out, or add a core with larger buffers",
            )
    table = JobTable(
        np.array([[cost.latency * n for cost in row] for row, n in zip(costs, times, strict=True)]),
        np.array([[_bandwidth(cost, bw_model) for cost in row] for row in costs]),
        tuple(job.name for job in group.jobs),
    )
    return Analysis(group=group, platform=platform, table=table, costs=costs)


def _bandwidth(cost: CoreCost, bw_model: str) -> float:
    if cost == core_cost.IMPOSSIBLE:
        return 1.0
    moved = cost.tile_bytes if bw_model == BandwidthModel.PAPER else cost.bytes
    return moved / cost.latency


def _all_costs(
    group: Group, platform: Platform, link: float, listener: Listener | None
) -> dict[str, CoreCost]:
    """Costs of the distinct places of jobs and cores."""
    places: dict[str, tuple[Job, Core]] = {}
    for job, core in itertools.product(group.jobs, platform.cores):
        places.setdefault(_place(job, core, link), (job, core))
    found = {}
    pool = ThreadPoolExecutor(os.cpu_count() or 1)  # the native searches run side by side
    try:
        asked = {
            pool.submit(_cached, place, job, core, link): (place, f"{job.name} on {core.name}")
            for place, (job, core) in places.items()
        }
        for number, future in enumerate(as_completed(asked), start=1):
            place, what = asked[future]
            found[place] = future.result()
            if listener is not None:
                listener(number, len(places), what)
    finally:
        pool.shutdown(cancel_futures=True)
    return found


def _place(job: Job, core: Core, link: float) -> str:
    """What the cost of a job on a core depends on, without names."""
    workload = job.piece()[0]
    if isinstance(core.hardware, HwConfig):
        parts = ["twin", workload.key, repr(core.hardware.parameters())]
    else:
        arch = {f.name: getattr(core.hardware, f.name) for f in fields(core.hardware)}
        for unused in ("name", "sources", "dram_bytes_per_cycle"):
            del arch[unused]
        nest = asdict(replace(nest_of(workload), name="", count=1))
        parts = ["mapped", repr(nest), repr(arch)]
    return digest([*parts, repr(link), str(core.flexible)])


def _cached(place: str, job: Job, core: Core, link: float) -> CoreCost:
    key = digest([place, _sources(twin=isinstance(core.hardware, HwConfig))])
    result = cache_dir() / "core_costs" / f"{key}.json"
    with builder(f"core-cost-{key}") as work:
        if (known := _read(result)) is not None:
            return known
        cost = _computed(job, core, link)
        keep_json(asdict(cost), work, result)
    return cost


def _computed(job: Job, core: Core, link: float) -> CoreCost:
    workload = job.piece()[0]
    if isinstance(core.hardware, HwConfig):
        return twin_cost(workload, core.hardware, link, flexible=core.flexible)
    return mapped_cost(nest_of(workload), core.hardware, link, flexible=core.flexible)


_SOURCES: Final = (Path(core_cost.__file__), Path(__file__))


def _sources(*, twin: bool) -> str:
    """Digest of the code that a cost comes from."""
    if twin:
        return digest([source_text(_SOURCES[1]), str(build_twin())])
    native = sorted(path for path in MAPPING_DIR.iterdir() if path.suffix in (".cpp", ".h"))
    return digest([source_text(path) for path in (_SOURCES[0], *native)])


def _read(path: Path) -> CoreCost | None:
    """A kept cost; None when there is no whole one."""
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return CoreCost(**{**values, "shape": tuple(values["shape"])})
    except (OSError, ValueError, KeyError, TypeError):
        return None
