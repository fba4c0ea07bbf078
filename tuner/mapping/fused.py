# SPDX-License-Identifier: Apache-2.0
"""Two layers whose intermediate tensor stays on chip: the best mapping of both, with a proof.

docs/explanation/exact-mapper.md says what a fused mapping is. A *step* makes one tile of the
intermediate and uses it up. Costs of the two layers of a step add up, so for one way to cut and to
keep, the best mappings of both are those of `exact`. The ways are tried by a lower bound.
"""

from __future__ import annotations

import functools
import math
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Final

import numpy as np

from tilewright.host.common.errors import ConfigError, WorkloadError
from tilewright.host.network.workload import Workload
from tilewright.tuner.mapping.architecture import Architecture
from tilewright.tuner.mapping.cost import CostModel, Objective, Resident, require_priced
from tilewright.tuner.mapping.exact import ExactSearch, Listener, Progress, gap_of, run_search
from tilewright.tuner.mapping.mapping import Mapping
from tilewright.tuner.mapping.nest import DIMENSIONS, LoopNest, NestKind, Tensor, nest_of

KEPT: Final = ("first weights", "first inputs", "second weights")
"""What a fused mapping may keep in L2 from one step to the next, when it stays the same."""

Held = frozenset[Resident]


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two layers, of which the second one reads what the first one writes."""

    first: LoopNest
    second: LoopNest
    pad_top: int = 0  # rows of padding above the intermediate
    pad_left: int = 0

    def __post_init__(self) -> None:
        """Validate."""
        if self.channels != self.second.sizes[1]:
            raise WorkloadError(
                f"must read the {self.channels} channels of {self.first.name}",
                field=f"{self.second.name}.channels_in",
                value=self.second.sizes[1],
                remedy="name two layers that follow each other",
            )

    @property
    def channels(self) -> int:
        """Channels of the intermediate."""
        return self.first.sizes[1 if self.first.kind is NestKind.DEPTHWISE else 0]

    @property
    def adds(self) -> bool:
        """Whether an output of the second layer sums over channels of the intermediate."""
        return self.second.kind is NestKind.CONV


def pair_of(first: Workload, second: Workload) -> Pair:
    """The pair of two layers that follow each other, of one image."""
    for name, own, other in (
        ("n", second.n, first.n),
        ("height", second.height, first.out_height),
        ("width", second.width, first.out_width),
    ):
        if own != other:
            raise WorkloadError(
                f"must be what {first.name} makes ({other})",
                field=f"{second.name}.{name}",
                value=own,
                remedy="name two layers that follow each other",
            )
    nests = [replace(nest_of(each), count=1) for each in (first, second)]
    return Pair(first=nests[0], second=nests[1], pad_top=second.pad_top, pad_left=second.pad_left)


@dataclass(frozen=True, kw_only=True)
class Cut:
    """How a pair is cut into steps, and what stays in L2 between them."""

    channels: int  # of the intermediate, in a step; divides them
    rows: int  # outputs of the second layer in a step; divides them
    columns: int
    channels_inside: bool = True  # steps of channels follow each other, for the same outputs
    kept: tuple[str, ...] = ()  # of `KEPT`


@dataclass(frozen=True, kw_only=True)
class Part:
    """Equal runs of one layer within the steps."""

    nest: LoopNest  # what one run does
    times: int  # runs
    held: Held = frozenset()  # what lies in L2 meanwhile
    mapping: Mapping | None = None
    cost: dict[str, float] = field(default_factory=dict)  # of one run


@dataclass(frozen=True, kw_only=True)
class Fused:
    """The best fused mapping found, and how good one can be at most."""

    pair: Pair
    cut: Cut
    parts: tuple[Part, ...]  # runs of the first layer, then those of the second
    cost: dict[str, float]  # cycles, energy, dram_bytes, l2_bytes, macs: of the pair
    value: float
    bound: float  # no fused mapping costs less
    tried: int  # cuts that were searched, of `cuts`
    cuts: int
    seconds: float
    stopped: bool = False

    @property
    def optimal(self) -> bool:
        """No fused mapping costs less: proven."""
        return self.bound >= self.value

    @property
    def steps(self) -> int:
        """Tiles of the intermediate."""
        return self.parts[-1].times

    def to_row(self) -> dict[str, Any]:
        """Plain values for a JSON document."""
        cut = self.cut
        return {
            "first": self.pair.first.name,
            "second": self.pair.second.name,
            "tile": {"channels": cut.channels, "rows": cut.rows, "columns": cut.columns},
            "channels_inside": cut.channels_inside,
            "kept": list(cut.kept),
            "steps": self.steps,
            "parts": [
                {
                    **part.nest.to_row(),
                    "times": part.times,
                    "held": sorted(part.held),
                    "mapping": part.mapping.as_dict() if part.mapping else None,
                    "cost": part.cost,
                }
                for part in self.parts
            ],
            "value": self.value,
            "bound": self.bound,
            "gap": gap_of(self.value, self.bound),
            "cost": self.cost,
            "seconds": round(self.seconds, 3),
            "tried": self.tried,
            "cuts": self.cuts,
            "stopped": self.stopped,
        }


def divisors(size: int) -> list[int]:
    """All divisors, ascending."""
    return [d for d in range(1, size + 1) if size % d == 0]


def needed(outputs: int, step: int, kernel: int, stride: int, pad: int, size: int) -> Counter[int]:
    """How many steps of a layer need how many rows of the intermediate, padding left out.

    A step that needs none, needs one.
    """
    found: Counter[int] = Counter()
    for start in range(0, outputs, step):
        low, high = start * stride - pad, (start + step - 1) * stride - pad + kernel
        found[max(1, min(high, size) - max(low, 0))] += 1
    return found


def cuts_of(pair: Pair) -> Iterator[Cut]:
    """Every cut: tiles divide, and what is kept stays for more than one step."""
    rows, columns = pair.second.sizes[2:4]
    for channels, y, x in product(divisors(pair.channels), divisors(rows), divisors(columns)):
        pixels, deep = (rows // y) * (columns // x), pair.channels // channels
        for inside in (True, False):
            if not inside and (min(pixels, deep) == 1 or pair.adds):
                continue  # the same as inside, or sums would have to leave L2
            weights = deep == 1 < pixels or (not inside and pixels > 1)
            inputs = pair.first.kind is NestKind.CONV and deep > 1 and (inside or pixels == 1)
            may = [
                name for name, able in zip(KEPT, (weights, inputs, weights), strict=True) if able
            ]
            for chosen in product((False, True), repeat=len(may)):
                kept = tuple(name for name, is_kept in zip(may, chosen, strict=True) if is_kept)
                yield Cut(channels=channels, rows=y, columns=x, channels_inside=inside, kept=kept)


@dataclass(frozen=True, kw_only=True)
class _Job:
    """A cut with what is known before any search."""

    cut: Cut
    first: tuple[Part, ...]
    second: Part
    kept_bytes: float  # between DRAM and L2, of what is kept and of sums that are complete
    first_room: float  # bytes of L2 that the other layer keeps meanwhile
    second_room: float
    bound: float = 0.0


def _job(pair: Pair, cut: Cut, arch: Architecture) -> _Job:
    first, second = pair.first, pair.second
    deep = pair.channels // cut.channels
    sums = pair.adds and deep > 1
    held = {name: name in cut.kept for name in KEPT}
    down, across = (
        needed(second.sizes[axis], step, second.sizes[axis + 2], stride, pad, first.sizes[axis])
        for axis, step, stride, pad in (
            (2, cut.rows, second.stride_y, pair.pad_top),
            (3, cut.columns, second.stride_x, pair.pad_left),
        )
    )
    own = {Resident.RESULTS}
    own |= {Resident.WEIGHTS} if held["first weights"] else set()
    own |= {Resident.INPUTS} if held["first inputs"] else set()
    parts = tuple(
        Part(
            nest=_slice(first, cut.channels, rows, columns, output=True),
            times=deep * y_times * x_times,
            held=frozenset(own),
        )
        for (rows, y_times), (columns, x_times) in product(down.items(), across.items())
    )
    other = {Resident.INPUTS}
    other |= {Resident.WEIGHTS} if held["second weights"] else set()
    other |= {Resident.SUMS} if sums else set()
    last = Part(
        nest=_slice(second, cut.channels, cut.rows, cut.columns, output=False),
        times=deep * down.total() * across.total(),
        held=frozenset(other),
    )
    weights = (arch.weight_bytes * part.nest.elements(Tensor.WEIGHTS) for part in (parts[0], last))
    w1, w2 = (own * held[name] for own, name in zip(weights, KEPT[::2], strict=True))
    inputs = [arch.input_bytes * part.nest.elements(Tensor.INPUTS) for part in parts]
    i1 = max(inputs) * held["first inputs"]
    outputs = last.nest.elements(Tensor.OUTPUTS) * sums
    between = max(part.nest.elements(Tensor.OUTPUTS) for part in parts)
    unread = max(0, between - last.nest.elements(Tensor.INPUTS))  # strides beyond the kernel
    moved = deep * (w1 + w2)
    moved += sum(p.times // deep * b for p, b in zip(parts, inputs, strict=True)) * bool(i1)
    moved += second.elements(Tensor.OUTPUTS) * arch.output_bytes * sums
    return _Job(
        cut=cut, first=parts, second=last, kept_bytes=moved,
        first_room=w2 + outputs * arch.partial_bytes,
        second_room=w1 + i1 + unread * arch.input_bytes,
    )  # fmt: skip


def _slice(nest: LoopNest, channels: int, rows: int, columns: int, *, output: bool) -> LoopNest:
    """A layer that makes (``output``) or reads so many channels, and makes so many pixels."""
    k, c, _, _, r, s = nest.sizes
    if output and nest.kind is NestKind.CONV:
        k = channels
    else:
        c = channels
    return replace(nest, sizes=(k, c, rows, columns, r, s))


# -- Lower bounds without a search ----------------------------------------------------------


@functools.lru_cache(maxsize=1 << 14)
def _least_compute(sizes: tuple[int, ...], arch: Architecture) -> float:
    """No mapping has fewer cycles of the busiest PE."""
    least = math.inf
    clusters = np.arange(1, min(arch.max_clusters or arch.pes, arch.pes) + 1)
    for a, b in product(arch.outer_parallel, arch.inner_parallel):
        outer, inner = sizes[DIMENSIONS.index(a)], sizes[DIMENSIONS.index(b)]
        pes = np.minimum(arch.max_cluster_size or arch.pes, arch.pes // clusters)
        both = -(-outer // (clusters * pes))
        if a != b:
            both = -(-outer // clusters) * -(-inner // pes)
        shared = outer if a == b else outer * inner
        least = min(least, math.prod(sizes) / shared * float(both.min()))
    return least


def least_value(nest: LoopNest, arch: Architecture, objective: Objective, held: Held) -> float:
    """A bound that no mapping of a nest is below: its operations and compulsory traffic."""
    weights = nest.elements(Tensor.WEIGHTS) * arch.weight_bytes
    inputs = nest.elements(Tensor.INPUTS) * arch.input_bytes
    outputs = nest.elements(Tensor.OUTPUTS)
    sums = Resident.SUMS in held
    back, away = (outputs * arch.partial_bytes * sums,
                  outputs * (arch.partial_bytes if sums else arch.output_bytes))  # fmt: skip
    dram = weights * (Resident.WEIGHTS not in held) + inputs * (Resident.INPUTS not in held)
    dram += outputs * arch.output_bytes * (not sums and Resident.RESULTS not in held)
    noc = weights + inputs + back
    if objective is Objective.LATENCY:
        return math.ceil(
            max(
                _least_compute(nest.sizes, arch),
                max(noc, away) / arch.noc_bytes_per_cycle,
                dram / arch.dram_bytes_per_cycle,
            )
        )
    delivered = weights + inputs + outputs * 2 * arch.partial_bytes
    of_mac = arch.weight_bytes + arch.input_bytes + 2 * arch.partial_bytes
    return (
        nest.macs * (arch.mac_energy + of_mac * arch.l1_energy)
        + delivered * (arch.l1_energy + arch.noc_energy)
        + (noc + away + dram) * arch.l2_energy
        + dram * arch.dram_energy
    ) * (1 - 1e-12)  # sums in another order


def _kept_value(bytes_: float, arch: Architecture, objective: Objective) -> float:
    """What data costs that is loaded or stored while nothing else happens."""
    if objective is Objective.LATENCY:
        return math.ceil(bytes_ / arch.dram_bytes_per_cycle)
    return bytes_ * (arch.dram_energy + arch.l2_energy)


# -- The best mapping of a part -------------------------------------------------------------


class _LateError(Exception):
    """A search has no time left."""


@dataclass(frozen=True, kw_only=True)
class _Known:
    """A result of a search with some room in L2."""

    room: float
    value: float  # of the best mapping; or, without one, what none is below
    mapping: Mapping | None = None
    l2_bytes: float = 0.0


class _Solver:
    """Best mappings of parts; what is known of a larger L2 serves for a smaller one."""

    def __init__(self, arch: Architecture, objective: Objective, listener: Listener | None) -> None:
        self.arch: Final = arch
        self.objective: Final = objective
        self.listener: Final = listener
        self.known: dict[tuple[LoopNest, Held], list[_Known]] = {}
        self.deadline = math.inf  # of processor time
        self.needed = True  # past the deadline, too, some mapping must be found
        self.hasty = False  # one was taken that is not proven best

    def solve(self, part: Part, room: float, limit: float) -> _Known:
        """The best mapping below a limit, or what says that there is none."""
        known = self.known.setdefault((part.nest, part.held), [])
        for one in known:
            if one.room >= room and (
                one.value >= limit or (one.mapping is not None and one.l2_bytes <= room)
            ):
                return one
        arch = (
            self.arch if self.arch.l2_bytes == 0 else replace(self.arch, l2_bytes=max(1, int(room)))
        )
        search = ExactSearch(part.nest, arch, self.objective, resident=part.held, value_limit=limit)
        until = self.deadline if self.needed and math.isfinite(self.deadline) else None
        if run_search(search, 0.0, until, 0.0, self._listen):
            raise KeyboardInterrupt
        mapping, value, needed_bytes = search.mapping, limit, 0.0
        if mapping is not None:
            value = search.progress.value
            cost = CostModel(part.nest, arch, resident=part.held).cost(mapping)
            needed_bytes = cost["l2_bytes"]
        found = _Known(room=room, value=value, mapping=mapping, l2_bytes=needed_bytes)
        if mapping is not None and until is not None and not search.progress.within(0):
            self.hasty = True
        else:
            known.append(found)
        return found

    def _listen(self, progress: Progress) -> None:
        if not self.needed and time.thread_time() > self.deadline:
            raise _LateError
        if self.listener is not None:
            self.listener(progress)


def best_fused(
    pair: Pair,
    arch: Architecture,
    objective: Objective = Objective.ENERGY,
    *,
    seconds: float | None = None,
    gap: float = 0.0,
    listener: Listener | None = None,
) -> Fused:
    """The fused mapping of a pair that costs least, proven.

    Ctrl-C and ``seconds`` end the search with the best one so far, if there is one.

    Raises:
        ConfigError: an objective that is no sum over layers, no energy has a price, or L2 does not
            hold a step.

    Example:
        >>> from tilewright.tuner.mapping.architecture import load_architecture
        >>> up = LoopNest(name="up", sizes=(64, 16, 1, 8, 1, 1))
        >>> down = LoopNest(name="down", sizes=(16, 64, 1, 8, 1, 1))
        >>> found = best_fused(Pair(first=up, second=down), load_architecture("flexible-256"))
        >>> found.optimal, found.cost["dram_bytes"] == 2 * 64 * 16 + 2 * 16 * 8
        (True, True)
    """
    if objective not in (Objective.LATENCY, Objective.ENERGY):
        raise ConfigError(
            "of two layers must be a sum over both",
            field="objective",
            value=objective.value,
            remedy="take latency or energy",
        )
    require_priced(arch, objective)
    started = time.thread_time()
    solver = _Solver(arch, objective, listener)
    jobs = sorted(_bounded(pair, solver), key=lambda job: job.bound)
    best: tuple[float, _Job, list[_Known]] | None = None
    tried, bound, stopped = 0, math.inf, False
    solver.deadline = math.inf if seconds is None else started + seconds
    for job in jobs:
        bound = job.bound
        value = best[0] if best else math.inf
        late = best is not None and time.thread_time() > solver.deadline
        if bound >= value * (1 - gap) or late:
            break
        tried += 1
        try:
            found = _solve_job(job, solver, value)
        except _LateError:
            break
        except KeyboardInterrupt:
            if best is None:
                raise
            stopped = True
            break
        if found is not None:
            best, solver.needed = (found[0], job, found[1]), False
            if solver.hasty:
                break
        solver.hasty = False
        bound = math.inf
    if best is None:
        raise ConfigError(
            f"holds not even the smallest step of {pair.first.name} and {pair.second.name}",
            field="l2_bytes, l1_bytes",
            value=f"{arch.l2_bytes}, {arch.l1_bytes}",
            remedy=f"give larger buffers in {arch.name}, or map the layers one by one",
        )
    value, job, results = best
    parts = []
    for part, known in zip((*job.first, job.second), results, strict=True):
        assert known.mapping is not None
        cost = CostModel(part.nest, arch, resident=part.held).cost(known.mapping)
        parts.append(replace(part, mapping=known.mapping, cost=cost))
    return Fused(
        pair=pair,
        cut=job.cut,
        parts=tuple(parts),
        cost=_cost(job, parts, arch),
        value=value,
        bound=min(value, bound),
        tried=tried,
        cuts=len(jobs),
        seconds=time.thread_time() - started,
        stopped=stopped,
    )


def _bounded(pair: Pair, solver: _Solver) -> Iterator[_Job]:
    """The cuts whose steps L2 can hold, with lower bounds of their cost."""
    arch = solver.arch
    least = functools.lru_cache(maxsize=None)(least_value)
    for cut in cuts_of(pair):
        job = _job(pair, cut, arch)
        fits = all(
            arch.l2_bytes == 0 or _held_bytes(part, arch) + room <= arch.l2_bytes
            for part, room in (
                *((part, job.first_room) for part in job.first),
                (job.second, job.second_room),
            )
        )
        if fits:
            bound = _kept_value(job.kept_bytes, arch, solver.objective) + sum(
                part.times * least(part.nest, arch, solver.objective, part.held)
                for part in (*job.first, job.second)
            )
            yield replace(job, bound=bound)


def _held_bytes(part: Part, arch: Architecture) -> float:
    widths = {
        Resident.WEIGHTS: (Tensor.WEIGHTS, arch.weight_bytes),
        Resident.INPUTS: (Tensor.INPUTS, arch.input_bytes),
        Resident.SUMS: (Tensor.OUTPUTS, arch.partial_bytes),
        Resident.RESULTS: (Tensor.OUTPUTS, arch.output_bytes),
    }
    return sum(part.nest.elements(tensor) * width
               for tensor, width in (widths[each] for each in part.held))  # fmt: skip


def _solve_job(job: _Job, solver: _Solver, limit: float) -> tuple[float, list[_Known]] | None:
    """The best mappings of a cut's parts if together they cost less than a limit."""
    arch, objective = solver.arch, solver.objective
    parts = [(part, job.first_room) for part in job.first] + [(job.second, job.second_room)]
    kept = _kept_value(job.kept_bytes, arch, objective)
    left = [part.times * least_value(part.nest, arch, objective, part.held) for part, _ in parts]
    found, value = [], kept
    for at, (part, room) in enumerate(parts):
        later = sum(left[at + 1 :])
        rest = limit - value - later
        known = solver.solve(part, arch.l2_bytes - room, rest / part.times * (1 + 1e-12))
        if known.mapping is None or value + part.times * known.value + later >= limit:
            return None
        value += part.times * known.value
        found.append(known)
    return (value, found) if value < limit else None


def _cost(job: _Job, parts: list[Part], arch: Architecture) -> dict[str, float]:
    """Costs of the pair: cycles, energy, bytes between DRAM and L2, bytes of L2, operations."""
    rooms = [job.first_room] * len(job.first) + [job.second_room]
    dram = [sum(v for name, v in part.cost.items() if name.startswith("dram_")) for part in parts]
    kept = _kept_value(job.kept_bytes, arch, Objective.ENERGY)
    return {
        "cycles": _kept_value(job.kept_bytes, arch, Objective.LATENCY)
        + sum(part.times * part.cost["cycles"] for part in parts),
        "energy": kept + sum(part.times * part.cost["energy"] for part in parts),
        "dram_bytes": job.kept_bytes
        + sum(part.times * moved for part, moved in zip(parts, dram, strict=True)),
        "l2_bytes": max(
            part.cost["l2_bytes"] + room for part, room in zip(parts, rooms, strict=True)
        ),
        "macs": float(sum(part.times * part.nest.macs for part in parts)),
    }
