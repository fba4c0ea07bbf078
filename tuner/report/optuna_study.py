# SPDX-License-Identifier: Apache-2.0
"""A study's trials as studies of Optuna, for optuna-dashboard: one for each layer.

The parameters of a trial are its knobs, and the configuration when the study tried several. Its
value is its cycles; who proposed it, its fidelity and why it failed are user attributes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tilewright.host.common.errors import StoreError
from tilewright.tuner.store.records import StoredTrial

CONFIGURATION = "hw"
"""Parameter that names the configuration."""


def export_to_optuna(
    name: str,
    trials: Sequence[StoredTrial],
    path: Path,
    on_progress: Callable[[int], None] = lambda _: None,
) -> list[str]:
    """Write a storage of Optuna.

    Args:
        name: of the study.
        trials: of it, in order.
        path: of the SQLite file, which must not exist.
        on_progress: told how many trials are written.

    Returns:
        Names of the studies in the file: NAME/LAYER.

    Raises:
        StoreError: the file exists or cannot be written, or there are no trials.
        ModuleNotFoundError: Optuna is not installed (extra ``search``).
    """
    import optuna  # noqa: PLC0415  (an extra)

    if path.exists():
        raise StoreError("exists already", field=str(path), remedy="name a new file")
    if not trials:
        raise StoreError("the study has no trials yet", field=name, remedy="run it first")
    layers: dict[str, list[StoredTrial]] = {}
    for trial in trials:
        layers.setdefault(trial.task, []).append(trial)
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    names, done = [], 0
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
                distributions = _distributions(optuna, [_parameters(trial) for trial in mine])
                for trial in mine:
                    study.add_trial(_frozen(optuna, trial, distributions))
                    done += 1
                    on_progress(done)
                names.append(study.study_name)
            storage.remove_session()
            storage.engine.dispose()
            part.replace(path)
    except (OSError, sa.exc.SQLAlchemyError) as error:
        raise StoreError(f"cannot be written ({error})", field=str(path)) from error
    finally:
        optuna.logging.set_verbosity(verbosity)
    return names


def _parameters(trial: StoredTrial) -> dict[str, Any]:
    return {**trial.schedule, CONFIGURATION: f"{trial.hw['name']} {trial.config_hash}"}


def _distributions(optuna: Any, points: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What each parameter was drawn from, as far as the trials tell."""
    found: dict[str, Any] = {}
    for name in points[0]:
        values = sorted({point[name] for point in points}, key=str)
        whole = all(isinstance(value, int) and not isinstance(value, bool) for value in values)
        found[name] = (
            optuna.distributions.IntDistribution(min(values), max(values))
            if whole
            else optuna.distributions.CategoricalDistribution(values)
        )
    return found


def _frozen(optuna: Any, trial: StoredTrial, distributions: Mapping[str, Any]) -> Any:
    """One trial as Optuna keeps it."""
    measured = trial.measurement
    ended = datetime.fromisoformat(trial.created).replace(tzinfo=None)
    frozen = optuna.trial.create_trial(
        state=optuna.trial.TrialState.COMPLETE if measured.valid else optuna.trial.TrialState.FAIL,
        params=_parameters(trial),
        distributions=dict(distributions),
        value=float(measured.cycles or 0) if measured.valid else None,
        user_attrs={
            "sequence": trial.sequence,
            "origin": trial.origin,
            "fidelity": measured.fidelity,
            "cached": measured.cached,
            **({} if measured.valid else {"failure": measured.failure or str(measured.status)}),
        },
    )
    frozen.datetime_complete = ended
    frozen.datetime_start = ended - timedelta(seconds=measured.host_seconds)
    return frozen
