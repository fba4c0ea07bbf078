# SPDX-License-Identifier: Apache-2.0
"""What a study found, worked out from its rows in the store alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tilewright.host.machine.clock import clock_text
from tilewright.tuner.exhaustive.prove import Proof
from tilewright.tuner.measure.measurement import BoardRuns, Status
from tilewright.tuner.store.records import dump
from tilewright.tuner.store.store import Store, StoredConfig, StoredStudy, StoredTrial
from tilewright.tuner.store.summary import Improvement, TrialSummary

FAILURES_KEPT: Final = 200
"""Of the trials without a measurement, so many are read; all are counted."""


@dataclass(frozen=True, kw_only=True)
class TaskResult:
    """What is known about one task.

    Attributes:
        best: the best valid trial (shared mode: on the chosen configuration); None if none.
        trials, valid_trials: measurements charged, and how many of them are valid.
        proof: the last one of the task, on the configuration of ``best``; None: there is none.
    """

    name: str  # of the task
    count: int  # occurrences in the network
    default_cycles: int | None  # untuned schedule on the base configuration; None if not valid
    best: StoredTrial | None
    bound: int | None  # lower bound of the cycles on the configuration of ``best``, proven if it is
    trials: int
    valid_trials: int
    proof: Proof | None = None

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

    @property
    def gap(self) -> float | None:
        """By what share the best may be above the optimum on its configuration."""
        return None if self.of_bound is None else 1 / self.of_bound - 1

    def within(self, tolerance: float) -> bool:
        """Whether the best is proven to be within a tolerance of the optimum."""
        best = self.best_cycles
        return best is not None and bool(self.bound) and best <= (1 + tolerance) * (self.bound or 0)


@dataclass(frozen=True, kw_only=True)
class StudyResult:
    """What a study found.

    Attributes:
        front: valid trials that no other of their task and configuration beats.
        mismatches: the first `FAILURES_KEPT` trials whose output was wrong: defects of the product.
        chosen: shared mode: the configuration of the best complete network; None before one.
        default_network, best_network, bound_network: cycles of the network; None: incomplete.
        screening: the search that the study confirms; None: the study searched itself.
        confirmations: valid trials that repeat one of the screening, in order; none without one.
    """

    study: StoredStudy  # its row
    tasks: tuple[TaskResult, ...]  # results in network order
    configs: tuple[StoredConfig, ...]  # configurations that it considered
    summary: TrialSummary  # its trials in figures
    front: tuple[StoredTrial, ...]
    failures: tuple[StoredTrial, ...]  # the first `FAILURES_KEPT` trials without a measurement
    mismatches: tuple[StoredTrial, ...]
    chosen: StoredConfig | None
    default_network: int | None
    best_network: int | None
    bound_network: int | None
    screening: StudyResult | None = None
    confirmations: tuple[Confirmation, ...] = ()
    untuned: Mapping[str, StoredTrial] = field(default_factory=dict)  # by task, on the base
    board_runs: tuple[BoardRuns, ...] = ()  # what the trials rest on that were measured on boards

    @property
    def search(self) -> StudyResult:
        """What holds the search: the screening, or the study itself."""
        return self if self.screening is None else self.screening

    @property
    def settings(self) -> Mapping[str, Any]:
        """The study's settings."""
        return self.study.settings

    @property
    def tolerance(self) -> float | None:
        """The share above its bound at which a layer's search ended; None: none did so."""
        within = self.settings.get("within")
        return None if within is None else float(within)

    @property
    def scope(self) -> str:
        """Which schedules the bounds speak of, as words behind a noun; empty: any tile sizes."""
        space = self.settings.get("space", "full")
        return "" if space == "full" else f" of space {space}"

    @property
    def unproven(self) -> list[TaskResult]:
        """Tasks that are not within the tolerance, if the study has one."""
        tolerance = self.tolerance
        return [] if tolerance is None else [t for t in self.tasks if not t.within(tolerance)]

    @property
    def bound_of_configs(self) -> int | None:
        """No network on any configuration that the study considered takes fewer cycles."""
        if not self.shared or not self.configs:
            return None
        totals = (
            sum(config.bounds[name] * count for name, count in self.counts.items())
            for config in self.configs
        )
        return min(totals)

    @property
    def saved(self) -> int:
        """Measurements of the budget that proofs made needless."""
        if self.tolerance is None or self.unproven:
            return 0
        return max(0, int(self.search.settings["budget"]) - self.search.summary.count)

    @property
    def shared(self) -> bool:
        """Whether one configuration serves the network."""
        return bool(self.settings["mode"] == "shared")

    @property
    def clock_mhz(self) -> float:
        """The board's clock."""
        return float(self.settings["board"]["clock_mhz"])

    @property
    def clock_text(self) -> str:
        """That clock with what supports it, for the configuration when there is but one."""
        board = self.settings["board"]
        hashes = {config.config_hash for config in self.configs}
        only = int(hashes.pop(), 16) if len(hashes) == 1 else None
        return clock_text(str(board["part"]), self.clock_mhz, board["sources"], only)

    @property
    def counts(self) -> dict[str, int]:
        """Occurrences of each task in the network."""
        return {task.name: task.count for task in self.tasks}

    def network_curve(self, config_hash: str = "") -> list[tuple[int, int]]:
        """`network_curve` of the study, or of one of its configurations in shared mode."""
        mine = self.summary.improvements
        if config_hash:
            mine = [each for each in mine if each.config_hash == config_hash]
        return network_curve(mine, self.counts, shared=self.shared or bool(config_hash))

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
    """A trial of a study that repeats a measurement of its screening."""

    trial: StoredTrial  # of the study
    measurement: int  # which of the screening it repeats, counted from 1


