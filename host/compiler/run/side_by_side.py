# SPDX-License-Identifier: Apache-2.0
"""Compiled networks side by side on the cores of a system, and what they cost each other.

Every core runs its programs back to back from its queue. Operators on the CPU take no time here:
their results are there when a program begins (`recorded`). Networks on one core take turns, frame
by frame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

import numpy as np

from tilewright.host.common.errors import DeviceError, ProgramError
from tilewright.host.compiler.pack.artefact import CompiledNetwork
from tilewright.host.compiler.run.recorded import Frame
from tilewright.host.machine.hwconfig import load_hwconfig, named_configs
from tilewright.host.machine.system_config import SystemConfig
from tilewright.host.runtime.system_device import SharedPorts, Submission, SystemDevice

MAX_BYTES: Final = 3 << 30
"""Of the memories of all programs of a run: a machine must hold them twice."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Tenant:
    """A network on a core.

    Attributes:
        frames: inferences as a reference ran them; the cycles of an inference do not depend on its
            data, so a run of more frames uses them again in their order.
    """

    name: str  # label
    core: int  # number of the core
    frames: Sequence[Frame]


@dataclass(frozen=True, kw_only=True)
class FrameTime:
    """When a frame ran, in cycles from the start of the first program of the run."""

    asked: int  # its request: the end of the network's frame before it, 0 for the first
    begin: int  # start of its first program
    end: int  # end of its last program

    @property
    def latency(self) -> int:
        """Cycles from the request to the end."""
        return self.end - self.asked


@dataclass(frozen=True, kw_only=True)
class Ran:
    """Tenants that ran at the same time.

    Attributes:
        wrong_bytes: by tenant, bytes of the programs' memories that differ from the reference's;
            None on a device without data.
        shares: by core, counters of its arbiter (`registers.SHARE_COUNTER_NAMES`).
    """

    times: tuple[tuple[FrameTime, ...], ...]  # of each tenant's frames, in the order of the tenants
    wrong_bytes: tuple[int | None, ...]
    shares: tuple[Mapping[str, int], ...]
    makespan: int  # cycles from the first start to the last end
    host_seconds: float  # wall-clock time


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """What a tenant's frames took alone and together with the others."""

    alone: int  # cycles of a frame with all ports to itself and without budgets
    times: tuple[FrameTime, ...]  # of the frames together with the others

    @property
    def together(self) -> float:
        """Cycles per frame: from the first request to the last end, over the frames."""
        return self.times[-1].end / len(self.times)

    @property
    def slow_down(self) -> float:
        """Cycles per frame together with the others, over those alone."""
        return self.together / self.alone

    @property
    def progress(self) -> float:
        """Share of its speed alone that the tenant keeps."""
        return self.alone / self.together

    @property
    def latencies(self) -> tuple[int, float, int]:
        """Of the first frame, the median, and the worst, in cycles."""
        found = [time.latency for time in self.times]
        return found[0], median(found), max(found)

    def per_second(self, clock_mhz: float) -> float:
        """Frames per second at a clock."""
        return 1e6 * clock_mhz / self.together


def jain(values: Sequence[float]) -> float:
    """The fairness index of Jain, Chiu and Hawe (1984): (sum x)^2 / (n * sum x^2).

    1 when all are equal, 1/n when one has everything.
    """
    found = np.asarray(values, dtype=np.float64)
    return float(found.sum() ** 2 / (found.size * (found**2).sum()))


def check_placement(
    system: SystemConfig,
    networks: Sequence[CompiledNetwork],
    cores: Sequence[int],
    called: str = "",
) -> None:
    """Refuse networks that cannot run on the cores that they are placed on."""
    count = len(system.cores)
    for network, core in zip(networks, cores, strict=True):
        if not 0 <= core < count:
            raise ProgramError(
                f"{system.name} has cores 0 to {count - 1}",
                field="cores",
                value=core,
                remedy="place networks on those",
            )
        hw = system.cores[core].hw
        if not network.programs:
            raise ProgramError(
                "has no program: all its operators run on the CPU",
                field=network.name,
                remedy="compile it with --offload-all, or run it without a system",
            )
        if network.hw.config_hash != hw.config_hash:
            raise ProgramError(
                f"was compiled for {network.hw.name} ({network.hw.config_hash:#010x}), core {core} "
                f"of {system.name} is {hw.name} ({hw.config_hash:#010x})",
                field=network.name,
                remedy=f"tilewright compile MODEL --hw {core_name(system, core, called)}",
            )


def core_name(system: SystemConfig, core: int, called: str = "") -> str:
    """What ``tilewright compile --hw`` takes for a core of a system, called by name or file."""
    hw = system.cores[core].hw
    if hw.name in named_configs() and load_hwconfig(hw.name).config_hash == hw.config_hash:
        return hw.name
    return f"{called or system.name}:{core}"


def run_alone(device: SharedPorts, tenant: Tenant, *, check: bool = True) -> Ran:
    """One frame of a tenant while the other cores rest, without weights and budgets."""
    for core in range(len(device.system.cores)):
        device.set_share(core)
    return run_frames(device, [tenant], [1], check=check)


def set_shares(device: SharedPorts, shares: SystemConfig) -> None:
    """Give the cores of a device the weights, budgets and window of a system of as many cores."""
    device.set_window(shares.window)
    for number, core in enumerate(shares.cores):
        device.set_share(
            number,
            weight=core.weight,
            read_budget=core.read_budget,
            write_budget=core.write_budget,
        )


