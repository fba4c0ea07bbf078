"""Two genomes say which core runs which job, and when; jobs never are where they cannot run."""

import numpy as np
from support.multicore import random_table
from support.randomness import fresh_rng

from tilewright.tuner.multicore.encoding import (
    Population,
    joined,
    population_of,
    queues_of,
    random_cores,
    random_population,
)
from tilewright.tuner.multicore.job_table import JobTable


def test_queues_and_genomes_are_one_another():
    rng = fresh_rng()
    table = random_table(rng, jobs=17, cores=3)
    drawn = random_population(table, 20, rng)
    queues = [queues_of(drawn, row, table.cores) for row in range(20)]
    again = population_of(queues)
    np.testing.assert_array_equal(again.core, drawn.core)
    assert [queues_of(again, row, table.cores) for row in range(20)] == queues
    for each in queues:
        assert sorted(job for queue in each for job in queue) == list(range(17))


def test_equal_priorities_keep_the_order_of_the_table():
    population = Population(
        core=np.zeros((1, 4), dtype=np.int32), priority=np.array([[1.0, 0.0, 1.0, 0.0]])
    )
    assert queues_of(population, 0, cores=2) == [[1, 3, 0, 2], []]


def test_jobs_are_drawn_evenly_on_cores_that_can_run_them():
    table = JobTable([[1, np.inf, 1, 1], [np.inf, 1, np.inf, np.inf]], np.ones((2, 4)))
    cores = random_population(table, 3000, fresh_rng()).core
    assert set(cores[:, 1]) == {1}
    counts = np.bincount(cores[:, 0], minlength=4)
    assert counts[1] == 0
    assert (counts[[0, 2, 3]] > 800).all()


def test_ends_of_the_shares_are_cores():
    table = JobTable([[np.inf, 1, 1]], [[1, 1, 1]])
    assert random_cores(table, np.array([[0.0], [1.0]]))[:, 0].tolist() == [1, 2]


def test_parts_are_copies():
    whole = random_population(random_table(fresh_rng()), 4, fresh_rng())
    part = whole.take(slice(0, 2))
    part.core[:] = 9
    part.priority[:] = 9
    both = joined(whole, part)
    assert whole.core.max() < 9
    assert len(both) == 6
    assert both.priority[4:].min() == 9
