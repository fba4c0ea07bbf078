# SPDX-License-Identifier: Apache-2.0
"""Which layer is measured next: DynaTune and its baselines on the same searches.

For each network and seed, one search per task runs on the twin, as far as any allocator asks. All
allocators read the same searches (they are rested, so this changes nothing but the cost). The
sequential baseline gives each task ``--trials`` trials; the seconds that this takes under a
recorded price are everyone's budget. A slot is 1 / ``--slots`` of a task's equal share. The untuned
schedule of each task is measured first and paid by all; under ``--regime paper`` searches start
from their own first valid result instead. Time to a baseline's final latency counts from the first
moment at which the baseline itself had it; a challenger gets at most 1.5 times the budget. The
oracle is the exact optimum over all trials that any of the runs has read. The paper's regime is
meant for ``--prices board``, where a trial costs about the same on every task, as on its hardware:
where a price grows with a task's cycles, a slot of a small task is thousands of trials.

``--json`` is written after every network and seed and read at the start: a stopped run goes on.

    tilewright bench allocate --quick
    tilewright bench allocate --json build/allocate.json --html build/allocate.html
    tilewright bench allocate --regime paper --prices board --json build/allocate-paper.json
    tilewright bench allocate --quick --ablate --networks squeezenet1_0,encoder-small
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from tilewright.bench.allocate_case import FRACTIONS, LATE, REGIMES, Beliefs, Case
from tilewright.bench.allocate_summary import NEAR, Row, summarise
from tilewright.bench.allocate_trials import PRICES, Search, Tables, tasks_of
from tilewright.bench.result import BenchResult
from tilewright.host.common.errors import ConfigError
from tilewright.host.common.result_document import rows_of
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.tuner.allocate import ALLOCATORS, Course
from tilewright.tuner.measure.backends import identity_of
from tilewright.tuner.schedule.rules import host_rules

NETWORKS = (
    "alexnet", "transformer_encoder", "squeezenet", "resnet18", "mobilenet_v2", "vgg16", "vgg11",
    "vgg13", "vgg19", "resnet34",
)  # fmt: skip
QUICK = ("alexnet", "transformer_encoder")
CHALLENGERS = ("dynatune", "dynatune-share")
"""Allocators whose time to each other's final latency is told."""
BELIEVING = (*CHALLENGERS, "epsilon-greedy", "softmax")
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "dynatune: ms, C=2 or 0.2": ("dynatune", {}),
    **{
        f"dynatune-share, C={c:g}": ("dynatune-share", {"exploration": c})
        for c in (0.0, 1e-7, 1e-6, 1e-5, 1e-4, 1.0)
    },
    **{
        f"{name}, {about}": (name, options)
        for name in CHALLENGERS
        for about, options in (
            ("any rising curve", {"prior": "rising"}),
            ("peak=bound", {"peak": "bound"}),
            ("no early stop", {"patience": 1 << 30}),
        )
    },
    **{
        name: (name, {})
        for name in (
            "epsilon-greedy", "softmax", "round-robin", "dynamic-round-robin", "ansor", "headroom",
        )
    },
}  # fmt: skip


def compare(case: Case, common: Row, beliefs: Beliefs) -> tuple[list[Row], Row]:
    """Every allocator on one case: flat rows, and the curves."""
    courses = {n: case.run(n)[0] for n in ALLOCATORS if n not in BELIEVING}
    allocators, fitting = {}, {}
    goal = min(case.cost_at(c, 1.0) for c in courses.values())
    for name in BELIEVING:
        # The first has fitted all its beliefs itself: its deciding time is an honest one.
        before = sum(beliefs.seconds)
        courses[name], allocators[name] = case.run(
            name, fit=beliefs.fit, beyond=goal if name in CHALLENGERS else 0.0
        )
        fitting[name] = sum(beliefs.seconds) - before
    started = time.perf_counter()
    oracle, paid = case.oracle()
    least = [oracle.best(max(0.0, f * case.budget - paid)).cost for f in FRACTIONS]
    targets = {n: case.cost_at(c, 1.0) for n, c in courses.items()}
    floor = least[-1]
    rows = []
    for name, course in courses.items():
        inside = course.times <= case.budget
        possible = oracle.cheapest(targets[name])
        assert possible is not None  # every run is one of its choices
        theirs = course.time_to(targets[name]) if targets[name] < case.start else 0.0
        rows.append(
            common
            | {
                "what": "run",
                "allocator": name,
                "budget_seconds": round(case.budget, 3),
                "slot_seconds": round(case.slot, 4),
                "warm_up_seconds": round(case.warm_up, 4),
                "slots": len(course.choices),
                "trials": int(inside.sum()),
                "start_cycles": case.start,
                "final_cycles": targets[name],
                "seconds_to_final": round(theirs + case.warm_up, 4),
                "least_seconds_to_final": round(possible.price + paid + case.warm_up, 4),
                "mean_excess": round(
                    case.area([case.cost_at(course, f) for f in FRACTIONS], floor), 6
                ),
                "deciding_seconds": round(float(course.overheads[inside][-1]), 4),
                "belief_seconds": round(fitting.get(name, 0.0), 4),
            }
        )
    rows.append(
        common
        | {
            "what": "oracle",
            "start_cycles": case.start,
            "final_cycles": floor,
            "mean_excess": round(case.area(least, floor), 6),
            "work_seconds": round(time.perf_counter() - started, 3),
        }
    )
    rows.append(common | {"what": "forecast"} | forecast(allocators["dynatune"]))
    rows.append(
        common
        | {
            "what": "search",
            "seconds_per_trial": sum(s.seconds for s in case.searches)
            / sum(len(s.trials) for s in case.searches),
        }
    )
    for challenger in CHALLENGERS:
        for name in courses:
            if name != challenger:
                rows += pair(case, common, challenger, name, courses, targets[name])
    curves = {
        name: [round(case.cost_at(course, f) / case.start, 5) for f in FRACTIONS]
        for name, course in courses.items()
    }
    curves["oracle"] = [round(cost / case.start, 5) for cost in least]
    return rows, common | {"curves": curves}


