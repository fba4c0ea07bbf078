# SPDX-License-Identifier: Apache-2.0
"""What a study found, worked out from its rows in the store alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.tuner.measurement import Status
from tilewright.tuner.store import Store, StoredConfig, StoredStudy, StoredTrial
from tilewright.tuner.store_records import dump


@dataclass(frozen=True, kw_only=True)
class TaskResult:
    """What is known about one task.

    Attributes:
        name: of the task.
        count: occurrences in the network.
        default_cycles: untuned schedule on the base configuration; None if not valid.
        best: the best valid trial (shared mode: on the chosen configuration); None if none.
        bound: lower bound of the cycles on the configuration of ``best``.
        trials, valid_trials: measurements charged, and how many of them are valid.
    """

    name: str
    count: int
    default_cycles: int | None
    best: StoredTrial | None
    bound: int | None
    trials: int
    valid_trials: int

    @property
    def best_cycles(self) -> int | None:
        """Cycles of the best valid trial."""
        return self.best.measurement.cycles if self.best is not None else None

    @property
    def speedup(self) -> float | None:
        """Default over best."""
        return ratio(self.default_cycles, self.best_cycles)

    @property
    def of_bound(self) -> float | None:
        """Bound over best: 1.0 is unbeatable."""
        return ratio(self.bound, self.best_cycles)


@dataclass(frozen=True, kw_only=True)
class StudyResult:
    """What a study found.

    Attributes:
        study: its row.
        tasks: results in network order.
        configs: configurations that it considered.
        trials: every trial in proposal order.
        chosen: shared mode: the configuration of the best complete network; None before one.
        default_network, best_network, bound_network: cycles of the network; None: incomplete.
        screening: the search that the study confirms; None: the study searched itself.
    """

    study: StoredStudy
    tasks: tuple[TaskResult, ...]
    configs: tuple[StoredConfig, ...]
    trials: tuple[StoredTrial, ...]
    chosen: StoredConfig | None
    default_network: int | None
    best_network: int | None
    bound_network: int | None
    screening: StudyResult | None = None

    @property
    def search(self) -> StudyResult:
        """What holds the search: the screening, or the study itself."""
        return self if self.screening is None else self.screening

    @property
    def settings(self) -> Mapping[str, Any]:
        """The study's settings."""
        return self.study.settings

    @property
    def shared(self) -> bool:
        """Whether one configuration serves the network."""
        return bool(self.settings["mode"] == "shared")

    @property
    def clock_mhz(self) -> float:
        """The board's planned clock."""
        return float(self.settings["board"]["clock_mhz"])

    @property
    def mismatches(self) -> tuple[StoredTrial, ...]:
        """Trials whose output was wrong: defects of the product."""
        return tuple(t for t in self.trials if t.measurement.status is Status.MISMATCH)

    def milliseconds(self, cycles: int) -> float:
        """Time of some cycles at the board's clock."""
        return cycles / self.clock_mhz / 1e3

    def config_name(self, config_hash: str) -> str:
        """Label of a configuration."""
        for config in self.configs:
            if config.config_hash == config_hash:
                return str(config.hw["name"])
        return config_hash


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """A trial of a study that repeats a measurement of its screening.

    Attributes:
        trial: of the study.
        measurement: which of the screening it repeats, counted from 1.
    """

    trial: StoredTrial
    measurement: int


def ratio(over: int | None, under: int | None) -> float | None:
    """A quotient, or None when either side is missing."""
    return None if over is None or not under else over / under


def load_result(store: Store, name: str) -> StudyResult:
    """Work out the result of a study, and that of its screening.

    Raises:
        StoreError: no study of that name, or the store fails.
    """
    study = store.study(name)
    screen = study.settings.get("screen")
    trials = tuple(store.trials(study.id))
    configs = tuple(store.configs(study.id))
    tasks = study.settings["tasks"]
    counts = {str(t["name"]): int(t["count"]) for t in tasks}
    shared = study.settings["mode"] == "shared"
    chosen = _chosen(trials, configs, counts) if shared else None
    bounds = {c.config_hash: c.bounds for c in configs}
    results = []
    for task, count in counts.items():
        mine = [t for t in trials if t.task == task]
        pool = [t for t in mine if chosen is None or t.config_hash == chosen.config_hash]
        best = best_trial(pool)
        results.append(
            TaskResult(
                name=task,
                count=count,
                default_cycles=_default_cycles(mine, configs),
                best=best,
                bound=None if best is None else bounds.get(best.config_hash, {}).get(task),
                trials=len(mine),
                valid_trials=sum(t.measurement.valid for t in mine),
            )
        )
    complete = not shared or chosen is not None
    return StudyResult(
        study=study,
        tasks=tuple(results),
        configs=configs,
        trials=trials,
        chosen=chosen,
        default_network=_total([(r.default_cycles, r.count) for r in results]),
        best_network=_total([(r.best_cycles, r.count) for r in results]) if complete else None,
        bound_network=_total([(r.bound, r.count) for r in results]) if complete else None,
        screening=load_result(store, screen["study"]) if isinstance(screen, dict) else None,
    )


