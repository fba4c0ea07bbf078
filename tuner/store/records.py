# SPDX-License-Identifier: Apache-2.0
"""Rows of the trial store as records, and records as rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from tilewright.host.machine.hwconfig import HwConfig
from tilewright.tuner.measure.energy import EnergyModel, load_energy
from tilewright.tuner.measure.measurement import BoardRuns, Measurement, Request, Status
from tilewright.tuner.store.schema import trial_key


@dataclass(frozen=True, kw_only=True)
class StoredTrial:
    """One row of the store.

    Attributes:
        sequence: position in proposal order, from 0.
        task: name of the task that it was measured for.
        origin: ``default``, ``transfer`` or the tuner: who proposed it.
        config_hash: identity of the configuration.
        hw, workload, schedule, memory: everything needed to run it again, as plain values.
        measurement: the answer.
        created: UTC time of the commit, ISO 8601.
    """

    sequence: int
    task: str
    origin: str
    config_hash: str
    hw: Mapping[str, Any]
    workload: Mapping[str, Any]
    schedule: Mapping[str, Any]
    memory: Mapping[str, Any]
    measurement: Measurement
    created: str


@dataclass(frozen=True, kw_only=True)
class StoredConfig:
    """A configuration that a study considered.

    Attributes:
        hw: its parameters and label.
        area: resource names to amounts, and ``text``: use against the board.
        bounds: task names to lower bounds in cycles.
        status: ``measured``, ``pruned`` or ``failed``.
        reason: why, when not measured.
    """

    config_hash: str
    hw: Mapping[str, Any]
    area: Mapping[str, Any]
    bounds: Mapping[str, int]
    status: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class StoredStudy:
    """A study's settings and state.

    Attributes:
        name: unique in its store.
        settings: everything that decides which trials it makes; equal settings may resume.
        versions: software versions at its start.
        status: ``running``, ``interrupted`` or ``complete``.
        created: UTC time of its start, ISO 8601.
    """

    id: int
    name: str
    settings: Mapping[str, Any]
    versions: Mapping[str, str]
    status: str
    created: str


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


def study_of(row: Any) -> StoredStudy:
    """A row of ``studies``."""
    return StoredStudy(
        id=row.id,
        name=row.name,
        settings=json.loads(row.settings),
        versions=json.loads(row.versions),
        status=row.status,
        created=row.created,
    )


def config_of(row: Any) -> StoredConfig:
    """A row of ``configs``."""
    return StoredConfig(
        config_hash=row.config_hash,
        hw=json.loads(row.hw),
        area=json.loads(row.area),
        bounds=json.loads(row.bounds),
        status=row.status,
        reason=row.reason,
    )


def measurement_of(row: Any) -> Measurement:
    """The measurement in a row of ``trials``."""
    return Measurement(
        status=Status(row.status),
        fidelity=row.fidelity,
        cycles=row.cycles,
        counters=json.loads(row.counters),
        failure=row.failure,
        limit_cycles=row.limit_cycles,
        host_seconds=row.host_seconds,
        output_checked=row.output_checked,
        cached=row.cached,
        runs=None if row.runs is None else BoardRuns.from_mapping(json.loads(row.runs)),
    )


def trial_of(row: Any) -> StoredTrial:
    """A row of ``trials``."""
    return StoredTrial(
        sequence=row.sequence,
        task=row.task,
        origin=row.origin,
        config_hash=row.config_hash,
        hw=json.loads(row.hw),
        workload=json.loads(row.workload),
        schedule=json.loads(row.schedule),
        memory=json.loads(row.memory),
        measurement=measurement_of(row),
        created=row.created,
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
