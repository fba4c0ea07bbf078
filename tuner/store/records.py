# SPDX-License-Identifier: Apache-2.0
"""Rows of the trial store as records, and records as rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TypeVar

from tilewright.host.common import plain_values
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.tuner.measure.energy import COUNTED, EnergyModel, load_energy
from tilewright.tuner.measure.measurement import BoardRuns, Measurement, Request, Status
from tilewright.tuner.store.schema import trial_key

R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class StoredTrial:
    """One row of the store.

    Attributes:
        hw, workload, schedule, memory: everything needed to run it again, as plain values.
    """

    sequence: int  # position in proposal order, from 0
    task: str  # name of the task that it was measured for
    origin: str  # ``default``, ``transfer`` or the tuner: who proposed it
    config_hash: str  # identity of the configuration
    hw: Mapping[str, Any]
    workload: Mapping[str, Any]
    schedule: Mapping[str, Any]
    memory: Mapping[str, Any]
    measurement: Measurement  # the answer
    created: str  # UTC time of the commit, ISO 8601


@dataclass(frozen=True, kw_only=True)
class StoredConfig:
    """A configuration that a study considered."""

    config_hash: str
    hw: Mapping[str, Any]  # its parameters and label
    area: Mapping[str, Any]  # resource names to amounts, and ``text``: use against the board
    bounds: Mapping[str, int]  # task names to lower bounds in cycles, proven ones where there are
    status: str  # ``measured``, ``pruned`` or ``failed``
    reason: str  # why, when not measured
    # task names to their proofs, in order, as plain values (`exhaustive.prove.Proof`)
    proofs: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)

    @property
    def bounds_text(self) -> str:
        """The column ``bounds``: a number, or a number and the proofs that it follows from."""
        return dump(
            {
                task: bound
                if task not in self.proofs
                else {"cycles": bound, "proofs": list(self.proofs[task])}
                for task, bound in self.bounds.items()
            }
        )


@dataclass(frozen=True, kw_only=True)
class StoredStudy:
    """A study's settings and state.

    Attributes:
        settings: everything that decides which trials it makes; equal settings may resume.
    """

    id: int
    name: str  # unique in its store
    settings: Mapping[str, Any]
    versions: Mapping[str, str]  # software versions at its start
    status: str  # ``running``, ``interrupted`` or ``complete``
    created: str  # UTC time of its start, ISO 8601


def dump(value: object) -> str:
    """JSON text, alike for equal values."""
    return json.dumps(value, sort_keys=True)


def now() -> str:
    """UTC time, ISO 8601 in milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def memory_text(request: Request) -> str:
    """The memory model as the store writes it: its figures, without the label."""
    fields = dict(vars(request.memory))
    del fields["name"]
    return dump(fields)


def request_key(request: Request, oracle: str) -> str:
    """`trial_key` of a request to an oracle of that identity."""
    config_hash, workload_key, schedule = request.key
    return trial_key(
        oracle=oracle,
        config_hash=config_hash,
        workload_key=workload_key,
        schedule=schedule,
        memory=memory_text(request),
    )


def trial_row(
    request: Request, measurement: Measurement, oracle: str, energy: EnergyModel | None = None
) -> dict[str, Any]:
    """Columns of a trial that follow from what was asked and answered."""
    config_hash, workload_key, schedule = request.key
    return {
        "key": request_key(request, oracle),
        "config_hash": config_hash,
        "hw": dump({"name": request.hw.name, **request.hw.parameters()}),
        "workload_key": workload_key,
        "workload": dump(request.workload.to_mapping()),
        "schedule": schedule,
        "memory": memory_text(request),
        "fidelity": measurement.fidelity,
        "oracle": oracle,
        "status": str(measurement.status),
        "cycles": measurement.cycles,
        "counters": dump(dict(measurement.counters)),
        # PostgreSQL holds no NUL in a text.
        "failure": measurement.failure.replace("\0", "\N{REPLACEMENT CHARACTER}"),
        "limit_cycles": measurement.limit_cycles,
        "host_seconds": measurement.host_seconds,
        "output_checked": measurement.output_checked,
        "cached": measurement.cached,
        "runs": None if measurement.runs is None else dump(asdict(measurement.runs)),
        "created": now(),
        "valid": measurement.valid,
        "energy_pj": _energy(request.hw, measurement.counters, energy)
        if measurement.valid
        else None,
    }


def _energy(hw: HwConfig, counters: Mapping[str, int], model: EnergyModel | None) -> float | None:
    try:
        return (model or load_energy()).energy_pj(hw, counters)
    except KeyError:
        return None


