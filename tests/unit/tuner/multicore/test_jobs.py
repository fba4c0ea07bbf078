# SPDX-License-Identifier: Apache-2.0
"""Jobs and groups: what is drawn, and that a mini-batch is all computed."""

from dataclasses import replace

import pytest

from tilewright.host.common.errors import WorkloadError
from tilewright.host.network.network_table import NetworkTable
from tilewright.host.network.workload import Kind, conv2d, dense, maxpool
from tilewright.host.network.zoo import load_network, network_names
from tilewright.tuner.multicore.jobs import (
    MIX,
    TASKS,
    Group,
    Job,
    draw_group,
    task_names,
    task_networks,
)


def test_the_mix_has_the_networks_of_all_tasks():
    names = {network.name for network in task_networks(MIX)}
    assert names == {name for task in TASKS for name in TASKS[task]}
    assert task_names() == ("vision", "language", "recommendation", "mix")


def test_a_seed_gives_the_same_group_and_another_one_another():
    networks = task_networks("mix")
    first, again, other = (
        draw_group("mix", networks, seed=seed, size=40, cores=4) for seed in (1, 1, 2)
    )
    assert first == again
    assert first.jobs != other.jobs


def test_a_group_draws_from_all_networks_and_layers_and_names_differ():
    networks = task_networks("mix")
    group = draw_group("mix", networks, seed=0, size=2000, mini_batch=2)
    assert len(group.jobs) == len({job.name for job in group.jobs}) == 2000
    drawn = {(job.name.split(".")[0], job.workload.key) for job in group.jobs}
    for network in networks:
        assert {key for name, key in drawn if name == network.name} == {
            w.key for w in network.workloads
        }
    assert {job.mini_batch for job in group.jobs} == {2}
    assert group.macs == 2 * sum(job.workload.macs for job in group.jobs)


def test_max_pools_are_not_drawn():
    pool = maxpool("pool", 8, 4, 2, 0, 2)
    network = NetworkTable(name="n", workloads=(pool, dense("fc", 1, 4, 4)))
    group = draw_group("g", [network], seed=0, size=20)
    assert {job.workload.kind for job in group.jobs} == {Kind.CONV2D}
    with pytest.raises(WorkloadError, match="n: a network needs a layer that multiplies"):
        draw_group("g", [NetworkTable(name="n", workloads=(pool,))], seed=0, size=1)


@pytest.mark.parametrize("name", network_names())
def test_pieces_make_up_the_whole_mini_batch(name):
    for workload in load_network(name).workloads:
        piece, times = Job(name="j", workload=workload, mini_batch=4).piece()
        assert piece.macs * times == 4 * workload.macs
        assert piece.out_height * times == 4 * workload.out_height
        assert piece.out_width == workload.out_width
        assert piece.count == 1


def test_weights_are_shared_by_the_rows_of_a_mini_batch_and_by_nothing_else():
    def piece(workload):
        found, times = Job(name="j", workload=workload, mini_batch=4).piece()
        return found.height, times

    assert piece(dense("fc", 1, 64, 64)) == (4, 1)
    assert piece(conv2d("pointwise", 56, 8, 8, 1, 0, 2)) == (224, 1)
    assert piece(conv2d("window", 56, 8, 8, 3, 1, 1)) == (56, 4)
    assert piece(conv2d("ragged", 57, 8, 8, 1, 0, 2)) == (57, 4)
    assert piece(replace(dense("padded", 8, 8, 8), pad_top=1)) == (8, 4)
    # Products of attention have no weights: each sentence has operands of its own.
    assert piece(load_network("bert_base")["scores"]) == (128, 4)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"size": 3}, r"size: must be at least the number of cores \(4\).*, not 3"),
        ({"size": 0}, "size: must be an integer from 1 to 100000, not 0"),
        ({"mini_batch": 0}, "mini_batch: must be an integer from 1 to 65536, not 0"),
        ({"mini_batch": 1.5}, "mini_batch: must be an integer"),
        ({"seed": -1}, "seed: must be an integer from 0"),
        ({"networks": []}, "g: a group needs at least one network"),
    ],
)
def test_refuses_a_group_that_cannot_be(changed, message):
    asked = {"networks": task_networks("recommendation"), "seed": 0, "size": 8, "cores": 4}
    with pytest.raises(WorkloadError, match=message):
        draw_group("g", **(asked | changed))


def test_an_unknown_task_lists_the_known_ones():
    with pytest.raises(WorkloadError, match=r"task: must be a task, or a file .*'visoin'.*vision"):
        task_networks("visoin")


def test_a_group_is_not_empty_and_names_differ():
    job = Job(name="a", workload=dense("fc", 1, 4, 4))
    with pytest.raises(WorkloadError, match="g: a group needs at least one job"):
        Group(name="g", jobs=())
    with pytest.raises(WorkloadError, match="name: jobs of a group must differ in name, not 'a'"):
        Group(name="g", jobs=(job, job))