def pair(
    case: Case, common: Row, challenger: str, baseline: str, courses: dict[str, Course], cost: float
) -> list[Row]:
    """When a challenger had what a baseline had at the end."""
    rows = []
    for near in (1.0, NEAR):
        goal = near * cost
        theirs = courses[baseline].time_to(goal) if goal < case.start else 0.0
        ours = courses[challenger].time_to(goal) if goal < case.start else 0.0
        paid = courses[challenger].time_to(goal, overhead=1.0) if goal < case.start else 0.0
        end = LATE * case.budget
        rows.append(
            common
            | {
                "what": "pair",
                "challenger": challenger,
                "baseline": baseline,
                "within": near,
                "baseline_seconds": round(theirs + case.warm_up, 4),
                "challenger_seconds": round(min(ours, end) + case.warm_up, 4),
                "censored": int(np.isinf(ours)),
                "speedup": (theirs + case.warm_up) / (min(ours, end) + case.warm_up),
                "speedup_overhead_paid": (theirs + case.warm_up) / (min(paid, end) + case.warm_up),
            }
        )
    return rows


def forecast(allocator: Any) -> Row:
    """How well the belief foretold the shares of cost that slots saved."""
    _, expected, came = np.array(allocator.forecasts).reshape(-1, 3).T
    varied = len(came) > 2 and np.ptp(came) > 0 and np.ptp(expected) > 0
    return {
        "forecasts": len(came),
        "expected": float(expected.mean()) if len(came) else None,
        "came": float(came.mean()) if len(came) else None,
        "rank_correlation": float(spearmanr(expected, came)[0]) if varied else None,
    }


