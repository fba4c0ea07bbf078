"""`MappingSpace`: a total coding, legal samples, and reasons for what the buffers refuse."""

import dataclasses
import itertools

import numpy as np
import pytest
from support.randomness import fresh_rng

from tilewright.tuner.mapping.architecture import load_architecture
from tilewright.tuner.mapping.cost import Rule
from tilewright.tuner.mapping.mapping import Level, Mapping, mapping_of
from tilewright.tuner.mapping.nest import LoopNest, NestKind
from tilewright.tuner.mapping.space import MappingSpace
from tilewright.tuner.search import Result, make_tuner
from tilewright.tuner.search.space import SpaceError

FLEXIBLE = load_architecture("flexible-256")
CONV = LoopNest(name="conv", sizes=(64, 32, 28, 28, 3, 3), stride_y=2, stride_x=2)
DEPTHWISE = LoopNest(name="dw", kind=NestKind.DEPTHWISE, sizes=(1, 96, 14, 14, 3, 3))
SYSTOLIC = dataclasses.replace(FLEXIBLE, outer_parallel="KC", inner_parallel="C", pes=64)
ARRAY = dataclasses.replace(FLEXIBLE, max_clusters=24, max_cluster_size=8)


@pytest.fixture(params=[(CONV, FLEXIBLE), (DEPTHWISE, FLEXIBLE), (CONV, SYSTOLIC), (CONV, ARRAY)])
def space(request):
    return MappingSpace(*request.param)


def test_decodes_every_index_to_a_mapping_that_only_buffers_refuse(space):
    rng = fresh_rng()
    uniform = (rng.random((2000, len(space.knobs))) * [len(k) for k in space.knobs]).astype("i4")
    rules = space.model.costs(space.decode_batch(uniform)).rules
    assert set(rules.tolist()) <= {Rule.LEGAL, Rule.L1_CAPACITY, Rule.L2_CAPACITY}


def test_encodes_a_decoded_mapping_to_itself(space):
    batch = space.decode_batch(space.draw_batch(fresh_rng(), 2000))
    np.testing.assert_array_equal(space.decode_batch(space.encode_batch(batch)), batch)


def test_single_points_agree_with_batches(space):
    indices = space.draw_batch(fresh_rng(), 50)
    legal = space.model.costs(space.decode_batch(indices)).legal
    for positions, row, fits in zip(indices, space.decode_batch(indices), legal, strict=True):
        index = tuple(positions.tolist())
        mapping = space.decode(index)
        assert mapping == mapping_of(row)
        assert space.decode(space.encode(mapping)) == mapping
        assert space.valid(index) == fits


def test_samples_are_legal_and_repeat_with_the_seed(space):
    first = space.sample_batch(np.random.default_rng(7), 3000)
    again = space.sample_batch(np.random.default_rng(7), 3000)
    assert space.model.costs(space.decode_batch(first)).legal.all()
    np.testing.assert_array_equal(first, again)
    assert len(np.unique(first, axis=0)) > 2900


@pytest.mark.parametrize("seeded", [False, True])
def test_repair_makes_the_largest_tiles_fit_and_leaves_legal_mappings_alone(space, seeded):
    rng = fresh_rng() if seeded else None
    largest = np.array([[len(k) - 1 for k in space.knobs]], dtype=np.int32)
    batch = space.decode_batch(np.concatenate([largest, space.draw_batch(fresh_rng(), 500)]))
    legal = space.model.costs(batch).legal
    assert not legal[0]
    repaired = space.repair(batch, rng)
    assert space.model.costs(repaired).legal.all()
    np.testing.assert_array_equal(repaired[legal], batch[legal])


def test_samples_every_mapping_of_a_small_space():
    nest = LoopNest(name="small", sizes=(2, 3, 1, 1, 1, 1))
    arch = dataclasses.replace(
        FLEXIBLE, pes=2, outer_parallel="K", inner_parallel="KC", l1_bytes=20
    )
    space = MappingSpace(nest, arch)

    def tiles(batch):
        return {tuple(row) for row in batch[:, [0, 1, 6, 7, 25, 26, 27]].tolist()}

    every = itertools.product(*(range(len(k)) if len(k) < 720 else (0,) for k in space.knobs))
    batch = space.decode_batch(np.array(list(every), dtype=np.int32))
    legal = batch[space.model.costs(batch).legal]
    assert 0 < len(tiles(legal)) < len(tiles(batch))
    assert tiles(space.decode_batch(space.sample_batch(fresh_rng(), 20_000))) == tiles(legal)


def test_counts_its_mappings():
    nest = LoopNest(name="small", sizes=(2, 3, 1, 1, 1, 1))
    arch = dataclasses.replace(FLEXIBLE, pes=3, outer_parallel="K", inner_parallel="KC")
    space = MappingSpace(nest, arch)
    assert space.mappings == (3 * 6) * 720**2 * 2 * (3 + 1 + 1)
    assert space.raw_size == (4 * 9) * 720**2 * 2 * 9
    wired = MappingSpace(nest, dataclasses.replace(arch, max_clusters=2, max_cluster_size=1))
    assert wired.mappings == (3 * 6) * 720**2 * 2 * 2
    assert wired.raw_size == (4 * 9) * 720**2 * 2 * 2


def test_tells_which_buffer_refuses_an_index(space):
    largest = tuple(len(knob) - 1 for knob in space.knobs)
    assert "buffer of" in space.refusal(largest)
    outside = (*largest[:-1], len(space.knobs[-1]))
    assert space.refusal(outside).startswith("cluster_size: must be a position from 0 to")
    with pytest.raises(SpaceError, match="cluster_size"):
        space.decode(outside)


def test_refuses_to_encode_a_mapping_of_another_space(space):
    tile = (65, 1, 1, 1, 1, 1)
    level = Level(tile=tile, order="KCYXRS", parallel="C")
    with pytest.raises(SpaceError, match="at most the loop's size"):
        space.encode(Mapping(outer=level, inner=level, clusters=1, cluster_size=1))


def test_refuses_buffers_that_hold_nothing():
    with pytest.raises(SpaceError, match="one multiply-accumulate"):
        MappingSpace(CONV, dataclasses.replace(FLEXIBLE, l1_bytes=4))


@pytest.mark.parametrize("name", ["random", "coordinate", "genetic", "optuna-cmaes"])
def test_tuners_search_it_unchanged(name):
    space = MappingSpace(CONV, FLEXIBLE)
    tuner = make_tuner(name, space, seed=3)
    for _ in range(4):
        asked = tuner.ask(8)
        tuner.tell(
            [Result(index=c.index, value=space.model.cost(c.point)["cycles"]) for c in asked]
        )
    assert tuner.best is not None
