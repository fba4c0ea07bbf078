# SPDX-License-Identifier: Apache-2.0
"""A study's trials as studies of Optuna, for optuna-dashboard: one for each layer.

The parameters of a trial are its knobs, and the configuration when the study tried several. Its
value is its cycles; who proposed it, its fidelity and why it failed are user attributes.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from tilewright.host.common.errors import StoreError
from tilewright.host.common.plain_values import is_integer
from tilewright.tuner.store.records import StoredTrial

_ROWS: Final = 2000
"""Trials that are written at a time."""

CONFIGURATION = "hw"
"""Parameter that names the configuration."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Trial:
    """What Optuna keeps of a trial (a study has many); times in UTC and without a zone."""

    parameters: Mapping[str, Any]  # knobs and configuration
    attributes: Mapping[str, Any]  # the rest
    cycles: int | None  # its value; None: it failed
    began: datetime
    ended: datetime

    @classmethod
    def of(cls, trial: StoredTrial) -> _Trial:
        measured = trial.measurement
        stored = datetime.fromisoformat(trial.created)
        ended = stored.astimezone(UTC).replace(tzinfo=None) if stored.tzinfo else stored
        return cls(
            parameters={**trial.schedule, CONFIGURATION: f"{trial.hw['name']} {trial.config_hash}"},
            attributes={
                "sequence": trial.sequence,
                "origin": trial.origin,
                "fidelity": measured.fidelity,
                "cached": measured.cached,
                **({} if measured.valid else {"failure": measured.failure or str(measured.status)}),
            },
            cycles=(measured.cycles or 0) if measured.valid else None,
            began=ended - timedelta(seconds=measured.host_seconds),
            ended=ended,
        )


def export_to_optuna(
    name: str,
    trials: Iterable[StoredTrial],
    path: Path,
) -> list[str]:
    """Write a storage of Optuna."""
    import optuna  # noqa: PLC0415  (an extra)

    if path.exists() or path.is_symlink():
        raise StoreError("exists already", field=str(path), remedy="name a new file")
    layers: dict[str, list[_Trial]] = {}
    for trial in trials:
        layers.setdefault(trial.task, []).append(_Trial.of(trial))
    if not layers:
        raise StoreError("the study has no trials yet", field=name, remedy="run it first")
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    names = []
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".optuna-") as folder:
            part = Path(folder) / "storage.sqlite"
            url = sa.URL.create("sqlite", database=str(part)).render_as_string()
            storage = optuna.storages.RDBStorage(url)
            for layer, mine in layers.items():
                study = optuna.create_study(
                    study_name=f"{name}/{layer}", storage=storage, direction="minimize"
                )
                number = storage.get_study_id_from_name(study.study_name)
                _write(optuna, storage.engine, number, mine)
                names.append(study.study_name)
            storage.remove_session()
            storage.engine.dispose()
            part.replace(path)
    except (OSError, sa.exc.SQLAlchemyError) as error:
        cause = getattr(error, "orig", None) or getattr(error, "strerror", None) or error
        raise StoreError(
            f"cannot be written ({cause})",
            field=str(path),
            remedy="free disk space, or name a file elsewhere",
        ) from error
    finally:
        optuna.logging.set_verbosity(verbosity)
    return names


def _write(optuna: Any, engine: sa.Engine, study: int, trials: Sequence[_Trial]) -> None:
    """Write a study's trials into the tables of Optuna's storage.

    `Study.add_trial` takes a transaction for each and counts the trials before it: hours for
    100,000. A test holds that both write the same.
    """
    distributions = _distributions(optuna, trials)
    stated = {
        name: optuna.distributions.distribution_to_json(each)
        for name, each in distributions.items()
    }
    states = optuna.trial.TrialState
    tables = sa.MetaData()
    tables.reflect(engine)
    rows, values, parameters, attributes = (
        tables.tables[name].insert()
        for name in ("trials", "trial_values", "trial_params", "trial_user_attributes")
    )
    with engine.begin() as connection:
        first = connection.scalar(sa.text("select coalesce(max(trial_id), 0) + 1 from trials"))
        for start in range(0, len(trials), _ROWS):
            part = [
                (first + number, number, trial)
                for number, trial in enumerate(trials[start : start + _ROWS], start)
            ]
            connection.execute(
                rows,
                [
                    {
                        "trial_id": key,
                        "number": number,
                        "study_id": study,
                        "state": (states.FAIL if trial.cycles is None else states.COMPLETE).name,
                        "datetime_start": trial.began,
                        "datetime_complete": trial.ended,
                    }
                    for key, number, trial in part
                ],
            )
            measured = [
                {
                    "trial_id": key,
                    "objective": 0,
                    "value": float(trial.cycles),
                    "value_type": "FINITE",
                }
                for key, _, trial in part
                if trial.cycles is not None
            ]
            if measured:
                connection.execute(values, measured)
            connection.execute(
                parameters,
                [
                    {
                        "trial_id": key,
                        "param_name": name,
                        "param_value": distributions[name].to_internal_repr(value),
                        "distribution_json": stated[name],
                    }
                    for key, _, trial in part
                    for name, value in trial.parameters.items()
                ],
            )
            connection.execute(
                attributes,
                [
                    {"trial_id": key, "key": name, "value_json": json.dumps(value)}
                    for key, _, trial in part
                    for name, value in trial.attributes.items()
                ],
            )


def _distributions(optuna: Any, trials: Sequence[_Trial]) -> dict[str, Any]:
    """What each parameter was drawn from, as far as the trials tell."""
    seen: dict[str, set[Any]] = {name: set() for name in trials[0].parameters}
    for trial in trials:
        for name, value in trial.parameters.items():
            seen[name].add(value)
    found: dict[str, Any] = {}
    for name, drawn in seen.items():
        values = sorted(drawn, key=str)
        whole = all(map(is_integer, values))
        found[name] = (
            optuna.distributions.IntDistribution(min(values), max(values))
            if whole
            else optuna.distributions.CategoricalDistribution(values)
        )
    return found