def ablate(case: Case, common: Row, beliefs: Beliefs) -> list[Row]:
    """Allocators with one thing changed, on one case."""
    courses = {}
    for variant, (name, options) in VARIANTS.items():
        fit: dict[str, Any] = {"fit": beliefs.fit} if name in BELIEVING else {}
        courses[variant] = case.run(name, **fit, **options)[0]
    oracle, paid = case.oracle()
    least = [oracle.best(max(0.0, f * case.budget - paid)).cost for f in FRACTIONS]
    floor = least[-1]
    costs = {v: [case.cost_at(c, f) for f in FRACTIONS] for v, c in courses.items()}
    return [
        common
        | {
            "what": "ablation",
            "variant": variant,
            "final_cycles": found[-1],
            "final_excess": round(found[-1] / floor - 1, 6),
            "mean_excess": round(case.area(found, floor), 6),
        }
        for variant, found in {**costs, "oracle": least}.items()
    ]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is compared, on what.

    Attributes:
        hw: configuration.
        memory: by name.
        space: ``full`` or ``vta``.
        regime: of `REGIMES`.
        tuner: search tuner of every task; None: the regime's.
        trials: per task in the sequential baseline; None: the regime's.
        slots: in a task's equal share; None: the regime's.
        ablate: variants of DynaTune instead of all allocators.
        cache: folder of the trials.
    """

    hw: str
    memory: str
    space: str
    regime: str
    tuner: str | None
    trials: int | None
    slots: int | None
    ablate: bool
    cache: Path


def compare_allocators(
    options: Options,
    networks: Sequence[str],
    *,
    seeds: int,
    prices: Sequence[str],
    known: Mapping[str, Any] | None = None,
    keep: Callable[[BenchResult], None] | None = None,
) -> Study:
    """Run networks and seeds, and go on where a run was stopped.

    Args:
        options: what is compared.
        networks: by name.
        seeds: how many per network.
        prices: of `PRICES`.
        known: document of a stopped run.
        keep: gets the result after every network and seed.

    Raises:
        ConfigError: the document was made under other conditions.
    """
    study = Study(options, known)
    beliefs = Beliefs()
    for seed in range(seeds):
        for network in networks:
            study.add(network, seed, prices, beliefs)
            study.save_trials()
            if keep is not None:
                keep(study.result())
        beliefs.known.clear()
    for name, value in study.result().summary.items():
        print(f"{name} = {json.dumps(value)}")
    return study


class Study:
    """The rows of a run, as they come.

    Args:
        options: what is compared.
        known: document of a stopped run.

    Raises:
        ConfigError: the document holds other conditions.
    """

    def __init__(self, options: Options, known: Mapping[str, Any] | None = None) -> None:
        changed = {name: getattr(options, name) for name in ("tuner", "trials", "slots")}
        self.options = options
        self.regime = replace(
            REGIMES[options.regime], **{n: v for n, v in changed.items() if v is not None}
        )
        self.conditions: Row = {
            "values": "twin, exact cycles of the RTL; not confirmed on the RTL here",
            "rtl": identity_of("twin"),
            **{name: getattr(options, name) for name in ("hw", "memory", "space", "regime")},
            **asdict(self.regime),
            "prices": {name: price.source for name, price in PRICES.items()},
            "late": LATE,
        }
        self.records: list[Row] = []
        self.curves: list[Row] = []
        self._fits: list[float] = []
        self._acceptance: list[float] = []
        self._tables = Tables(
            load_hwconfig(options.hw), load_memory(options.memory), kind=options.space,
            rules=host_rules(), folder=options.cache, identity=self.conditions["rtl"],
        )  # fmt: skip
        self._searches: dict[tuple[str, int], Search] = {}
        if known is not None:
            same = {k: v for k, v in known["conditions"].items() if k in self.conditions}
            if same != self.conditions:
                raise ConfigError(
                    "the file holds rows of other conditions",
                    field="--json",
                    remedy="name another file",
                )
            self.records, self.curves = rows_of(known), known["curves"]
            self._fits = [known["conditions"]["belief_fit_seconds_median"] or 0.0]
            self._acceptance = [known["conditions"]["belief_acceptance_median"] or 0.0]

    def case(self, network: str, seed: int, price: str) -> Case:
        """The case of a network and seed; its searches are shared with other networks."""
        found = []
        for task in tasks_of(network):
            key = (task.key, seed)
            if key not in self._searches:
                self._searches[key] = Search(
                    self._tables.of(task), self.regime.tuner, seed, untuned=self.regime.untuned
                )
            found.append(self._searches[key])
        return Case(network, seed, found, PRICES[price], self.regime)

    def cases(self, networks: Iterable[str], price: str) -> dict[str, Case]:
        """The first seed of each network, for figures."""
        return {network: self.case(network, 0, price) for network in networks}

    def add(self, network: str, seed: int, prices: Sequence[str], beliefs: Beliefs) -> None:
        """Run one network and seed, unless its rows are known."""
        done = {
            (r["network"], r["seed"], r["price"], r["what"] == "ablation") for r in self.records
        }
        for stale in [key for key in self._searches if key[1] != seed]:
            del self._searches[stale]
        for price in prices:
            if (network, seed, price, self.options.ablate) in done:
                continue
            started = time.perf_counter()
            case = self.case(network, seed, price)
            common = {"network": network, "seed": seed, "price": price}
            if self.options.ablate:
                self.records += ablate(case, common, beliefs)
            else:
                rows, curves = compare(case, common, beliefs)
                self.records += rows
                self.curves.append(curves)
            self._fits += beliefs.seconds
            self._acceptance += beliefs.acceptance
            beliefs.seconds.clear()
            beliefs.acceptance.clear()
            print(
                f"{network:14} seed {seed:2} {price:5} budget {case.budget:9.1f} s, "
                f"slot {case.slot:7.2f} s, {time.perf_counter() - started:5.1f} s of work",
                flush=True,
            )

    def result(self) -> BenchResult:
        """What there is so far."""
        return BenchResult(
            rows=self.records,
            summary=summarise(self.records) if self.records else {},
            conditions={
                **self.conditions,
                "belief_fit_seconds_median": _median(self._fits),
                "belief_acceptance_median": _median(self._acceptance),
                "cpus": os.cpu_count(),
                "load": round(os.getloadavg()[0], 2),
                "python": platform.python_version(),
            },
            more={"curves": self.curves},
        )

    def save_trials(self) -> None:
        """Keep the trials of the twin."""
        self._tables.save()


def _median(values: Sequence[float]) -> float | None:
    return round(statistics.median(values), 4) if values else None
