# SPDX-License-Identifier: Apache-2.0
"""Hyper-parameters of MAGMA by Bayesian optimisation, as its authors found theirs.

    python -m tilewright.bench.multicore.tune_magma

The result is kept in `RECORD`, with its conditions; the group mapper `magma-tuned` reads it. The
groups have seeds from `FIRST_SEED` on, which no study uses.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import numpy as np
import yaml

from tilewright.host.common.whole_file import MARK, write_whole
from tilewright.tuner.multicore.bounds import lower_bound
from tilewright.tuner.multicore.instance import Instance
from tilewright.tuner.multicore.methods.magma import RECORD, MagmaMapper, MagmaSettings
from tilewright.tuner.multicore.problems import Problem, instance_of

if TYPE_CHECKING:
    from optuna.trial import Trial

GROUPS: Final = (
    ("vision", "S1", 16.0),
    ("language", "S1", 1.0),
    ("mix", "S1", 1.0),
    ("language", "S2", 16.0),
    ("recommendation", "S2", 16.0),
    ("mix", "S2", 16.0),
    ("vision", "S4", 256.0),
    ("recommendation", "S4", 256.0),
)
"""Tasks, platforms and bandwidths in GB/s."""

FIRST_SEED: Final = 1000
"""Of the groups; each has one of its own."""

BUDGET: Final = 10_000
TRIALS: Final = 50


def main() -> None:
    """Search, and keep the best settings."""
    import optuna  # noqa: PLC0415  (of the extra `search`; slow to import)

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trials", type=int, default=TRIALS)
    wanted = parser.parse_args()
    problems = [
        Problem(target=task, platform=platform, bandwidth=bandwidth, seed=FIRST_SEED + number)
        for number, (task, platform, bandwidth) in enumerate(GROUPS)
    ]
    instances = [instance_of(problem) for problem in problems]
    bounds = [lower_bound(instance).makespan for instance in instances]
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0, multivariate=True))
    study.enqueue_trial(asdict(MagmaSettings()))
    study.optimize(
        lambda trial: mean_log_gap(proposed(trial), instances, bounds), n_trials=wanted.trials
    )
    default = mean_log_gap(MagmaSettings(), instances, bounds)
    document = {
        "settings": {k: _rounded(v) for k, v in study.best_params.items()},
        "conditions": {
            "sampler": f"Optuna {optuna.__version__}, TPE, multivariate, seed 0",
            "trials": len(study.trials),
            "budget": BUDGET,
            "objective": "mean logarithm of the makespan over the bound",
            "groups": [
                f"{p.target} on {p.platform} with {p.bandwidth:g} GB/s, seed {p.seed}"
                for p in problems
            ],
            "found": round(study.best_value, 6),
            "published": round(default, 6),
        },
    }
    text = yaml.safe_dump(document, sort_keys=False)
    write_whole(RECORD, f"# {MARK} (bench/multicore/tune_magma.py)\n{text}")
    print(text)


def proposed(trial: Trial) -> MagmaSettings:
    """Settings of a trial."""
    return MagmaSettings(
        population=trial.suggest_int("population", 20, 300, log=True),
        elite=trial.suggest_float("elite", 0.01, 0.5),
        parents=trial.suggest_float("parents", 0.02, 0.8),
        mutation=trial.suggest_float("mutation", 0.001, 0.2, log=True),
        crossover_gen=trial.suggest_float("crossover_gen", 0.0, 1.0),
        crossover_rg=trial.suggest_float("crossover_rg", 0.0, 1.0),
        crossover_accel=trial.suggest_float("crossover_accel", 0.0, 1.0),
    )


def mean_log_gap(
    settings: MagmaSettings,
    instances: Sequence[Instance],
    bounds: Sequence[float],
    budget: int = BUDGET,
) -> float:
    """Mean logarithm of the makespan over the bound; one run per instance."""
    mapper = MagmaMapper(**asdict(settings))
    found = [mapper.run(instance, budget, 0).makespan for instance in instances]
    return float(np.log(np.array(found) / np.array(bounds)).mean())


def _rounded(value: float) -> float:
    return value if isinstance(value, int) else float(f"{value:.4g}")


if __name__ == "__main__":
    main()
