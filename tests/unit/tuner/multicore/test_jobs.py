# SPDX-License-Identifier: Apache-2.0
"""Groups of jobs, and the tables that are made of them."""

from dataclasses import replace

import numpy as np
import pytest
from support.randomness import fresh_rng
from support.search.multicore import random_table

from tilewright.host.common.errors import ConfigError, WorkloadError
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.network_table import NetworkTable
from tilewright.host.network.workload import Kind, conv2d, dense, maxpool
from tilewright.host.network.zoo import load_network, network_names
from tilewright.tuner.mapping.architecture import load_architecture
from tilewright.tuner.mapping.cost import mapping_library
from tilewright.tuner.mapping.nest import nest_of
from tilewright.tuner.multicore import analyse as analyse_module
from tilewright.tuner.multicore import encoding, jobs
from tilewright.tuner.multicore.allocation import makespans
from tilewright.tuner.multicore.analyse import analyse, twin_cost
from tilewright.tuner.multicore.core_cost import mapped_cost
from tilewright.tuner.multicore.job_table import JobTable
from tilewright.tuner.multicore.platform import Core, Platform


def test_a_group_draws_from_all_networks_and_layers_and_names_differ():
    networks = jobs.task_networks("mix")
    group = jobs.draw_group("mix", networks, seed=0, size=2000, mini_batch=2)
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
    group = jobs.draw_group("g", [network], seed=0, size=20)
    assert {job.workload.kind for job in group.jobs} == {Kind.CONV2D}
    with pytest.raises(WorkloadError, match="n: a network needs a layer that multiplies"):
        jobs.draw_group("g", [NetworkTable(name="n", workloads=(pool,))], seed=0, size=1)


@pytest.mark.parametrize("name", network_names())
def test_pieces_make_up_the_whole_mini_batch(name):
    for workload in load_network(name).workloads:
        piece, times = jobs.Job(name="j", workload=workload, mini_batch=4).piece()
        assert piece.macs * times == 4 * workload.macs
        assert piece.out_height * times == 4 * workload.out_height
        assert piece.out_width == workload.out_width
        assert piece.count == 1


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
    asked = {"networks": jobs.task_networks("recommendation"), "seed": 0, "size": 8, "cores": 4}
    with pytest.raises(WorkloadError, match=message):
        jobs.draw_group("g", **(asked | changed))


def test_a_group_is_not_empty_and_names_differ():
    job = jobs.Job(name="a", workload=dense("fc", 1, 4, 4))
    with pytest.raises(WorkloadError, match="g: a group needs at least one job"):
        jobs.Group(name="g", jobs=())
    with pytest.raises(WorkloadError, match="name: jobs of a group must differ in name, not 'a'"):
        jobs.Group(name="g", jobs=(job, job))


# -- the job analysis table: what it refuses, and its file ----------------------------------------

INF = float("inf")


def test_reads_the_recorded_form(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text(
        "row,lat_core0,lat_core1,reqbw_core0,reqbw_core1\na,10,inf,2,1\nb,30,20,0.5,4\n"
    )
    table = JobTable.from_csv(path)
    assert table.names == ("a", "b")
    assert table.latency.tolist() == [[10, INF], [30, 20]]
    assert table.bandwidth.tolist() == [[2, 1], [0.5, 4]]
    assert table.bytes.tolist() == [[20, INF], [15, 80]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "columns must be row, lat_core0"),
        ("row,lat_core0,reqbw_core1\n", "columns must be row"),
        ("row,lat_core0,reqbw_core0\na,1\n", r":2: must be a name and 2 numbers, not 'a,1'"),
        ("row,lat_core0,reqbw_core0\na,1,x\n", r":2: must be a name and 2 numbers"),
        ("row,lat_core0,reqbw_core0\n\na,1,x\n", r":3: must be a name and 2 numbers"),
        ("row,lat_core0,reqbw_core0\na,1,inf\n", r"jobs.csv: bandwidth\[0, 0\]: must be a number"),
        ("row,lat_core0,reqbw_core0\na,1,1\nb,1,1\na,2,1\n", r"must differ in name, not 'a'"),
        ("row,lat_core0,reqbw_core0\n", r"latency: must have the shape \[jobs, cores\]"),
    ],
)
def test_refuses_a_file_that_is_no_table(tmp_path, text, message):
    path = tmp_path / "jobs.csv"
    path.write_text(text)
    with pytest.raises(WorkloadError, match=message):
        JobTable.from_csv(path)


