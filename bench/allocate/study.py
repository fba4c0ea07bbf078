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

    tilewright bench allocate --quick
    tilewright bench allocate --json build/allocate.json --html build/allocate.html
    tilewright bench allocate --regime paper --prices board --json build/allocate-paper.json
    tilewright bench allocate --quick --ablate --networks squeezenet1_0,encoder-small
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from scipy.stats import spearmanr

from tilewright.bench.allocate.case import FRACTIONS, LATE, REGIMES, Beliefs, Case
from tilewright.bench.allocate.page import page
from tilewright.bench.allocate.summary import NEAR, summarise
from tilewright.bench.allocate.trials import PRICES, Search, Table, tasks_of
from tilewright.bench.commands import AllocateSettings
from tilewright.bench.framework.records import Cell, Row
from tilewright.bench.framework.study import BenchResult, Study, machine
from tilewright.host.common.result_document import rows_of
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.workload import Workload
from tilewright.sim.tools.build_cache import cache_dir
from tilewright.sim.twin.device import Twin
from tilewright.tuner.allocate import ALLOCATORS, Course
from tilewright.tuner.measure.backends import identity_of
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.schedule.spaces import ScheduleSpace

CHALLENGERS = ("dynatune", "dynatune-share")
"""Allocators whose time to each other's final latency is told."""
CURVES: Final = "curves"
"""What a row is called that holds the courses of all allocators."""
BELIEVING = (*CHALLENGERS, "epsilon-greedy", "softmax")
Record = dict[str, Any]

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


