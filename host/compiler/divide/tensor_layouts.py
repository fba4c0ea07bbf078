# SPDX-License-Identifier: Apache-2.0
"""How a model's tensor lies in the normal form of `qgraph`: its four sizes, and in which order.

A reshape does not change the order of the elements, a permutation does. Where both together lead
back to an order that an operator takes, they cost nothing: attention's split and merge of heads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.host.compiler.lower.qgraph import Shape

Order = tuple[tuple[int, int], ...]
"""Blocks of the model's elements, outermost first, as (size, rank in the normal form).

Neighbours that are neighbours in the normal form too are one block; blocks of size 1 are left out.
Two tensors of one model shape have equal orders exactly when their elements lie equally.
"""


@dataclass(frozen=True, kw_only=True)
class TensorLayout:
    """The normal form of a model's tensor."""

    shape: Shape  # in normal form
    order: Order  # of the model's elements in it


def image(shape: Sequence[int]) -> TensorLayout:
    """``(B, C, H, W)`` as it is."""
    b, c, h, w = shape
    return TensorLayout(shape=(b, c, h, w), order=_order(shape, (0, 1, 2, 3)))


def stacked(shape: Sequence[int]) -> TensorLayout:
    """``(B, C, H, W)`` as ``(1, C, B*H, W)``: images one below the other."""
    b, c, h, w = shape
    return TensorLayout(shape=(1, c, b * h, w), order=_order(shape, (1, 0, 2, 3)))


def vector(shape: Sequence[int]) -> TensorLayout:
    """``(C,)`` as ``(1, C, 1, 1)``."""
    return TensorLayout(shape=(1, shape[0], 1, 1), order=_order(shape, (0,)))


def features(shape: Sequence[int]) -> TensorLayout:
    """``(B, C)`` as ``(B, C, 1, 1)``."""
    b, c = shape
    return TensorLayout(shape=(b, c, 1, 1), order=_order(shape, (0, 1)))


def sequence(shape: Sequence[int]) -> TensorLayout:
    """``(B, T, C)`` as ``(B, C, T, 1)``; ``(B, H, W, C)`` has H*W tokens."""
    b, *tokens, c = shape
    t = prod(tokens)
    return TensorLayout(shape=(b, c, t, 1), order=_order((b, t, c), (0, 2, 1)))


def channels_last(shape: Shape) -> Order:
    """The order of a model's tensor whose last axis is the channels of a normal form."""
    b, c, h, w = shape
    return _order((b, h * w, c), (0, 2, 1))


def along(shape: Sequence[int], axis: int, *, images: bool = False) -> TensorLayout:
    """One axis is the channels, the others pixels; or the first one the images of a batch."""
    axis %= len(shape)
    first = (0,) if images else ()
    others = [each for each in range(len(first), len(shape)) if each != axis]
    ranks = [0] * len(shape)
    for rank, each in enumerate((*first, axis, *others)):
        ranks[each] = rank
    pixels = prod(shape[each] for each in others)
    normal = (shape[0] if images else 1, shape[axis], pixels, 1)
    return TensorLayout(shape=normal, order=_order(shape, ranks))


def heads(shape: Sequence[int]) -> TensorLayout:
    """``(B, H, T, d)`` as ``(B, H*d, T, 1)``; ``(B, T, d)`` is one head."""
    if len(shape) == 3:
        return sequence(shape)
    b, h, t, d = shape
    return TensorLayout(shape=(b, h * d, t, 1), order=_order(shape, (0, 1, 3, 2)))


def rows(shape: Sequence[int]) -> TensorLayout:
    """``(B, H, K, N)`` as ``(B, H*K, N, 1)``: the rows of a matrix are channels already."""
    *batch, k, n = shape
    b, h = batch if len(batch) == 2 else (batch[0], 1)
    return TensorLayout(shape=(b, h * k, n, 1), order=_order(shape, range(len(shape))))


def tokens(shape: Sequence[int]) -> TensorLayout:
    """``(..., C)`` as ``(1, C, T, 1)``: whatever is not the channels is pixels, batches too."""
    return along(shape, -1)


def window_heads(shape: Sequence[int]) -> TensorLayout:
    """``(W, H, T, d)`` as ``(1, H*d, W*T, 1)``: `heads` of windows that follow each other."""
    w, h, t, d = shape if len(shape) == 4 else (shape[0], 1, *shape[1:])
    return TensorLayout(shape=(1, h * d, w * t, 1), order=_order((w, h, t, d), (2, 0, 3, 1)))


def window_rows(shape: Sequence[int]) -> TensorLayout:
    """``(W, H, K, N)`` as ``(1, H*K, W*N, 1)``: `rows` of windows that follow each other."""
    w, h, k, n = shape if len(shape) == 4 else (shape[0], 1, *shape[1:])
    return TensorLayout(shape=(1, h * k, w * n, 1), order=_order((w, h, k, n), (2, 0, 1, 3)))