def screening_name(name: str) -> str:
    """Name of the study that holds what was screened for a study."""
    return f"{name}/screen"


def ratio(over: int | None, under: int | None) -> float | None:
    """A quotient, or None when either side is missing."""
    return None if over is None or not under else over / under


def load_result(store: Store, name: str) -> StudyResult:
    """Work out the result of a study, and that of its screening."""
    study = store.study(name)
    screen = study.settings.get("screen")
    screening = load_result(store, screen["study"]) if isinstance(screen, dict) else None
    summary = store.summary(study.id)
    configs = tuple(store.configs(study.id))
    tasks = study.settings["tasks"]
    counts = {str(t["name"]): int(t["count"]) for t in tasks}
    shared = study.settings["mode"] == "shared"
    chosen = _chosen(summary, configs, counts) if shared else None
    bounds = {c.config_hash: c.bounds for c in configs}
    proofs = {(c.config_hash, task): each for c in configs for task, each in c.proofs.items()}
    untuned = _first_of_each(store.untuned(study.id, configs[0].config_hash) if configs else [])
    results = []
    for task, count in counts.items():
        best = _best(store, study, summary, task, chosen)
        results.append(
            TaskResult(
                name=task,
                count=count,
                default_cycles=untuned[task].measurement.cycles if task in untuned else None,
                best=best,
                bound=None if best is None else bounds.get(best.config_hash, {}).get(task),
                trials=sum(n for (_, name), n in summary.trials.items() if name == task),
                valid_trials=sum(n for (_, name), n in summary.valid.items() if name == task),
                proof=_proof(proofs, task, None if best is None else best.config_hash, shared),
            )
        )
    complete = not shared or chosen is not None
    return StudyResult(
        study=study,
        tasks=tuple(results),
        configs=configs,
        summary=summary,
        front=tuple(store.front(study.id)),
        failures=tuple(store.failures(study.id, FAILURES_KEPT)),
        mismatches=tuple(store.failures(study.id, FAILURES_KEPT, status=Status.MISMATCH)),
        chosen=chosen,
        default_network=_total([(r.default_cycles, r.count) for r in results]),
        best_network=_total([(r.best_cycles, r.count) for r in results]) if complete else None,
        bound_network=_total([(r.bound, r.count) for r in results]) if complete else None,
        screening=screening,
        untuned=untuned,
        board_runs=tuple(store.board_runs(study.id)),
        confirmations=() if screening is None else _confirmations(store, study, screening.study),
    )


