# SPDX-License-Identifier: Apache-2.0
"""Who gets the next slot of tuning time: DynaTune and its baselines on the same searches.

For each network and seed one search a task is run on the twin, as far as any allocator asks; every
allocator reads the same searches (they are rested, so this changes nothing but the cost). The
sequential baseline gives each task ``--trials`` trials; the seconds that this takes under a
recorded price are everyone's budget. A slot is 1 / ``--slots`` of a task's equal share. The untuned
schedule of each task is measured first and paid by all. Time to a baseline's final latency counts
from the first moment at which the baseline itself had it; DynaTune gets at most 1.5 times the
budget.

``--json`` is written after every network and seed and read at the start: a stopped run goes on.

    python bench/allocate.py --quick
    python bench/allocate.py --json build/allocate.json --html build/allocate.html
    python bench/allocate.py --quick --ablate --networks squeezenet1_0 encoder-small
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from allocate_case import FORESIGHT, FRACTIONS, LATE, Beliefs, Case
from allocate_summary import NEAR, Row, summarise
from allocate_trials import PRICES, Search, Tables, tasks_of
from scipy.stats import spearmanr

from tilewright.host.board import load_memory
from tilewright.host.hwconfig import load_hwconfig
from tilewright.sim.build_cache import cache_dir
from tilewright.tuner.allocate import ALLOCATORS
from tilewright.tuner.fidelity import identity_of
from tilewright.tuner.rules import host_rules

NETWORKS = (
    "alexnet", "transformer_encoder", "squeezenet", "resnet18", "mobilenet_v2", "vgg16", "vgg11",
    "vgg13", "vgg19", "resnet34",
)  # fmt: skip
QUICK = ("alexnet", "transformer_encoder")
VARIANTS: dict[str, dict[str, Any]] = {
    **{f"C={c:g}": {"exploration": c} for c in (0.0, 0.0003, 0.001, 0.003, 0.01, 1.0)},
    "ms, C=2 or 0.2": {"reward": "ms"},
    "peak=bound": {"peak": "bound"},
    "no early stop": {"patience": 1 << 30},
}


def compare(case: Case, common: Row, beliefs: Beliefs) -> tuple[list[Row], Row]:
    """Every allocator on one case: flat rows, and the curves."""
    courses = {n: case.run(n)[0] for n in ALLOCATORS if n != "dynatune"}
    targets = {n: case.cost_at(c, 1.0) for n, c in courses.items()}
    methods = [n for n in courses if not ALLOCATORS[n].foresight]
    before = sum(beliefs.seconds)
    courses["dynatune"], allocator = case.run(
        "dynatune", fit=beliefs.fit, beyond=min(targets[n] for n in methods)
    )
    fitting = sum(beliefs.seconds) - before
    targets["dynatune"] = case.cost_at(courses["dynatune"], 1.0)
    floor = min(targets.values())
    rows = []
    for name, course in courses.items():
        inside = course.times <= case.budget
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
                "mean_excess": round(case.area(course, floor), 6),
                "deciding_seconds": round(float(course.overheads[inside][-1]), 4),
                "belief_seconds": round(fitting, 4) if name == "dynatune" else 0.0,
            }
        )
    rows.append(common | {"what": "forecast"} | forecast(allocator))
    rows.append(
        common
        | {
            "what": "search",
            "seconds_per_trial": sum(s.seconds for s in case.searches)
            / sum(len(s.trials) for s in case.searches),
        }
    )
    dynatune = courses["dynatune"]
    for name, course in courses.items():
        if name == "dynatune":
            continue
        for near in (1.0, NEAR):
            goal = near * targets[name]
            theirs = course.time_to(goal) if goal < case.start else 0.0
            ours = dynatune.time_to(goal) if goal < case.start else 0.0
            paid = dynatune.time_to(goal, overhead=1.0) if goal < case.start else 0.0
            late = float(np.isinf(ours))
            end = LATE * case.budget
            rows.append(
                common
                | {
                    "what": "pair",
                    "baseline": name,
                    "within": near,
                    "baseline_seconds": round(theirs + case.warm_up, 4),
                    "dynatune_seconds": round(min(ours, end) + case.warm_up, 4),
                    "censored": int(late),
                    "speedup": (theirs + case.warm_up) / (min(ours, end) + case.warm_up),
                    "speedup_overhead_paid": (theirs + case.warm_up)
                    / (min(paid, end) + case.warm_up),
                }
            )
    curves = {
        name: [round(case.cost_at(course, f) / case.start, 5) for f in FRACTIONS]
        for name, course in courses.items()
    }
    return rows, common | {"curves": curves}


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
    """DynaTune with one thing changed, on one case."""
    courses = {n: case.run("dynatune", fit=beliefs.fit, **o)[0] for n, o in VARIANTS.items()}
    for name in ("round-robin", "dynamic-round-robin", "ansor", "headroom", "hindsight"):
        courses[name] = case.run(name)[0]
    floor = min(case.cost_at(course, 1.0) for course in courses.values())
    return [
        common
        | {
            "what": "ablation",
            "variant": name,
            "final_cycles": case.cost_at(course, 1.0),
            "final_excess": round(case.cost_at(course, 1.0) / floor - 1, 6),
            "mean_excess": round(case.area(course, floor), 6),
        }
        for name, course in courses.items()
    ]


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two networks, 3 seeds, one price")
    parser.add_argument("--json", type=Path, help="records, summary and conditions; read to go on")
    parser.add_argument("--html", type=Path, help="figures, one self-contained file")
    parser.add_argument("--networks", nargs="+", metavar="NAME")
    parser.add_argument("--seeds", type=int, help="default 30; quick 3")
    parser.add_argument("--prices", nargs="+", choices=PRICES, metavar="NAME")
    parser.add_argument("--hw", default="pynq-16x16")
    parser.add_argument("--memory", default="ideal")
    parser.add_argument("--space", default="full", choices=("full", "vta"))
    parser.add_argument("--tuner", default="genetic", help="search tuner of every task")
    parser.add_argument("--trials", type=int, default=96, help="a task, in the sequential baseline")
    parser.add_argument("--slots", type=int, default=6, help="in a task's equal share")
    parser.add_argument("--ablate", action="store_true", help="variants of DynaTune instead")
    parser.add_argument("--cache", type=Path, default=cache_dir() / "trials")
    options = parser.parse_args()
    networks = options.networks or (QUICK if options.quick else NETWORKS)
    seeds = options.seeds or (3 if options.quick else 30)
    prices = options.prices or (["rtl"] if options.quick else list(PRICES))
    conditions = {
        "values": "twin, exact cycles of the RTL; not confirmed on the RTL here",
        "rtl": identity_of("twin"),
        "hw": options.hw,
        "memory": options.memory,
        "space": options.space,
        "search": options.tuner,
        "trials_a_task_sequential": options.trials,
        "slots_a_task": options.slots,
        "prices": {name: price.source for name, price in PRICES.items()},
        "late": LATE,
        "foresight": FORESIGHT,
    }
    study = Study(options, conditions)
    beliefs = Beliefs()
    for seed in range(seeds):
        for network in networks:
            study.add(network, seed, prices, beliefs)
            study.write()
        beliefs.known.clear()
    for name, value in study.result()["summary"].items():
        print(f"{name} = {json.dumps(value)}")
    if options.html and not options.ablate:
        from allocate_figures import write_figures  # noqa: PLC0415  (plotly, when asked for)

        write_figures(options.html, study.result(), study.cases(networks, prices[0]))
    return 0


class Study:
    """The rows of a run, kept in a file as they come.

    Args:
        options: of the command line.
        conditions: what figures hold under; a file of other conditions is refused.
    """

    def __init__(self, options: argparse.Namespace, conditions: Row) -> None:
        self.options, self.conditions = options, conditions
        self.records: list[Row] = []
        self.curves: list[Row] = []
        self._fits: list[float] = []
        self._acceptance: list[float] = []
        self._tables = Tables(
            load_hwconfig(options.hw), load_memory(options.memory), kind=options.space,
            rules=host_rules(), folder=options.cache, identity=conditions["rtl"],
        )  # fmt: skip
        self._searches: dict[tuple[str, int], Search] = {}
        if options.json and options.json.exists():
            known = json.loads(options.json.read_text(encoding="utf-8"))
            same = {k: v for k, v in known["conditions"].items() if k in conditions}
            if same != conditions:
                sys.exit(f"{options.json} holds other conditions; give another --json")
            self.records, self.curves = known["records"], known["curves"]
            self._fits = [known["conditions"]["belief_fit_seconds_median"] or 0.0]
            self._acceptance = [known["conditions"]["belief_acceptance_median"] or 0.0]

    def case(self, network: str, seed: int, price: str) -> Case:
        """The case of a network and seed; its searches are shared with other networks."""
        found = []
        for task in tasks_of(network):
            key = (task.key, seed)
            if key not in self._searches:
                self._searches[key] = Search(self._tables.of(task), self.options.tuner, seed)
            found.append(self._searches[key])
        return Case(
            network, seed, found, PRICES[price],
            trials=self.options.trials, slots=self.options.slots,
        )  # fmt: skip

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

    def result(self) -> Row:
        """What ``--json`` holds."""
        return {
            "records": self.records,
            "summary": summarise(self.records) if self.records else {},
            "conditions": self.conditions
            | {
                "belief_fit_seconds_median": _median(self._fits),
                "belief_acceptance_median": _median(self._acceptance),
                "cpus": os.cpu_count(),
                "load": round(os.getloadavg()[0], 2),
                "python": platform.python_version(),
            },
            "curves": self.curves,
        }

    def write(self) -> None:
        """Keep trials and rows."""
        self._tables.save()
        path = self.options.json
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(".part")
            part.write_text(json.dumps(self.result(), indent=0) + "\n", encoding="utf-8")
            part.replace(path)


def _median(values: Sequence[float]) -> float | None:
    return round(statistics.median(values), 4) if values else None


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("stopped; with --json the same command goes on", file=sys.stderr)
        sys.exit(130)
