# SPDX-License-Identifier: Apache-2.0
"""What writes to a store as a process of its own.

With location, name, log, seconds and perhaps a number: a study on the analytic accelerator, each
measurement of which takes so long and then adds a line to the log; so many are on their way. With a
location alone: trials, until it is killed.
"""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from support.search.analytic_oracle import AnalyticOracle, Silent, make
from support.search.trials import SETTINGS, add, measured, request

from tilewright.testing.analytic import RULES
from tilewright.tuner.measure.measurement import Measurement, Request
from tilewright.tuner.store.records import request_key
from tilewright.tuner.store.store import Store
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


def place(location: str) -> str | Path:
    return location if "://" in location else Path(location)


def add_trials(location: str) -> None:
    """Tell the number of each trial that the store has acknowledged."""
    store = Store(place(location))
    study = store.open_study("a", SETTINGS, {})
    for n in range(len(store.trials(study.id)), 1_000_000):
        if n % 8 == 0:
            keys = [request_key(request(n + i + 1), "oracle-1") for i in range(8)]
            store.claim(keys, "writer", seconds=60)
        add(store, study.id, n, request(n + 1), measured(n + 1), owner="writer")
        os.write(1, b"%d\n" % n)


def run(location: str, name: str, log: str, seconds: str, asynchronous: str = "0") -> None:
    with Store(place(location)) as store:
        run_study(
            name,
            make(budget=BUDGET, configs=2, asynchronous=int(asynchronous)),
            store=store,
            oracle=LoggedOracle(Path(log), float(seconds)),
            rules=RULES,
            listener=Silent(),
        )


if __name__ == "__main__":
    run(*sys.argv[1:]) if sys.argv[2:] else add_trials(sys.argv[1])
