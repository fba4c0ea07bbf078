# SPDX-License-Identifier: Apache-2.0
"""A study on the analytic accelerator as a process of its own: location, name, log, seconds.

Each measurement takes some seconds and then adds a line to the log.
"""

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from support.analytic_oracle import AnalyticOracle, Silent

from tilewright.testing.analytic import BASE, BOARD, MEMORY, RULES, TASKS
from tilewright.tuner.measure.measurement import Measurement, Request
from tilewright.tuner.store.store import Store
from tilewright.tuner.study.settings import StudySettings
from tilewright.tuner.study.study import run_study

BUDGET = 30


class LoggedOracle(AnalyticOracle):
    """Writes down what it measures."""

    def __init__(self, log: Path, seconds: float) -> None:
        super().__init__()
        self._log, self._seconds = log, seconds

    def measure(self, requests: Sequence[Request]) -> Iterator[tuple[int, Measurement]]:
        for position, answer in super().measure(requests):
            time.sleep(self._seconds)
            with self._log.open("a", encoding="utf-8") as log:
                log.write("/".join(requests[position].key) + "\n")
            yield position, answer


def settings() -> StudySettings:
    return StudySettings(
        model="net",
        tasks=TASKS,
        board=BOARD,
        memory=MEMORY,
        base=BASE,
        budget=BUDGET,
        configs=2,
        batch=4,
        tuner="coordinate",
    )


def main(location: str, name: str, log: str, seconds: str) -> None:
    place = location if "://" in location else Path(location)
    with Store(place) as store:
        run_study(
            name,
            settings(),
            store=store,
            oracle=LoggedOracle(Path(log), float(seconds)),
            rules=RULES,
            listener=Silent(),
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
