# SPDX-License-Identifier: Apache-2.0
"""Winners of the tables on the full RTL."""

import dataclasses

import numpy as np
import pytest

from tilewright.bench.arena.confirm import confirm
from tilewright.bench.arena.tables import load_table
from tilewright.bench.arena.tasks import make_task
from tilewright.host.network.workload import conv2d


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    task = make_task("schedule", conv2d("small", 4, 32, 32, 3, 1, 1))
    return load_table(task, tmp_path_factory.mktemp("tables"))


def record(table, flat, seed=0):
    return {"task": table.task.id, "flat": flat, "seed": seed}


@pytest.mark.slow
def test_winners_and_the_optimum_take_the_tables_cycles_once_each(table):
    legal = np.flatnonzero(table.legal)
    worst = int(legal[np.argmax(table.cycles.ravel()[legal])])
    rows = list(
        confirm(
            [record(table, worst), record(table, worst, seed=1), record(table, 0, seed=7)],
            {table.task.id: table},
            workers=1,
        )
    )
    assert sorted(r["expected_cycles"] for r in rows) == [
        table.optimum,
        int(table.cycles.ravel()[worst]),
    ]
    assert all(r["equal"] and r["rtl_cycles"] == r["expected_cycles"] for r in rows)


@pytest.mark.slow
@pytest.mark.parametrize("error", [-2000, 5])
def test_a_table_that_is_wrong_is_found_out(table, error):
    wrong = dataclasses.replace(table, cycles=np.where(table.legal, table.cycles + error, -1))
    flat = int(np.flatnonzero(wrong.legal)[0])
    rows = list(confirm([record(wrong, flat)], {wrong.task.id: wrong}, workers=1))
    assert rows
    assert not any(r["equal"] for r in rows)