def run_together(
    device: SharedPorts,
    shares: SystemConfig,
    tenants: Sequence[Tenant],
    counts: Sequence[int],
    *,
    check: bool = True,
) -> Ran:
    """Frames of all tenants at the same time."""
    set_shares(device, shares)
    return run_frames(device, tenants, counts, check=check)


def balanced_counts(
    tenants: Sequence[Tenant], alone: Sequence[int], frames: int
) -> tuple[int, ...]:
    """Frames of each tenant so that all cores are busy until the slowest has ended.

    The tenants of the core with the most work run ``frames``; those of another core so many more as
    fit the same time, by what a frame takes alone.
    """
    load: dict[int, int] = {}
    for tenant, cycles in zip(tenants, alone, strict=True):
        load[tenant.core] = load.get(tenant.core, 0) + frames * cycles
    most = max(load.values())
    return tuple(max(frames, round(frames * most / load[tenant.core])) for tenant in tenants)


def check_room(size: int) -> None:
    """Refuse frames whose memories exceed `MAX_BYTES`, before anything is made for them."""
    if size > MAX_BYTES:
        raise ProgramError(
            f"the memories of all frames must fit {MAX_BYTES:,} bytes",
            field="frames",
            value=f"{size:,} bytes",
            remedy="run fewer frames",
        )


def run_frames(
    device: SystemDevice, tenants: Sequence[Tenant], counts: Sequence[int], *, check: bool = True
) -> Ran:
    """Frames of tenants at the same time, with the shares of ports as they are."""
    check_room(
        sum(
            count * sum(run.program.memory_bytes for run in tenant.frames[0].runs)
            for tenant, count in zip(tenants, counts, strict=True)
        )
    )
    given: list[Submission] = []
    expected = []
    places: list[list[list[int]]] = [[[] for _ in range(count)] for count in counts]
    for _, who, frame in sorted(
        ((frame + 0.5) / count, who, frame)
        for who, count in enumerate(counts)
        for frame in range(count)
    ):  # networks that share a core are spread evenly over each other
        tenant = tenants[who]
        for run in tenant.frames[frame % len(tenant.frames)].runs:
            places[who][frame].append(len(given))
            given.append(Submission(core=tenant.core, program=run.program, memory=run.before))
            expected.append(run.after)
    result = device.run(given)
    times = []
    for who, tenant in enumerate(tenants):
        asked, found = 0, []
        for number, programs in enumerate(places[who]):
            ended = [result.results[place] for place in programs]
            for one in ended:
                if one.error is not None:
                    raise DeviceError(
                        f"frame {number} did not end well ({one.error})",
                        field=f"{tenant.name} on core {tenant.core}",
                        remedy="compile the network again",
                    ) from one.error
            found.append(FrameTime(asked=asked, begin=ended[0].begin, end=ended[-1].end))
            asked = found[-1].end
        times.append(tuple(found))
    wrong: list[int | None] = [None] * len(tenants)
    if check:
        differing = [
            int(np.count_nonzero(one.memory != right))
            for one, right in zip(result.results, expected, strict=True)
        ]
        wrong = [sum(differing[p] for frame in mine for p in frame) for mine in places]
    return Ran(
        times=tuple(times),
        wrong_bytes=tuple(wrong),
        shares=tuple(result.shares),
        makespan=result.makespan,
        host_seconds=result.host_seconds,
    )


@dataclass(kw_only=True)
class Measured:
    """What was measured of tenants, as far as it came.

    Attributes:
        alone: runs of single frames, in the order of the tenants.
    """

    alone: list[Ran] = field(default_factory=list)
    together: Ran | None = None  # the run of all; None: it did not end
    stopped: bool = False  # Ctrl-C ended it before

    def sharing(self) -> list[Sharing]:
        """Of each tenant, once all ran together."""
        if self.together is None:
            return []
        return [
            Sharing(alone=ran.times[0][0].end, times=times)
            for ran, times in zip(self.alone, self.together.times, strict=True)
        ]

    @property
    def wrong_bytes(self) -> int | None:
        """Bytes that differ from the reference's in all runs; None on a device without data."""
        runs = [*self.alone, *([self.together] if self.together else [])]
        found = [count for ran in runs for count in ran.wrong_bytes if count is not None]
        return sum(found) if found else None


def measure(
    device: SharedPorts,
    shares: SystemConfig,
    tenants: Sequence[Tenant],
    frames: int | Sequence[int],
    *,
    check: bool = True,
    tell: Callable[[str, int, int], None] = lambda *_: None,
) -> Measured:
    """Run each tenant alone, then all together; Ctrl-C ends it, and what there is stays."""
    found = Measured()
    parts = len(tenants) + 1
    try:
        for number, tenant in enumerate(tenants):
            tell(f"{tenant.name} alone", number, parts)
            found.alone.append(run_alone(device, tenant, check=check))
        counts: Sequence[int] = frames if not isinstance(frames, int) else ()
        if isinstance(frames, int):
            alone = [ran.times[0][0].end for ran in found.alone]
            counts = balanced_counts(tenants, alone, frames)
        tell("all together", len(tenants), parts)
        found.together = run_together(device, shares, tenants, counts, check=check)
    except KeyboardInterrupt:
        found.stopped = True
    return found