_TEXT: Final = plain_values.plain(str)
_WHOLE: Final = plain_values.plain(int)
_NAMED: Final = plain_values.mapping(_TEXT, lambda value: value)
_COUNTS: Final = plain_values.mapping(_TEXT, _WHOLE)
_PROVEN: Final = plain_values.record(cycles=_WHOLE, proofs=plain_values.each(_NAMED))


def _bound(value: Any) -> tuple[int, Sequence[Mapping[str, Any]]]:
    """A bound, and the proofs that it follows from."""
    if not isinstance(value, dict):
        return _WHOLE(value), ()
    proven = _PROVEN(value)
    return _WHOLE(proven.get("cycles")), proven.get("proofs", ())


_BOUNDS: Final = plain_values.mapping(_TEXT, _bound)


def _record(kind: Callable[..., R], row: Any, **rules: plain_values.Rule) -> R:
    """A record of the columns of a row that its rules name."""
    return kind(**{name: rule(getattr(row, name)) for name, rule in rules.items()})


def _json(rule: plain_values.Rule) -> plain_values.Rule:
    """JSON text of a value by a rule."""
    return lambda text: rule(json.loads(text))


def study_of(row: Any) -> StoredStudy:
    """A row of ``studies``."""
    return _record(
        StoredStudy,
        row,
        id=_WHOLE,
        name=_TEXT,
        settings=_json(_NAMED),
        versions=_json(_NAMED),
        status=_TEXT,
        created=_TEXT,
    )


def config_of(row: Any) -> StoredConfig:
    """A row of ``configs``."""
    bounds = _json(_BOUNDS)(row.bounds)
    known = _record(
        StoredConfig,
        row,
        config_hash=_TEXT,
        hw=_json(_NAMED),
        area=_json(_NAMED),
        bounds=lambda _: {task: bound for task, (bound, _) in bounds.items()},
        status=_TEXT,
        reason=_TEXT,
    )
    return replace(known, proofs={task: proofs for task, (_, proofs) in bounds.items() if proofs})


_RUNS: Final = plain_values.record(
    board=_TEXT,
    bitstream=_TEXT,
    cycles=plain_values.each(_WHOLE),
    outliers=_WHOLE,
    half_interval=plain_values.real,
    standard_error=plain_values.real,
    reconfigure_seconds=plain_values.real,
    twin_cycles=_WHOLE,
)


def board_runs_of(text: str) -> BoardRuns:
    """The column ``runs`` of a row of ``trials``."""
    return BoardRuns.from_mapping(_json(_RUNS)(text))


def measurement_of(row: Any) -> Measurement:
    """The measurement in a row of ``trials``."""
    found = _record(
        Measurement,
        row,
        status=Status,
        fidelity=_TEXT,
        cycles=plain_values.optional(_WHOLE),
        counters=_json(_COUNTS),
        failure=_TEXT,
        limit_cycles=_WHOLE,
        host_seconds=plain_values.real,
        output_checked=plain_values.plain(bool),
        cached=plain_values.plain(bool),
        runs=plain_values.optional(board_runs_of),
    )
    if row.energy_pj is not None and not found.counters.keys() >= COUNTED:
        raise plain_values.PlainValueError("an energy without the counters that it is of")
    return found


def trial_of(row: Any) -> StoredTrial:
    """A row of ``trials``."""
    return _record(
        partial(StoredTrial, measurement=measurement_of(row)),
        row,
        sequence=_WHOLE,
        task=_TEXT,
        origin=_TEXT,
        config_hash=_TEXT,
        hw=_json(_NAMED),
        workload=_json(_NAMED),
        schedule=_json(_NAMED),
        memory=_json(_NAMED),
        created=_TEXT,
    )


def reused(measurement: Measurement, max_cycles: int) -> Measurement | None:
    """What an equal request with a limit of its own may take from a measurement, if anything.

    A failure is tried again, and a timeout counts only when its limit was at least this one.
    """
    if measurement.status is Status.TIMEOUT and measurement.limit_cycles >= max_cycles:
        return replace(measurement, limit_cycles=max_cycles, cached=True)
    if measurement.status is not Status.OK or measurement.cycles is None:
        return None
    if measurement.cycles <= max_cycles:
        return replace(measurement, limit_cycles=max_cycles, cached=True)
    return Measurement(
        status=Status.TIMEOUT,
        fidelity=measurement.fidelity,
        failure=f"more than {max_cycles} cycles",
        limit_cycles=max_cycles,
        host_seconds=measurement.host_seconds,
        cached=True,
    )
