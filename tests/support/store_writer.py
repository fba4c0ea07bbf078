# SPDX-License-Identifier: Apache-2.0
"""A process that adds trials to a store until it is killed, and tells of each that is kept."""

import os
import sys
from pathlib import Path

from support.trials import SETTINGS, add, measured, request

from tilewright.tuner.store.records import request_key
from tilewright.tuner.store.store import Store


def main(place: str) -> None:
    store = Store(place if "://" in place else Path(place))
    study = store.open_study("a", SETTINGS, {})
    start = len(store.trials(study.id))
    for n in range(start, 1_000_000):
        if n % 8 == 0:
            keys = [request_key(request(n + i + 1), "oracle-1") for i in range(8)]
            store.claim(keys, "writer", seconds=60)
        add(store, study.id, n, request(n + 1), measured(n + 1), owner="writer")
        os.write(1, b"%d\n" % n)


if __name__ == "__main__":
    main(sys.argv[1])
