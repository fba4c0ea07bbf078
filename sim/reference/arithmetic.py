# SPDX-License-Identifier: Apache-2.0
"""The integer arithmetic of the GEMM and vector units, vectorised with NumPy and exact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.host.machine import isa
from tilewright.host.network.row_arithmetic import exp2, held, log2, low_bits
from tilewright.sim.reference.footprint import GemmBlock, Index, unpack_words

INT32_MIN: Final = -(2**31)
INT32_MAX: Final = 2**31 - 1


def accumulate_products(
    acc: npt.NDArray[np.int32],
    inp: npt.NDArray[np.int8],
    wgt: npt.NDArray[np.int8],
    block: GemmBlock,
) -> None:
    """Apply the products of a GEMM block to ACC, in place.

    Additions modulo 2^32 commute, so program order matters only through products that start
    from zero: of each accumulator tile, the last such product and its successors count.
    Shapes are (tiles, batch, block_out), (tiles, batch, block_in), (tiles, block_out, block_in).
    """
    acc_index, inp_index, wgt_index = block.acc, block.inp, block.wgt
    if block.fresh.any():
        position = np.arange(acc_index.size)
        restart = np.full(acc.shape[0], -1, dtype=np.int64)
        np.maximum.at(restart, acc_index[block.fresh], position[block.fresh])
        acc[restart >= 0] = 0
        counted = position >= restart[acc_index]
        acc_index, inp_index, wgt_index = (
            acc_index[counted],
            inp_index[counted],
            wgt_index[counted],
        )
    products = _tile_products(inp, wgt, inp_index, wgt_index)
    order = np.argsort(acc_index, kind="stable")
    tiles, starts = _groups(acc_index[order])
    sums = np.add.reduceat(products[order].view(np.uint32), starts, axis=0, dtype=np.uint32)
    acc.view(np.uint32)[tiles] += sums


def _tile_products(
    inp: npt.NDArray[np.int8], wgt: npt.NDArray[np.int8], inp_index: Index, wgt_index: Index
) -> npt.NDArray[np.int32]:
    """``inp[i] . wgt[w]^T`` of every index pair, shape ``(pairs, batch, block_out)``.

    One integer matrix product for each distinct weight tile; at most 64 products of magnitude
    2^14 are summed, so int32 does not overflow here.
    """
    pairs, batch = inp_index.size, inp.shape[1]
    block_out, block_in = wgt.shape[1:]
    products = np.empty((pairs, batch, block_out), dtype=np.int32)
    order = np.argsort(wgt_index, kind="stable")
    tiles, starts = _groups(wgt_index[order])
    stops = np.append(starts[1:], pairs)
    for tile, start, stop in zip(tiles, starts, stops, strict=True):
        chosen = order[start:stop]
        left = inp[inp_index[chosen]].reshape(-1, block_in).astype(np.int32)
        right = wgt[tile].astype(np.int32).T
        products[chosen] = (left @ right).reshape(-1, batch, block_out)
    return products


def _groups(ordered: Index) -> tuple[Index, Index]:
    """Distinct values of a sorted array and the position of the first of each."""
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    return ordered[starts], starts


def vector_alu(
    op: isa.VectorOp, source: npt.NDArray[np.int32], operand: npt.NDArray[np.int64]
) -> npt.NDArray[np.int32]:
    """One elementwise operation but REQUANT; ADD, SUB and MUL saturate to int32 (see `held`)."""
    x = source.astype(np.int64)
    if op == isa.VectorOp.MIN:
        result = np.minimum(x, operand)
    elif op == isa.VectorOp.MAX:
        result = np.maximum(x, operand)
    elif op == isa.VectorOp.ADD:
        result = x + operand
    elif op == isa.VectorOp.SHR:
        result = x >> np.clip(operand, 0, 31)
    elif op == isa.VectorOp.MUL:
        result = x * held(operand)
    elif op == isa.VectorOp.SUB:
        result = x - operand
    elif op == isa.VectorOp.SQUARE:
        result = x * held(x)
    elif op == isa.VectorOp.EXP2:
        result = exp2(x)
    else:
        result = np.broadcast_to(operand, x.shape)
    return np.clip(result, INT32_MIN, INT32_MAX).astype(np.int32)


def reduce_rows(
    kind: isa.Reduce, values: npt.NDArray[np.int32], lanes: int
) -> npt.NDArray[np.int32]:
    """What a row unit leaves, shape (batch, 1), of a row's tiles (tiles, batch, block_out)."""
    wide = np.moveaxis(values.astype(np.int64), 1, 0).reshape(values.shape[1], -1)
    left_out = max(0, values.shape[2] - lanes) if lanes else 0
    wide = wide[:, : wide.shape[1] - left_out]
    if kind == isa.Reduce.MAX:
        left: Index = wide.max(axis=1)
    else:
        total = low_bits(wide.sum(axis=1), isa.SUM_BITS)
        left = log2(total) if kind == isa.Reduce.LOG_SUM else np.clip(total, INT32_MIN, INT32_MAX)
    return left.astype(np.int32)[:, None]


def decode_params(tiles: npt.NDArray[np.uint8]) -> dict[str, Index]:
    """Fields of PARAM tiles of shape (count, block_out, 16), each of shape (count, block_out)."""
    words = np.ascontiguousarray(tiles).view("<u8").astype(np.uint64, copy=False)
    return unpack_words(isa.PARAM_FIELDS, words)


def requantise(
    acc: npt.NDArray[np.int32],
    residual: npt.NDArray[np.int8] | None,
    params: Mapping[str, Index],
    low: int,
    high: int,
) -> npt.NDArray[np.int8]:
    """Fixed-point requantisation with one rounding, half to even.

    Every intermediate is below 2^51 in magnitude, so int64 is exact.

    Args:
        acc: shape ``(n, batch, block_out)``.
        residual: same shape, or None for zero.
        params: fields of `PARAM_FIELDS`, each of shape ``(n, block_out)``.
        low: least result.
        high: greatest result.
    """
    wide = {name: value[:, None, :] for name, value in params.items()}
    total = (acc + wide["bias"]) * wide["m1"]
    if residual is not None:
        total = total + ((residual * wide["m2"]) << isa.RESIDUAL_SHIFT)
    shift = wide["shift"]
    quotient = total >> shift
    remainder = total - (quotient << shift)
    half = (np.int64(1) << shift) >> 1
    up = (remainder > half) | ((remainder == half) & (quotient & 1 == 1))
    rounded = quotient + (up & (shift > 0)) + wide["zero_point"]
    result: npt.NDArray[np.int8] = np.minimum(np.maximum(rounded, low), high).astype(np.int8)
    return result