def compare(case: Case, beliefs: Beliefs) -> tuple[list[Record], Record]:
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
    rows: list[Record] = []
    for name, course in courses.items():
        inside = course.times <= case.budget
        possible = oracle.cheapest(targets[name])
        assert possible is not None  # every run is one of its choices
        theirs = course.time_to(targets[name]) if targets[name] < case.start else 0.0
        rows.append(
            {
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
        {
            "what": "oracle",
            "start_cycles": case.start,
            "final_cycles": floor,
            "mean_excess": round(case.area(least, floor), 6),
            "work_seconds": round(time.perf_counter() - started, 3),
        }
    )
    rows.append({"what": "forecast"} | forecast(allocators["dynatune"]))
    rows.append(
        {
            "what": "search",
            "seconds_per_trial": sum(s.seconds for s in case.searches)
            / sum(len(s.trials) for s in case.searches),
        }
    )
    for challenger in CHALLENGERS:
        for name in courses:
            if name != challenger:
                rows += pair(case, challenger, name, courses, targets[name])
    curves = {
        name: [round(case.cost_at(course, f) / case.start, 5) for f in FRACTIONS]
        for name, course in courses.items()
    }
    curves["oracle"] = [round(cost / case.start, 5) for cost in least]
    return rows, curves


def pair(
    case: Case, challenger: str, baseline: str, courses: dict[str, Course], cost: float
) -> list[Record]:
    """When a challenger had what a baseline had at the end."""
    rows: list[Record] = []
    for near in (1.0, NEAR):
        goal = near * cost
        theirs = courses[baseline].time_to(goal) if goal < case.start else 0.0
        ours = courses[challenger].time_to(goal) if goal < case.start else 0.0
        paid = courses[challenger].time_to(goal, overhead=1.0) if goal < case.start else 0.0
        end = LATE * case.budget
        rows.append(
            {
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


def forecast(allocator: Any) -> Record:
    """How well the belief foretold the shares of cost that slots saved."""
    _, expected, came = np.array(allocator.forecasts).reshape(-1, 3).T
    varied = len(came) > 2 and np.ptp(came) > 0 and np.ptp(expected) > 0
    return {
        "forecasts": len(came),
        "expected": float(expected.mean()) if len(came) else None,
        "came": float(came.mean()) if len(came) else None,
        "rank_correlation": float(spearmanr(expected, came)[0]) if varied else None,
    }


def ablate(case: Case, beliefs: Beliefs) -> list[Record]:
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
        {
            "what": "ablation",
            "variant": variant,
            "final_cycles": found[-1],
            "final_excess": round(found[-1] / floor - 1, 6),
            "mean_excess": round(case.area(found, floor), 6),
        }
        for variant, found in {**costs, "oracle": least}.items()
    ]


class Allocation(Study):
    """Every allocator on each network, seed and price; with ``ablate`` variants of DynaTune."""

    resumes = True

    says = ""

    def __init__(self, settings: AllocateSettings) -> None:
        super().__init__(settings)
        changed = {name: getattr(settings, name) for name in ("tuner", "trials", "slots")}
        self.regime: Final = replace(
            REGIMES[settings.regime], **{n: v for n, v in changed.items() if v}
        )
        self._beliefs = Beliefs()
        self._fits: list[float] = []
        self._acceptance: list[float] = []
        self._searches: dict[tuple[str, int], Search] = {}
        self._tables: dict[str, Table] = {}
        self._seed = 0
        for network in settings.networks:
            tasks_of(network)  # refuses a wrong name before hours of work

    @cached_property
    def twin(self) -> Twin:
        """What measures."""
        return Twin(load_hwconfig(self.settings.hw), load_memory(self.settings.memory))

    def table(self, task: Workload) -> Table:
        """The schedules of a task; equal tasks of several networks share one."""
        if task.key not in self._tables:
            given, rules = self.settings, host_rules()
            space = ScheduleSpace(task, load_hwconfig(given.hw), rules, given.space.value)
            folder = given.cache or cache_dir() / "trials"
            self._tables[task.key] = Table(space, self.twin, rules, folder, identity_of("twin"))
        return self._tables[task.key]

    def case(self, network: str, seed: int, price: str) -> Case:
        """The case of a network and seed; its searches are shared with other networks."""
        found = []
        for task in tasks_of(network):
            key = (task.key, seed)
            if key not in self._searches:
                self._searches[key] = Search(
                    self.table(task), self.regime.tuner, seed, untuned=self.regime.untuned
                )
            found.append(self._searches[key])
        return Case(network, seed, found, PRICES[price], self.regime)

    def cells(self) -> list[Cell]:
        given = self.settings
        kind = {"ablated": True} if given.ablate else {}
        return [
            {"network": network, "seed": seed, "price": price, **kind}
            for seed in range(given.seeds)
            for network in given.networks
            for price in given.prices
        ]

    def measure(self, cell: Cell) -> list[Record]:
        started = time.perf_counter()
        if cell["seed"] != self._seed:
            self._searches.clear()
            self._beliefs.known.clear()
            self._seed = cell["seed"]
        case, beliefs = self.case(cell["network"], cell["seed"], cell["price"]), self._beliefs
        if self.settings.ablate:
            rows = ablate(case, beliefs)
        else:
            rows, curves = compare(case, beliefs)
            rows.append({"what": CURVES, "curves": curves})
        self._fits += beliefs.seconds
        self._acceptance += beliefs.acceptance
        beliefs.seconds.clear()
        beliefs.acceptance.clear()
        for table in self._tables.values():
            table.save()
        print(
            f"{cell['network']:14} seed {cell['seed']:2} {cell['price']:5} "
            f"budget {case.budget:9.1f} s, slot {case.slot:7.2f} s, "
            f"{time.perf_counter() - started:5.1f} s of work",
            flush=True,
        )
        return rows

    def conditions(self) -> Row:
        given = self.settings
        return {
            "values": "twin, exact cycles of the RTL; not confirmed on the RTL here",
            "rtl": identity_of("twin"),
            **self.of_settings("hw", "memory"),
            "space": given.space.value,
            "regime": given.regime,
            **asdict(self.regime),
            "prices": {name: price.source for name, price in PRICES.items()},
            "late": LATE,
        }

    def environment(self) -> Row:
        fits = {"seconds": self._fits, "acceptance": self._acceptance}
        medians = [_median(values) for values in fits.values()]
        names = ("belief_fit_seconds_median", "belief_acceptance_median")
        return {**dict(zip(names, medians, strict=True)), **machine()}

    def known(self, document: Row) -> Row:
        conditions = document["conditions"]
        self._fits = [conditions["belief_fit_seconds_median"] or 0.0]
        self._acceptance = [conditions["belief_acceptance_median"] or 0.0]
        curves = ({"what": CURVES, **row} for row in document["curves"])
        return {**document, "rows": [*rows_of(document), *curves]}

    def result(self, rows: Sequence[Row]) -> BenchResult:
        curves = [{k: v for k, v in r.items() if k != "what"} for r in rows if r["what"] == CURVES]
        found = super().result([r for r in rows if r["what"] != CURVES])
        return BenchResult(**{**vars(found), "more": {"curves": curves}})

    def summarise(self, rows: Sequence[Any]) -> Row:
        return summarise(rows)

    def page(self, document: Row) -> str:
        first = self.settings.prices[0]
        return page(document, {name: self.case(name, 0, first) for name in self.settings.networks})


def _median(values: Sequence[float]) -> float | None:
    return round(statistics.median(values), 4) if values else None
