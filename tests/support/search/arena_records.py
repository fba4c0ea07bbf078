# SPDX-License-Identifier: Apache-2.0
"""Hand-made records of a study of tuners."""

import math

import numpy as np

from tilewright.bench.arena.records import PRICES
from tilewright.bench.arena.summary import merge, summarise
from tilewright.bench.arena.tables import Table
from tilewright.bench.arena.tasks import make_task, parts_of
from tilewright.host.network.workload import conv2d
from tilewright.host.network.zoo import load_network

NETWORK = "alexnet"
PARTS = parts_of("per-layer", load_network(NETWORK))
OPTIMUM = 1000
SEEDS = 8


def a_record(tuner, task, seed, trials_to_1pct, **changes):
    """A run that reaches the optimum when it reaches 1 %, and 3 % above it otherwise."""
    reached = trials_to_1pct is not None
    cycles = OPTIMUM if reached else 1030
    record = {
        "what": "run", "track": "per-layer", "task": task, "layer": task[-4:], "hard": True,
        "optimum": OPTIMUM, "tuner": tuner, "grey": tuner == "tilewright", "seed": seed,
        "arm": "masked", "noise": 0.0, "budget": 32, "trials": trials_to_1pct or 32,
        "invalid": 0, "tuner_seconds": 2.0, "cycles": cycles, "flat": 3,
        "measured_cycles": 50_000, "trials_to_1pct": trials_to_1pct, "trials_to_5pct": 4,
        "seconds_to_1pct": 1.0 if reached else None, "seconds_to_5pct": 0.5,
        "cycles_to_1pct": 20_000 if reached else None, "cycles_to_5pct": 5_000,
        "regret": {"16": math.log(1.03), "32": math.log(cycles / OPTIMUM)},
        "curve": [[1, 5000], [4, 1030], [trials_to_1pct or 32, cycles]],
    }  # fmt: skip
    return {**record, **changes}


def some_records():
    needs = {"random": 30, "autotvm": 20, "dcoc": 12, "tilewright": 9}
    return [
        a_record(tuner, part.task, seed, trials + seed % 2)
        for tuner, trials in needs.items()
        for part in PARTS
        for seed in range(SEEDS)
    ]


def a_part(records, **conditions):
    """What one run of `tilewright bench tuners` writes."""
    task = {
        "what": "task", "layer": "one", "points": 9, "legal": 6, "legal_share": 2 / 3,
        "optimum_cycles": OPTIMUM, "within_1pct": 1, "within_5pct": 2, "random_median_1pct": 40,
        "hard": True,
    }  # fmt: skip
    tasks = [{**task, "task": part.task} for part in PARTS]
    return {
        "command": f"tilewright bench tuners --seeds {SEEDS}",
        "records": [*tasks, *records],
        "summary": summarise(records, networks=[NETWORK]),
        "conditions": {
            "fidelity": "twin", "twin": "twin-0", "memory": "m", "space": "vta",
            "track": "per-layer", "configurations": ["a", "b"], "networks": [NETWORK],
            "layers": "all", "hard_only": True, "seeds": SEEDS, "budget": 32,
            "small_budgets": {"botorch": 64}, "batch": 8, "initial_points": 8,
            "arms": ["masked"], "noise_percent": [0.0],
            "prices": {name: vars(price) for name, price in PRICES.items()},
            "sources": {"random": "0", "dcoc": "1"}, "runs_missing": 0, "failures": [],
            **conditions,
        },
    }  # fmt: skip


def a_study(records, **conditions):
    return merge([a_part(records, **conditions)])


# -- A table for tests of the arena: real knobs, invented cycles ----------------------------------


def made_up_table(track="per-layer", legal=0.4, seed=0) -> Table:
    """A real space with cycles that are drawn: no twin needed, one optimum."""
    task = make_task(track, conv2d("T", 14, 64, 64, 3, 1, 1))
    rng = np.random.default_rng(seed)
    shape = tuple(len(knob) for knob in task.space.knobs)
    cycles = rng.integers(1_100, 100_000, size=shape)
    cycles[rng.random(shape) > legal] = -1
    cycles.ravel()[rng.integers(cycles.size)] = 1_000
    return Table(task=task, cycles=cycles)