def test_refuses_a_file_that_is_missing(tmp_path):
    with pytest.raises(WorkloadError, match="must be a readable CSV file"):
        JobTable.from_csv(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("latency", "bandwidth", "message"),
    [
        ([[1, 0]], [[1, 1]], r"latency\[0, 1\]: must be a number from 1e-100 .* or inf, not 0.0"),
        ([[1, float("nan")]], [[1, 1]], r"latency\[0, 1\]: must be a number from .*, not nan"),
        ([[1, 1e101]], [[1, 1]], r"latency\[0, 1\]: must be a number from .*, not 1e\+101"),
        ([[1, -INF]], [[1, 1]], r"latency\[0, 1\]: must be a number from .*, not -inf"),
        ([[1, 1]], [[1, INF]], r"bandwidth\[0, 1\]: must be a number from .* to 1e\+100, not inf"),
        ([[1, 1]], [[1, -1]], r"bandwidth\[0, 1\]: must be a number from"),
        ([[1, 1], [INF, INF]], [[1, 1]] * 2, r"latency\[1\]: at least one core must be able"),
        ([[1, 1]], [[1]], r"bandwidth: must have the shape of the latency, \(1, 2\), not \(1, 1\)"),
        ([1, 1], [1, 1], r"latency: must have the shape \[jobs, cores\]"),
        ([], [], r"latency: must have the shape \[jobs, cores\]"),
        ([["a"]], [[1]], "latency: must be numbers"),
    ],
)
def test_refuses_values_that_no_job_has(latency, bandwidth, message):
    with pytest.raises(WorkloadError, match=message):
        JobTable(latency, bandwidth)


def test_refuses_another_number_of_names():
    with pytest.raises(WorkloadError, match="names: must be 1 names, not 2"):
        JobTable([[1]], [[1]], names=("a", "b"))


def test_is_a_copy_that_cannot_be_written():
    latency = np.ones((1, 1))
    table = JobTable(latency, [[1]])
    latency[0, 0] = 5
    assert table.latency[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        table.latency[0, 0] = 2


# -- two genomes say which core runs which job, and when ------------------------------------------


def test_queues_and_genomes_are_one_another():
    rng = fresh_rng()
    table = random_table(rng, jobs=17, cores=3)
    drawn = encoding.random_population(table, 20, rng)
    queues = [encoding.queues_of(drawn, row, table.cores) for row in range(20)]
    again = encoding.population_of(queues)
    np.testing.assert_array_equal(again.core, drawn.core)
    assert [encoding.queues_of(again, row, table.cores) for row in range(20)] == queues
    for each in queues:
        assert sorted(job for queue in each for job in queue) == list(range(17))


def test_jobs_are_drawn_evenly_on_cores_that_can_run_them():
    table = JobTable([[1, np.inf, 1, 1], [np.inf, 1, np.inf, np.inf]], np.ones((2, 4)))
    cores = encoding.random_population(table, 3000, fresh_rng()).core
    assert set(cores[:, 1]) == {1}
    counts = np.bincount(cores[:, 0], minlength=4)
    assert counts[1] == 0
    assert (counts[[0, 2, 3]] > 800).all()


def test_parts_are_copies():
    whole = encoding.random_population(random_table(fresh_rng()), 4, fresh_rng())
    part = whole.take(slice(0, 2))
    part.core[:] = 9
    part.priority[:] = 9
    both = encoding.joined(whole, part)
    assert whole.core.max() < 9
    assert len(both) == 6
    assert both.priority[4:].min() == 9


# -- From groups and platforms to job tables
ARCH = replace(
    load_architecture("nvdla-like"), pes=16, max_clusters=4, max_cluster_size=4, l2_bytes=2048
)
TINY = load_hwconfig("tiny-4x4")
FC, CONV = dense("fc", 2, 16, 8), conv2d("conv", 6, 4, 4, 3, 1, 1)


def platform(*cores, clock=100.0):
    return Platform(name="p", cores=cores, clock_mhz=clock, bandwidths=(0.1, 0.4))


DESCRIBED = Core(name="described", hardware=ARCH)
OWN = Core(name="own", hardware=TINY)
JOBS = tuple(
    jobs.Job(name=f"{w.name}{n}", workload=w, mini_batch=3) for w in (FC, CONV) for n in range(2)
)
GROUP = jobs.Group(name="g", jobs=JOBS)


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """A cache that holds no costs; the native library is loaded before."""
    mapping_library()
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))


def test_a_job_has_the_cost_of_its_piece_as_often_as_it_is_repeated():
    found = analyse(GROUP, platform(DESCRIBED, OWN))
    link = 0.4 * 1000 / 100 / 2  # the memory's 4 bytes per cycle, shared by two cores
    for row, job in enumerate(JOBS):
        piece, times = job.piece()
        assert times == (1 if job.workload is FC else 3)
        for column, cost in enumerate(
            (mapped_cost(nest_of(piece), ARCH, link), twin_cost(piece, TINY, link))
        ):
            assert found.costs[row][column] == cost
            assert found.table.latency[row, column] == cost.latency * times
            assert found.table.bandwidth[row, column] == cost.bytes / cost.latency
    assert found.table.names == tuple(job.name for job in JOBS)
    assert found.proven
    assert makespans(found.table, 4, [[0, 1, 0, 1]], [[0, 1, 2, 3]]).shape == (1,)


