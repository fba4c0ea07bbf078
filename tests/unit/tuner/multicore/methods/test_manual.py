"""Manual mappers place jobs as they say: worked examples."""

import numpy as np
import pytest

from tilewright.tuner.multicore.instance import Instance
from tilewright.tuner.multicore.job_table import JobTable
from tilewright.tuner.multicore.methods.manual import Order, Placement, placed
from tilewright.tuner.multicore.methods.tilewright import ai_mt_queues, herald_queues

TABLE = JobTable(
    [[4, 8], [6, 2], [1, 3], [9, np.inf], [5, 5]],
    [[2, 1], [1, 3], [9, 3], [1, 1], [1, 1]],
)  # mean latencies 6, 4, 2, 9, 5


@pytest.mark.parametrize(
    ("order", "placement", "queues"),
    [
        (Order.FCFS, Placement.GREEDY, [[0, 2, 3], [1, 4]]),
        (Order.FCFS, Placement.ROUND_ROBIN, [[0, 2, 3], [1, 4]]),
        (Order.SJF, Placement.ROUND_ROBIN, [[2, 4, 3], [1, 0]]),
        (Order.HEFT, Placement.ROUND_ROBIN, [[3, 4, 2], [0, 1]]),
        (Order.SJF, Placement.GREEDY, [[2, 4, 0, 3], [1]]),
        (Order.HEFT, Placement.GREEDY, [[3, 1, 2], [0, 4]]),
        (Order.FCFS, Placement.FASTEST, [[0, 2, 3, 4], [1]]),
    ],
)
def test_places_jobs_by_the_order_and_the_rule(order, placement, queues):
    assert placed(TABLE, order, placement) == queues


def test_herald_takes_the_preferred_core_while_loads_are_balanced():
    alike = JobTable([[1, 2]] * 6, np.ones((6, 2)))
    queues = herald_queues(alike, unbalance=1.25)
    assert sorted(len(queue) for queue in queues) == [2, 4]
    assert herald_queues(alike, unbalance=100.0) == [[0, 1, 2, 3, 4, 5], []]


def test_ai_mt_puts_a_frugal_job_beside_a_hungry_one():
    table = JobTable(np.full((4, 2), 10.0), [[4, 4], [4, 4], [1, 1], [1, 1]])
    queues = ai_mt_queues(Instance(table=table, bandwidth=5.0))
    assert queues == [[0, 1], [2, 3]]