def natural(
    shape: Sequence[int], of_rank_4: Callable[[Sequence[int]], TensorLayout] = image
) -> TensorLayout | None:
    """The layout in which a tensor enters a region, or ``None`` if its rank has none.

    Args:
        shape: the model's.
        of_rank_4: what a tensor of rank 4 is: an `image`, `heads`, or a `sequence`.
    """
    if len(shape) > 4 and shape[0] == 1:
        return image((1, prod(shape[1:-2]), *shape[-2:]))
    by_rank = {1: vector, 2: features, 3: sequence, 4: of_rank_4}
    return by_rank[len(shape)](shape) if len(shape) in by_rank else None


def pixels(shape: Sequence[int], width: int) -> TensorLayout:
    """``(B, C, P)`` as an image of rows of some pixels, ``(B, C, P/width, width)``."""
    b, c, p = shape
    return TensorLayout(shape=(b, c, p // width, width), order=_order(shape, (0, 1, 2)))


@lru_cache(maxsize=256)
def channels_of(have: TensorLayout, want: TensorLayout) -> tuple[int, ...] | None:
    """Which channel of one normal form each channel of another one is."""
    batch, channels, *sides = have.shape
    if (batch, channels, prod(sides)) != (*want.shape[:2], prod(want.shape[2:])):
        return None
    pixels = prod(sides)
    source = np.empty(batch * channels * pixels, np.int64)
    source[places(want)] = places(have)
    moved = source.reshape(batch, channels, pixels)
    chosen = moved[0, :, 0] // pixels
    expected = (np.arange(batch)[:, None] * channels + chosen)[..., None] * pixels
    if not np.array_equal(moved, expected + np.arange(pixels)):
        return None
    return tuple(chosen.tolist())


@lru_cache(maxsize=256)
def pixels_of(have: TensorLayout, want: TensorLayout) -> tuple[int, ...] | None:
    """Which pixel of one normal form each pixel of another one is, rows one after another."""
    channels, pixels = have.shape[1], prod(have.shape[2:])
    if have.shape[0] != 1 or (1, channels, pixels) != (*want.shape[:2], prod(want.shape[2:])):
        return None
    source = np.empty(channels * pixels, np.int64)
    source[places(want)] = places(have)
    chosen = source[:pixels]
    if not np.array_equal(source.reshape(channels, pixels), np.add.outer(
        np.arange(channels) * pixels, chosen
    )):  # fmt: skip
        return None
    return tuple(chosen.tolist())


def places(layout: TensorLayout) -> npt.NDArray[np.int64]:
    """Where each of the model's elements, in its order, lies in the normal form."""
    sizes = [0] * len(layout.order)
    for size, rank in layout.order:
        sizes[rank] = size
    numbers = np.arange(prod(sizes)).reshape(sizes)
    return numbers.transpose([rank for _, rank in layout.order]).reshape(-1)


def in_normal_form(array: npt.NDArray[Any], layout: TensorLayout) -> npt.NDArray[Any]:
    """A model's array as it lies in a normal form."""
    lying = np.empty(array.size, array.dtype)
    lying[places(layout)] = array.reshape(-1)
    return lying.reshape(layout.shape)


def permuted(order: Order, shape: Sequence[int], axes: Sequence[int]) -> Order | None:
    """The order behind a permutation of the model's axes."""
    split = _split(order, shape)
    if split is None:
        return None
    moved = [block for axis in axes for block in split[axis]]
    ranks = sorted(rank for _, rank in moved)
    return _merged([(size, ranks.index(rank)) for size, rank in moved])


def _split(order: Order, shape: Sequence[int]) -> list[list[tuple[int, tuple[int, ...]]]] | None:
    """The blocks of every axis, cut where axes meet."""
    rest: list[tuple[int, tuple[int, ...]]] = [(size, (rank,)) for size, rank in reversed(order)]
    split = []
    for axis_size in shape:
        axis, missing = [], axis_size
        while missing > 1:
            size, rank = rest.pop()
            if missing % size == 0:
                axis.append((size, (*rank, 0)))
                missing //= size
            elif size % missing == 0:
                axis.append((missing, (*rank, 0)))
                rest.append((size // missing, (*rank, 1)))
                missing = 1
            else:
                return None
        split.append(axis)
    return split


def _order(sizes: Sequence[int], ranks: Sequence[int]) -> Order:
    return _merged([(size, rank) for size, rank in zip(sizes, ranks, strict=True) if size > 1])


def _merged(blocks: Sequence[tuple[int, int]]) -> Order:
    position = {rank: index for index, rank in enumerate(sorted(rank for _, rank in blocks))}
    runs: list[list[tuple[int, int]]] = []
    for size, rank in blocks:
        if runs and runs[-1][-1][1] + 1 == position[rank]:
            runs[-1].append((size, position[rank]))
        else:
            runs.append([(size, position[rank])])
    first = sorted(run[0][1] for run in runs)
    return tuple((prod(size for size, _ in run), first.index(run[0][1])) for run in runs)
