# SPDX-License-Identifier: Apache-2.0
"""The trials of studies as a table: one row a measurement, one column a figure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.whole_file import write_whole
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.registers import COUNTERS
from tilewright.host.network.schedule import Schedule
from tilewright.tuner.store.store import Store
from tilewright.tuner.study.best_network import cost_of, energy_model
from tilewright.tuner.study.results import StudyResult

COLUMNS: Final = {
    "study": "name of the study",
    "tuner": "tuner of the study",
    "seed": "seed of the study",
    "stage": "`search`, or `confirmation`: the best schedules again, on a slower fidelity",
    "measurement": "number within the stage, from 1",
    "layer": "name of the layer",
    "origin": "who proposed it: `default` (untuned), `transfer` or the tuner",
    "fidelity": "what counted the cycles",
    "status": "`ok`, or why there is no measurement",
    "cycles": "clock cycles of one occurrence of the layer; empty: not measured",
    "energy_pj": "picojoules of one occurrence by the study's energy model, a relative figure",
    "host_seconds": "seconds that the measurement took this machine",
    "cached": "whether an earlier study had measured it",
    "output_checked": "whether the output was compared with the golden model",
    "created": "UTC time, ISO 8601",
    "hw": "name of the configuration",
    "hw_hash": "identity of the configuration",
    **{f"hw.{each.name}": "parameter of it" for each in fields(HwConfig) if each.name != "name"},
    **{f"schedule.{each.name}": "choice of the schedule" for each in fields(Schedule)},
    **{f"counter.{name}": meaning for name, meaning in COUNTERS if name != "cycles"},
}
"""Every column with its meaning and unit."""


def trial_rows(store: Store, result: StudyResult) -> Iterator[dict[str, Any]]:
    """The trials of a study: those of its search, then what confirms them."""
    model = energy_model(result)
    stages = [("search", result.search), ("confirmation", result)]
    for stage, part in stages[: 1 if result.screening is None else 2]:
        for trial in store.each_trial(part.study.id):
            measured = trial.measurement
            yield {
                "study": result.study.name,
                "tuner": result.settings["tuner"],
                "seed": result.settings["seed"],
                "stage": stage,
                "measurement": trial.sequence + 1,
                "layer": trial.task,
                "origin": trial.origin,
                "fidelity": measured.fidelity,
                "status": str(measured.status),
                "cycles": measured.cycles if measured.valid else None,
                "energy_pj": cost_of(trial, 0.0, model).energy if measured.valid else None,
                "host_seconds": measured.host_seconds,
                "cached": measured.cached,
                "output_checked": measured.output_checked,
                "created": trial.created,
                "hw": trial.hw["name"],
                "hw_hash": trial.config_hash,
                **{f"hw.{name}": value for name, value in trial.hw.items() if name != "name"},
                **{f"schedule.{name}": value for name, value in trial.schedule.items()},
                **{f"counter.{name}": value for name, value in measured.counters.items()},
            }


def write_csv(rows: Iterable[dict[str, Any]], path: Path) -> int:
    """Write a table with a header of `COLUMNS`; the number of its rows."""
    text, count = io.StringIO(), 0
    table = csv.DictWriter(text, COLUMNS, extrasaction="ignore", lineterminator="\n")
    table.writeheader()
    for row in rows:
        table.writerow(row)
        count += 1
    write_whole(path, text.getvalue())
    return count
