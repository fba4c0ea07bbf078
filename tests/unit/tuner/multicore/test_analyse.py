# SPDX-License-Identifier: Apache-2.0
"""From groups and platforms to job tables."""

from dataclasses import replace

import numpy as np
import pytest

from tilewright.host.common.errors import ConfigError, WorkloadError
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.workload import conv2d, dense
from tilewright.tuner.mapping.architecture import load_architecture
from tilewright.tuner.mapping.cost import mapping_library
from tilewright.tuner.mapping.nest import nest_of
from tilewright.tuner.multicore import analyse as analyse_module
from tilewright.tuner.multicore.allocation import makespans
from tilewright.tuner.multicore.analyse import analyse, twin_cost
from tilewright.tuner.multicore.core_cost import mapped_cost
from tilewright.tuner.multicore.jobs import Group, Job
from tilewright.tuner.multicore.platform import Core, Platform

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
    Job(name=f"{w.name}{n}", workload=w, mini_batch=3) for w in (FC, CONV) for n in range(2)
)
GROUP = Group(name="g", jobs=JOBS)


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


def test_an_error_in_one_cost_ends_the_analysis(own_cache, monkeypatch):
    def failing(job, core, link):
        raise WorkloadError("no", field=job.name)

    monkeypatch.setattr(analyse_module, "_computed", failing)
    with pytest.raises(WorkloadError, match="0: no"):
        analyse(GROUP, platform(DESCRIBED))


def test_a_damaged_cost_is_computed_again(own_cache, tmp_path):
    first = analyse(GROUP, platform(DESCRIBED))
    kept = sorted((tmp_path / "core_costs").iterdir())
    assert len(kept) == 2
    for path, text in zip(kept, ('{"latency": 1}', "not JSON"), strict=True):
        path.write_text(text)
    assert analyse(GROUP, platform(DESCRIBED)).costs == first.costs


def test_a_core_that_cannot_run_a_job_takes_for_ever():
    huge = Job(name="huge", workload=conv2d("huge", 40, 4, 4, 39, 19, 1))
    found = analyse(Group(name="g", jobs=(huge, JOBS[0])), platform(OWN, DESCRIBED), link=4.0)
    assert np.isinf(found.table.latency[0, 0])
    assert np.isfinite(found.table.latency[0, 1])
    assert found.table.bandwidth[0, 0] == 1
    with pytest.raises(WorkloadError, match="huge: no core of p can run it; leave the layer out"):
        analyse(Group(name="g", jobs=(huge, JOBS[0])), platform(OWN), link=4.0)


@pytest.mark.parametrize(
    ("cores", "changed", "message"),
    [
        (
            (DESCRIBED,),
            {"bw_model": "papr"},
            "bw_model: no bandwidth model of that name: 'papr'",
        ),
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
    group = Group(name="g", jobs=JOBS[:1])
    with pytest.raises(WorkloadError, match=r"g: must have at least as many jobs as p has cores"):
        analyse(group, platform(DESCRIBED, OWN))