def test_the_bandwidth_shapes_the_table_and_the_link_can_be_given():
    one = platform(DESCRIBED, DESCRIBED)
    by_bandwidth = analyse(GROUP, one, bandwidth=0.2)
    by_link = analyse(GROUP, one, link=1.0)
    assert by_bandwidth.costs == by_link.costs
    assert analyse(GROUP, one).costs == analyse(GROUP, one, bandwidth=0.4).costs
    assert by_link.costs != analyse(GROUP, one, link=16.0).costs


def test_the_papers_bandwidth_is_one_tile_over_the_latency():
    true, paper = (
        analyse(GROUP, platform(DESCRIBED), bw_model=model) for model in ("traffic", "paper")
    )
    assert np.array_equal(true.table.latency, paper.table.latency)
    for row, (cost,) in enumerate(paper.costs):
        assert paper.table.bandwidth[row, 0] == cost.tile_bytes / cost.latency
    assert (paper.table.bandwidth < true.table.bandwidth).all()


def test_a_layer_is_costed_once_on_each_kind_of_core_and_kept(own_cache, monkeypatch):
    computed = []
    compute = analyse_module._computed

    def counting(job, core, link):
        computed.append((job.name, core.name))
        return compute(job, core, link)

    monkeypatch.setattr(analyse_module, "_computed", counting)
    other = Core(name="other", hardware=replace(ARCH, name="another name"))
    told = []
    cores = platform(DESCRIBED, other, DESCRIBED)
    first = analyse(GROUP, cores, listener=lambda *progress: told.append(progress))
    assert sorted(computed) == [("conv0", "described"), ("fc0", "described")]
    assert [progress[:2] for progress in told] == [(1, 2), (2, 2)]
    assert {what for _, _, what in told} == {"fc0 on described", "conv0 on described"}
    assert analyse(GROUP, cores).costs == first.costs
    assert len(computed) == 2
    analyse(GROUP, cores, link=9.0)
    analyse(GROUP, platform(replace(DESCRIBED, flexible=True)), link=9.0)
    analyse(GROUP, platform(Core(name="larger", hardware=replace(ARCH, l2_bytes=4096))), link=9.0)
    assert len(computed) == 8


def test_a_damaged_cost_is_computed_again(own_cache, tmp_path):
    first = analyse(GROUP, platform(DESCRIBED))
    kept = sorted((tmp_path / "core_costs").iterdir())
    assert len(kept) == 2
    for path, text in zip(kept, ('{"latency": 1}', "not JSON"), strict=True):
        path.write_text(text)
    assert analyse(GROUP, platform(DESCRIBED)).costs == first.costs


def test_a_core_that_cannot_run_a_job_takes_for_ever():
    huge = jobs.Job(name="huge", workload=conv2d("huge", 40, 4, 4, 39, 19, 1))
    found = analyse(jobs.Group(name="g", jobs=(huge, JOBS[0])), platform(OWN, DESCRIBED), link=4.0)
    assert np.isinf(found.table.latency[0, 0])
    assert np.isfinite(found.table.latency[0, 1])
    assert found.table.bandwidth[0, 0] == 1
    with pytest.raises(WorkloadError, match="huge: no core of p can run it; leave the layer out"):
        analyse(jobs.Group(name="g", jobs=(huge, JOBS[0])), platform(OWN), link=4.0)


@pytest.mark.parametrize(
    ("cores", "changed", "message"),
    [
        ((DESCRIBED,), {"bw_model": "papr"}, "bw_model: no bandwidth model of that name: 'papr'"),
        ((DESCRIBED, OWN), {"bw_model": "paper"}, "bw_model: must be traffic for own: the twin"),
        ((DESCRIBED,), {"bandwidth": 0}, "bandwidth: must be a number from 1e-100 .*, not 0"),
        ((DESCRIBED,), {"bandwidth": 1e100}, r"bandwidth: must be a number .*, not 1e\+101"),
        ((DESCRIBED,), {"link": 0.0}, "link: must be a finite number above 0, not 0.0"),
        ((OWN,), {"link": -1.0}, "link: must be a finite number above 0, not -1.0"),
    ],
)
def test_refuses_what_no_table_has(cores, changed, message):
    with pytest.raises(ConfigError, match=message):
        analyse(GROUP, platform(*cores), **changed)


def test_refuses_fewer_jobs_than_cores():
    group = jobs.Group(name="g", jobs=JOBS[:1])
    with pytest.raises(WorkloadError, match=r"g: must have at least as many jobs as p has cores"):
        analyse(group, platform(DESCRIBED, OWN))
