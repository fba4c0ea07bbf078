# SPDX-License-Identifier: Apache-2.0
"""The vectorised arithmetic against unbounded Python integers and exact fractions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.programs.elements import OPERATIONS, reduced, requantised, signed

from tilewright.host.machine.isa import MAX_SHIFT, PARAM_FIELDS, Reduce, VectorOp
from tilewright.sim.reference.arithmetic import (
    INT32_MAX,
    INT32_MIN,
    accumulate_products,
    decode_params,
    reduce_rows,
    requantise,
    vector_alu,
)
from tilewright.sim.reference.footprint import GemmBlock

INT32 = st.integers(INT32_MIN, INT32_MAX) | st.sampled_from([INT32_MIN, -1, 0, 1, INT32_MAX])
IMMEDIATE = st.integers(-(2**15), 2**15 - 1)
INT8 = st.integers(-128, 127)


@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1), pairs=st.integers(1, 30))
def test_products_accumulate_as_one_after_another(seed, pairs):
    rng = np.random.default_rng(seed)
    batch, block_in, block_out = (int(n) for n in rng.integers(1, 5, 3))
    acc = rng.integers(INT32_MIN, INT32_MAX, (4, batch, block_out), dtype=np.int32, endpoint=True)
    inp = rng.integers(-128, 128, (3, batch, block_in), dtype=np.int8)
    wgt = rng.integers(-128, 128, (3, block_out, block_in), dtype=np.int8)
    index = {
        name: rng.integers(0, high, pairs) for name, high in (("acc", 4), ("inp", 3), ("wgt", 3))
    }
    fresh = rng.random(pairs) < 0.3
    expected = acc.astype(object)
    for a, i, w, start in zip(index["acc"], index["inp"], index["wgt"], fresh, strict=True):
        product = inp[i].astype(object) @ wgt[w].astype(object).T
        expected[a] = product if start else expected[a] + product
    accumulate_products(acc, inp, wgt, GemmBlock(**index, fresh=fresh))
    assert acc.tolist() == [
        [[signed(v, 32) for v in row] for row in tile] for tile in expected.tolist()
    ]


@pytest.mark.parametrize("op", list(OPERATIONS))
@given(
    pairs=st.lists(st.tuples(INT32 | st.integers(0, 32 << 16), IMMEDIATE), min_size=1, max_size=20)
)
def test_alu_operations_are_exact_and_saturate(op, pairs):
    source, operand = (np.array(column) for column in zip(*pairs, strict=True))
    result = vector_alu(op, source.astype(np.int32), operand.astype(np.int64))
    assert result.dtype == np.int32
    assert result.tolist() == [OPERATIONS[op](x, y) for x, y in pairs]


def test_every_operation_but_requantise_has_a_model():
    assert set(OPERATIONS) == set(VectorOp) - {VectorOp.REQUANT}


@given(
    kind=st.sampled_from([kind for kind in Reduce if kind]),
    shape=st.tuples(st.integers(1, 4), st.integers(1, 3), st.sampled_from([4, 8])),
    lanes=st.integers(0, 9),
    seed=st.integers(0, 2**32 - 1),
    small=st.booleans(),
)
def test_rows_are_reduced_over_their_tiles_and_the_channels_that_count(
    kind, shape, lanes, seed, small
):
    high = 100 if small else INT32_MAX
    tiles = np.random.default_rng(seed).integers(-high - 1, high, shape, dtype=np.int32)
    result = reduce_rows(kind, tiles, lanes)
    assert result.shape == (shape[1], 1)
    assert result.dtype == np.int32
    for b, found in enumerate(result[:, 0].tolist()):
        row = [int(v) for tile in tiles[:-1] for v in tile[b]]
        row += [int(v) for v in tiles[-1][b][: lanes or shape[2]]]
        assert found == reduced(kind, row)


PARAMS = st.fixed_dictionaries(
    {
        f.name: st.integers(0, MAX_SHIFT)
        if f.name == "shift"
        else st.integers(-(2 ** (f.bits - 1)), 2 ** (f.bits - 1) - 1)
        if f.signed
        else st.integers(0, 2**f.bits - 1)
        for f in PARAM_FIELDS
    }
)


@given(values=PARAMS)
def test_params_decode_to_what_was_packed(values):
    word, position = 0, 0
    for field in PARAM_FIELDS:
        word |= (values[field.name] % 2**field.bits) << position
        position += field.bits
    tile = np.frombuffer(word.to_bytes(16, "little"), np.uint8).reshape(1, 1, 16)
    assert {name: int(value[0, 0]) for name, value in decode_params(tile).items()} == values


@given(
    acc=st.integers(-(2**30), 2**30),
    residual=st.none() | INT8,
    values=PARAMS,
    clip=st.tuples(INT8, INT8).map(sorted),
)
def test_requantisation_is_the_exact_fraction_rounded_half_to_even_once(
    acc, residual, values, clip
):
    values["bias"] = max(min(values["bias"], 2**30), -(2**30))
    params = {name: np.array([[value]]) for name, value in values.items()}
    result = requantise(
        np.array([[[acc]]], np.int32),
        None if residual is None else np.array([[[residual]]], np.int8),
        params,
        *clip,
    )
    assert result[0, 0, 0] == requantised(acc, residual or 0, values, *clip)
    assert result.dtype == np.int8