def _confirmations(
    store: Store, study: StoredStudy, screening: StoredStudy
) -> tuple[Confirmation, ...]:
    found = []
    for trial in store.trials(study.id):  # a few: the best of each task
        place = store.sequence_of(
            screening.id,
            task=trial.task,
            config_hash=trial.config_hash,
            schedule=dump(trial.schedule),
        )
        if place is not None and trial.measurement.valid:
            found.append(Confirmation(trial=trial, measurement=place + 1))
    return tuple(found)


def _best(
    store: Store,
    study: StoredStudy,
    summary: TrialSummary,
    task: str,
    chosen: StoredConfig | None,
) -> StoredTrial | None:
    """The valid trial of a task with the fewest cycles (the earliest of equals); None: none."""
    found = [
        each
        for (config_hash, name), each in summary.best().items()
        if name == task and (chosen is None or config_hash == chosen.config_hash)
    ]
    best = min(found, key=lambda each: (each.cycles, each.sequence), default=None)
    return None if best is None else store.trial(study.id, best.sequence)


def _proof(
    proofs: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]],
    task: str,
    config_hash: str | None,
    shared: bool,
) -> Proof | None:
    """The last proof of a task: on its configuration, or over all that it was chosen from."""
    places = [place for place in proofs if place[1] == task]
    mine = [place for place in places if not shared or place[0] == config_hash]
    return Proof.from_mapping(proofs[mine[0]][-1]) if mine else None


def task_curve(improvements: Sequence[Improvement], task: str) -> list[tuple[int, int]]:
    """(trials of the study so far, best cycles of the task) at each improvement."""
    curve: list[tuple[int, int]] = []
    for each in improvements:
        if each.task == task and (not curve or each.cycles < curve[-1][1]):
            curve.append((each.sequence + 1, each.cycles))
    return curve


def network_curve(
    improvements: Sequence[Improvement], counts: Mapping[str, int], *, shared: bool
) -> list[tuple[int, int]]:
    """(trials so far, cycles of the best complete network) at each improvement.

    In shared mode a network is complete when one configuration has a valid trial of every task;
    per layer, when every task has a valid trial anywhere.
    """
    best: dict[str, dict[str, int]] = {}
    totals: dict[str, int] = {}
    curve: list[tuple[int, int]] = []
    for each in improvements:
        name = each.config_hash if shared else ""
        arm = best.setdefault(name, {})
        before = arm.get(each.task)
        if before is not None and before <= each.cycles:
            continue
        arm[each.task] = each.cycles
        saved = 0 if before is None else before - each.cycles
        if name in totals:
            totals[name] -= saved * counts[each.task]
        elif len(arm) == len(counts):
            totals[name] = sum(arm[task] * count for task, count in counts.items())
        if name in totals and (not curve or totals[name] < curve[-1][1]):
            curve.append((each.sequence + 1, totals[name]))
    return curve


def schedule_text(schedule: Mapping[str, Any]) -> str:
    """One short line: tiles, virtual threads (rows x channels), loop order, fusion."""
    names = ("tile_b", "tile_h", "tile_w", "tile_ci", "tile_co")
    tiles = " ".join(f"{name[5:]} {schedule[name]}" for name in names)
    threads = f"{schedule['h_threading']}x{schedule['oc_threading']}"
    return f"{tiles}, threads {threads}, {schedule['loop_order']}, {schedule['fusion']}"


def _first_of_each(trials: Sequence[StoredTrial]) -> dict[str, StoredTrial]:
    """The first trial of each task."""
    found: dict[str, StoredTrial] = {}
    for trial in trials:
        found.setdefault(trial.task, trial)
    return found


def _chosen(
    summary: TrialSummary, configs: Sequence[StoredConfig], counts: Mapping[str, int]
) -> StoredConfig | None:
    """The configuration of the fastest complete network, the earliest of equals."""
    arms = summary.best()
    best: tuple[int, StoredConfig] | None = None
    for config in configs:
        mine = [(arms.get((config.config_hash, task)), count) for task, count in counts.items()]
        total = _total([(None if each is None else each.cycles, n) for each, n in mine])
        if total is not None and (best is None or total < best[0]):
            best = (total, config)
    return best[1] if best is not None else None


def _total(parts: Sequence[tuple[int | None, int]]) -> int | None:
    total = 0
    for cycles, count in parts:
        if cycles is None:
            return None
        total += cycles * count
    return total
