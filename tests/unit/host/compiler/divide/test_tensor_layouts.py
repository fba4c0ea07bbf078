# SPDX-License-Identifier: Apache-2.0
"""Orders of elements, against arrays that are really permuted."""

from math import prod

import numpy as np
import pytest
from support.randomness import fresh_rng

from tilewright.host.compiler.divide import tensor_layouts as layouts
from tilewright.host.compiler.divide.tensor_layouts import Order


def positions(order: Order) -> np.ndarray:
    """Where each element of the model's flat array lies in the normal form."""
    sizes = [size for size, _ in order]
    ranks = [rank for _, rank in order]
    in_form = np.arange(prod(sizes)).reshape([sizes[ranks.index(r)] for r in range(len(ranks))])
    return in_form.transpose(ranks).reshape(-1)


@pytest.mark.parametrize(
    ("form", "shape", "axes"),
    [
        (layouts.image, (2, 3, 4, 5), (0, 1, 2, 3)),
        (layouts.features, (2, 3), (0, 1)),
        (layouts.sequence, (2, 5, 3), (0, 2, 1)),
        (layouts.sequence, (2, 4, 5, 3), (0, 3, 1, 2)),
        (layouts.heads, (2, 3, 5, 4), (0, 1, 3, 2)),
        (layouts.rows, (2, 3, 5, 4), (0, 1, 2, 3)),
        (layouts.heads, (2, 5, 4), (0, 2, 1)),
        (layouts.rows, (2, 5, 4), (0, 1, 2)),
        (layouts.tokens, (2, 5, 3), (2, 0, 1)),
        (layouts.tokens, (2, 4, 5, 3), (3, 0, 1, 2)),
        (layouts.window_heads, (2, 3, 5, 4), (1, 3, 0, 2)),
        (layouts.window_rows, (2, 3, 5, 4), (1, 2, 0, 3)),
        (layouts.window_heads, (2, 5, 4), (2, 0, 1)),
        (layouts.window_rows, (2, 5, 4), (1, 0, 2)),
    ],
)
def test_forms_lie_as_their_axes_say(form, shape, axes) -> None:
    lying = form(shape)
    assert prod(lying.shape) == prod(shape)
    model = np.arange(prod(shape)).reshape(shape)
    expected = np.empty(prod(shape), int)
    expected[model.transpose(axes).reshape(-1)] = np.arange(prod(shape))
    assert (positions(lying.order) == expected).all()


def test_random_reshapes_and_permutations_are_tracked_and_equal_orders_mean_equal_lying() -> None:
    rng = fresh_rng()
    tracked = 0
    for _ in range(300):
        atoms = rng.choice([1, 2, 2, 3, 4], size=rng.integers(2, 6)).tolist()
        shape = tuple(atoms)
        order = layouts._order(shape, range(len(shape)))
        lying = np.arange(prod(shape)).reshape(shape)  # element -> position
        for _ in range(rng.integers(1, 5)):
            if rng.random() < 0.5:
                axes = rng.permutation(lying.ndim)
                moved = layouts.permuted(order, lying.shape, axes)
                if moved is None:
                    break
                order, lying = moved, lying.transpose(axes)
            else:
                cut = rng.integers(1, lying.ndim) if lying.ndim > 1 else 1
                merged = (prod(lying.shape[:cut]), *lying.shape[cut:])
                lying = lying.reshape(merged if rng.random() < 0.5 else shape_of_any(rng, lying))
            assert (positions(order) == lying.reshape(-1)).all()
            tracked += 1
        plain = layouts._order(lying.shape, range(lying.ndim))
        assert (order == plain) == (lying.reshape(-1) == np.arange(lying.size)).all()
    assert tracked > 200


def shape_of_any(rng: np.random.Generator, array: np.ndarray) -> tuple[int, ...]:
    """A random shape of as many elements."""
    rest, shape = array.size, []
    while rest > 1:
        divisors = [d for d in range(2, rest + 1) if rest % d == 0]
        shape.append(int(rng.choice(divisors)))
        rest //= shape[-1]
    return tuple(shape) or (1,)


def test_attention_split_and_merge_of_heads_cost_nothing() -> None:
    b, t, h, d = 2, 5, 3, 4
    order = layouts.sequence((b, t, h * d)).order
    split = layouts.permuted(order, (b, t, h, d), (0, 2, 1, 3))
    assert split == layouts.heads((b, h, t, d)).order
    assert layouts.permuted(order, (b, t, h, d), (0, 2, 3, 1)) == layouts.rows((b, h, d, t)).order
    assert split is not None
    assert layouts.permuted(split, (b, h, t, d), (0, 2, 1, 3)) == order


def test_an_axis_that_cuts_blocks_apart_has_no_order() -> None:
    order = layouts.sequence((1, 4, 6)).order
    assert layouts.permuted(order, (1, 8, 3), (0, 2, 1)) is not None
    assert layouts.permuted(order, (1, 3, 8), (0, 2, 1)) is None


def test_natural_forms_follow_rank_and_use() -> None:
    assert layouts.natural((1, 8, 4, 4)) == layouts.image((1, 8, 4, 4))
    assert layouts.natural((1, 8, 4, 4), layouts.heads) == layouts.heads((1, 8, 4, 4))
    assert layouts.natural((8,)) is None


def test_an_array_lies_as_its_tensor_does() -> None:
    array = np.arange(2 * 3 * 5 * 4).reshape(2, 3, 5, 4)
    found = layouts.in_normal_form(array, layouts.heads(array.shape))
    assert np.array_equal(found, array.transpose(0, 1, 3, 2).reshape(2, 12, 5, 1))


def test_pixels_of_windows_are_found_and_moves_of_channels_are_none() -> None:
    rows, columns, window, channels = 6, 4, 2, 3
    cut = (1, rows // window, window, columns // window, window, channels)
    image = layouts.tokens((1, rows, columns, channels))
    turned = layouts.permuted(image.order, cut, (0, 1, 3, 2, 4, 5))
    assert turned is not None
    have = layouts.TensorLayout(shape=image.shape, order=turned)
    pixels = np.arange(rows * columns).reshape(cut[:-1]).transpose(0, 1, 3, 2, 4).reshape(-1)
    want = layouts.tokens((1, 6, window * window, channels))
    assert layouts.pixels_of(have, want) == tuple(pixels.tolist())
    assert layouts.pixels_of(want, want) == tuple(range(rows * columns))
    assert layouts.channels_of(have, want) is None
    heads = layouts.heads((1, 3, 4, 2))
    mixed = layouts.permuted(heads.order, (1, 3, 4, 2), (0, 2, 1, 3))
    assert mixed is not None
    swapped = layouts.TensorLayout(shape=heads.shape, order=mixed)
    assert layouts.pixels_of(swapped, layouts.heads((1, 4, 3, 2))) is None
