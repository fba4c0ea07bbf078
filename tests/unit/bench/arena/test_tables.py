# SPDX-License-Identifier: Apache-2.0
"""Tables against the twin, point by point, and the tasks that they are of."""

import dataclasses

import numpy as np
import pytest

from tilewright.bench.arena import tables
from tilewright.bench.arena.confirm import point_of
from tilewright.bench.arena.tables import load_table
from tilewright.bench.arena.tasks import (
    NETWORKS,
    drawn,
    make_task,
    parts_of,
    pynq_z2_choice,
    tasks_of,
)
from tilewright.host.common.errors import ConfigError
from tilewright.host.lowering import lower
from tilewright.host.network.workload import conv2d
from tilewright.host.network.zoo import load_network
from tilewright.sim.twin.device import Twin
from tilewright.tuner.exhaustive.exhaust import exhaust
from tilewright.tuner.schedule.shortlist import timing_class

LAYER = conv2d("small", 4, 32, 32, 3, 1, 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tables")


@pytest.fixture(scope="module")
def joint(folder):
    return load_table(make_task("per-layer", LAYER), folder)


def test_a_joint_table_agrees_with_the_rules_and_the_twin_on_a_sample(joint):
    space = joint.task.space
    rng = np.random.default_rng(1)
    flats = rng.choice(joint.cycles.size, size=300, replace=False)
    checked = 0
    for flat in flats:
        index = tuple(int(i) for i in np.unravel_index(flat, joint.cycles.shape))
        assert (joint.measure(index) is not None) == space.valid(index)
        if joint.measure(index) is not None and checked < 30:
            hw, schedule = point_of(joint, int(flat))
            program = lower(hw, LAYER, schedule).program
            assert Twin(hw, joint.task.memory).counters(program).cycles == joint.measure(index)
            checked += 1
    assert checked == 30


def test_every_configuration_has_legal_points(joint):
    assert joint.cycles.shape[0] == len(pynq_z2_choice())
    assert all((part > 0).any() for part in joint.cycles)


def test_configurations_of_a_timing_class_share_a_landscape_that_agrees_with_their_own(
    joint, folder, tmp_path
):
    classes = {timing_class(hw) for hw in joint.task.configs}
    assert len(classes) < len(joint.task.configs)
    assert len(list(folder.glob("*.cycles"))) == len(classes)
    for position, hw in enumerate(joint.task.configs):
        own = dataclasses.replace(joint.task, configs=(hw,))
        alone = exhaust(own.space, own.memory, tmp_path, identity="twin", workers=1).cycles
        column = joint.cycles[position]
        assert (column[column > 0] == alone[alone > 0]).all()


@pytest.mark.parametrize("track", ["per-layer", "schedule"])
def test_a_sifted_table_is_complete_near_the_optimum_and_runs_the_rest_on_demand(
    folder, tmp_path, monkeypatch, track
):
    whole = load_table(make_task(track, LAYER), folder)
    monkeypatch.setattr(tables, "WHOLE_WORK", 0)
    sifted = load_table(make_task(track, LAYER), tmp_path)
    assert sifted.best == whole.best
    about, truth = sifted.summary(), whole.summary()
    assert {name for name in about if about[name] != truth[name]} == {"whole"}
    assert (sifted.legal == whole.legal).all()
    known = sifted.cycles > 0
    assert (sifted.cycles[known] == whole.cycles[known]).all()
    assert (whole.cycles[whole.legal & ~known] > tables.REACH * whole.optimum).all()
    assert known.sum() < 0.7 * whole.legal.sum()
    asked = np.argwhere(whole.legal & ~known)[::40]
    for index in map(tuple, asked.tolist()):
        assert sifted.measure(index) == whole.measure(index)
    again = load_table(make_task(track, LAYER), tmp_path)
    known = sifted.cycles > 0
    assert (again.cycles[known] == sifted.cycles[known]).all(), "what was asked for is kept"


def test_what_is_drawn_depends_on_names_alone():
    names = [f"layer {number}" for number in range(20)]
    few, more = drawn(names, 5), drawn(names, 9)
    assert len(few) == 5
    assert set(few) < set(more)
    assert more == [name for name in names if name in more]
    assert set(drawn(names[::-1], 5)) == set(few)
    assert drawn(names, None) == drawn(names, 99) == names


def test_the_schedule_track_is_the_first_configurations_column(joint, folder):
    alone = load_table(make_task("schedule", LAYER), folder)
    hw = joint.task.configs[0]
    for flat in np.flatnonzero(alone.legal)[::7]:
        _, schedule = point_of(alone, int(flat))
        index = joint.task.space.index_of(
            {"hw": hw.config_hash, **{k: v for k, v in vars(schedule).items()
                                      if k in {knob.name for knob in joint.task.space.knobs}}}
        )  # fmt: skip
        assert joint.measure(index) == int(alone.cycles.ravel()[flat])


def test_a_table_on_disk_is_read_and_serves_equal_layers_of_other_names(folder, joint, monkeypatch):
    def never(*_args, **_more):
        raise AssertionError("measured again")

    monkeypatch.setattr(Twin, "batch", never)
    again = load_table(make_task("per-layer", LAYER.renamed("other", count=7)), folder)
    assert (again.cycles == joint.cycles).all()


def test_another_twin_starts_another_table(folder, monkeypatch):
    class CalledError(Exception):
        pass

    def measured(*_args, **_more):
        raise CalledError

    monkeypatch.setattr(tables, "identity_of", lambda _: "twin-of-tomorrow")
    monkeypatch.setattr(Twin, "batch", measured)
    with pytest.raises(CalledError):
        load_table(make_task("per-layer", LAYER), folder)


def test_summary_is_of_the_table(joint):
    about = joint.summary()
    legal = np.sort(joint.cycles[joint.cycles > 0])
    assert about["optimum_cycles"] == legal[0]
    assert about["legal"] == len(legal)
    assert about["within_5pct"] == int((legal <= 1.05 * legal[0]).sum())
    assert about["hard"] == (about["random_median_1pct"] > 32)


def test_the_choice_differs_in_arrays_lanes_and_buffers_and_fits_the_board():
    configs = pynq_z2_choice()
    assert 6 <= len({hw.config_hash for hw in configs}) == len(configs) <= 10
    for name in ("block_in", "block_out", "vector_lanes", "inp_bytes", "wgt_bytes", "acc_bytes"):
        assert len({getattr(hw, name) for hw in configs}) > 1


def test_equal_layers_of_two_networks_are_one_task():
    both = tasks_of("schedule", ["vgg16", "vgg19"])
    assert set(both) == set(tasks_of("schedule", ["vgg16"]))


@pytest.mark.parametrize("name", NETWORKS)
def test_the_parts_of_a_network_are_its_layers(name):
    network = load_network(name)
    parts = parts_of("per-layer", network)
    assert sum(part.count for part in parts) == network.layers
    assert {part.task for part in parts} == set(tasks_of("per-layer", [name]))


def test_an_unknown_track_lists_the_known_ones():
    with pytest.raises(ConfigError, match="per-layer, schedule"):
        make_task("shared", LAYER)
