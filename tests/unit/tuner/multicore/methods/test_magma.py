"""Crossovers are true swaps: what one child has of a parent, the other does not have."""

import numpy as np
import pytest
from support.randomness import fresh_rng
from support.search.multicore import random_instance, random_table

from tilewright.host.common.errors import ConfigError
from tilewright.host.common.yaml_files import read_yaml_mapping
from tilewright.tuner.multicore.encoding import Population
from tilewright.tuner.multicore.methods import magma

PAIRS, JOBS, CORES = 60, 14, 3


def parents(rng):
    """Pairs that differ in every priority: 0 to 1 and 1 to 2; cores are drawn."""
    table = random_table(rng, JOBS, CORES)
    pair = tuple(
        Population(
            core=rng.integers(CORES, size=(PAIRS, JOBS)).astype(np.int32),
            priority=rng.random((PAIRS, JOBS)) + number,
        )
        for number in range(2)
    )
    return table, pair


@pytest.mark.parametrize("cross", [magma.crossover_gen, magma.crossover_rg])
def test_genes_change_sides_and_none_is_lost_or_doubled(cross):
    rng = fresh_rng()
    table, pair = parents(rng)
    before = [(each.core.copy(), each.priority.copy()) for each in pair]
    rows = np.arange(PAIRS) % 4 > 0
    one, two = cross(table, pair, rows, rng)
    for genome, (first, second) in (
        ("core", (before[0][0], before[1][0])),
        ("priority", (before[0][1], before[1][1])),
    ):
        ours, theirs = getattr(one, genome), getattr(two, genome)
        kept = (ours == first) & (theirs == second)
        swapped = (ours == second) & (theirs == first)
        assert (kept | swapped).all()
        assert kept[~rows].all()
    moved = one.priority != before[0][1]
    assert moved[rows].any()
    for each, (core, priority) in zip(pair, before, strict=True):
        np.testing.assert_array_equal(each.core, core)
        np.testing.assert_array_equal(each.priority, priority)
        for child in (one, two):
            assert not np.shares_memory(child.core, each.core)
            assert not np.shares_memory(child.priority, each.priority)
    assert not np.shares_memory(one.priority, two.priority)


def test_accel_gives_each_child_a_core_of_the_other_parent():
    rng = fresh_rng()
    table, pair = parents(rng)
    rows = np.arange(PAIRS) % 3 > 0
    children = magma.crossover_accel(table, pair, rows, rng)
    for child, own, other in zip(children, pair, pair[::-1], strict=True):
        came = child.priority != own.priority
        np.testing.assert_array_equal(child.core[came], other.core[came])
        assert not came[~rows].any()
        np.testing.assert_array_equal(child.core[~rows], own.core[~rows])
        for row in np.flatnonzero(rows & came.any(axis=1)):
            core = other.core[row][came[row]][0]
            np.testing.assert_array_equal(came[row], other.core[row] == core)
            elsewhere = ~came[row] & (own.core[row] != core)
            np.testing.assert_array_equal(child.core[row][elsewhere], own.core[row][elsewhere])
    assert any(
        (child.priority != own.priority).any() for child, own in zip(children, pair, strict=True)
    )


def test_breeds_as_many_children_as_are_wanted():
    rng = fresh_rng()
    table, (first, _) = parents(rng)
    assert len(magma.bred(table, first, 7, magma.MagmaSettings(), rng)) == 7


@pytest.mark.parametrize(
    ("wrong", "field"), [({"population": 3}, "population"), ({"mutation": 1.5}, "mutation")]
)
def test_refuses_settings_that_cannot_be(wrong, field):
    with pytest.raises(ConfigError, match=field):
        magma.MagmaMapper(**wrong)


def test_the_tuned_one_has_the_recorded_settings():
    record = read_yaml_mapping(magma.RECORD, "a record")
    settings, conditions = record["settings"], record["conditions"]
    assert magma.MagmaSettings(**settings) != magma.MagmaSettings()
    assert conditions["found"] < conditions["published"]
    instance = random_instance(fresh_rng(), 20, 3)
    own = magma.MagmaMapper(**settings).run(instance, 300, 0)
    np.testing.assert_array_equal(magma.TunedMagmaMapper().run(instance, 300, 0).best, own.best)