def confirmations(result: StudyResult) -> list[Confirmation]:
    """The valid trials of a study that repeat one of its screening, in order; none without one."""
    searched = () if result.screening is None else result.screening.trials
    places = {_identity(trial): trial.sequence + 1 for trial in reversed(searched)}
    return [
        Confirmation(trial=trial, measurement=places[_identity(trial)])
        for trial in result.trials
        if trial.measurement.valid and _identity(trial) in places
    ]


def _identity(trial: StoredTrial) -> tuple[str, str, str]:
    """What was measured, whoever measured it."""
    return trial.task, trial.config_hash, dump(trial.schedule)


def best_trial(trials: Sequence[StoredTrial]) -> StoredTrial | None:
    """The valid trial with the fewest cycles (the earliest of equals); None if none is valid."""
    valid = [t for t in trials if t.measurement.valid]
    return min(valid, key=lambda t: (t.measurement.cycles or 0, t.sequence), default=None)


def task_curve(trials: Sequence[StoredTrial], task: str) -> list[tuple[int, int]]:
    """(trials of the study so far, best cycles of the task) at each improvement."""
    curve: list[tuple[int, int]] = []
    for trial in trials:
        cycles = trial.measurement.cycles
        if trial.task != task or not trial.measurement.valid or cycles is None:
            continue
        if not curve or cycles < curve[-1][1]:
            curve.append((trial.sequence + 1, cycles))
    return curve


def network_curve(
    trials: Sequence[StoredTrial], counts: Mapping[str, int], *, shared: bool
) -> list[tuple[int, int]]:
    """(trials so far, cycles of the best complete network) at each improvement.

    In shared mode a network is complete when one configuration has a valid trial of every task;
    per layer, when every task has a valid trial anywhere.
    """
    best: dict[str, dict[str, int]] = {}
    curve: list[tuple[int, int]] = []
    for trial in trials:
        cycles = trial.measurement.cycles
        if not trial.measurement.valid or cycles is None:
            continue
        arm = best.setdefault(trial.config_hash if shared else "", {})
        arm[trial.task] = min(cycles, arm.get(trial.task, cycles))
        if len(arm) == len(counts):
            total = sum(arm[task] * count for task, count in counts.items())
            if not curve or total < curve[-1][1]:
                curve.append((trial.sequence + 1, total))
    return curve


def schedule_text(schedule: Mapping[str, Any]) -> str:
    """One short line: tiles, virtual threads (rows x channels), loop order, fusion."""
    names = ("tile_b", "tile_h", "tile_w", "tile_ci", "tile_co")
    tiles = " ".join(f"{name[5:]} {schedule[name]}" for name in names)
    threads = f"{schedule['h_threading']}x{schedule['oc_threading']}"
    return f"{tiles}, threads {threads}, {schedule['loop_order']}, {schedule['fusion']}"


def _default_cycles(trials: Sequence[StoredTrial], configs: Sequence[StoredConfig]) -> int | None:
    """Cycles of the untuned schedule on the first configuration, which is the base."""
    base = configs[0].config_hash if configs else ""
    for trial in trials:
        if trial.origin == "default" and trial.config_hash == base and trial.measurement.valid:
            return trial.measurement.cycles
    return None


def _chosen(
    trials: Sequence[StoredTrial], configs: Sequence[StoredConfig], counts: Mapping[str, int]
) -> StoredConfig | None:
    best: tuple[int, StoredConfig] | None = None
    for config in configs:
        mine = [t for t in trials if t.config_hash == config.config_hash]
        curve = network_curve(mine, counts, shared=True)
        if curve and (best is None or curve[-1][1] < best[0]):
            best = (curve[-1][1], config)
    return best[1] if best is not None else None


def _total(parts: Sequence[tuple[int | None, int]]) -> int | None:
    total = 0
    for cycles, count in parts:
        if cycles is None:
            return None
        total += cycles * count
    return total
