# SPDX-License-Identifier: Apache-2.0
"""Softmax and layer normalisation of activations: what they compute, and programs of them.

The rows of an activation are its pixels, a row's values are a pixel's channels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.host.lowering.emission import OperandPlacement
from tilewright.host.lowering.program_builder import ProgramBuilder
from tilewright.host.lowering.row_emit import emit_rows
from tilewright.host.lowering.row_plan import Shape
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.program import Program, layout_regions
from tilewright.host.network.layout import (
    blocks_of,
    output_block,
    pack_activations,
    pack_params,
    unpack_activations,
)
from tilewright.host.network.requant import RequantParams
from tilewright.host.network.row_functions import (
    LayerNorm,
    RowFunction,
    Softmax,
    addend_planes,
    is_masked,
    layer_norm,
    softmax,
)

Bytes = npt.NDArray[np.uint8]
Int8Array = npt.NDArray[np.int8]


def row_params(function: RowFunction, channels: int) -> RequantParams:
    """The parameters of a function, one of each channel."""
    if isinstance(function, LayerNorm):
        return function.params
    return function.params_for(channels)


def compute_rows(
    data: Int8Array, function: RowFunction, mask: Int8Array | None = None
) -> Int8Array:
    """What a function makes of the channels of each pixel, by definition; int8 NCHW.

    Args:
        data: int8 (N, C, H, W).
        function: what to compute.
        mask: of a function that is masked, int8 (1, C, 1, 1).
    """
    rows = np.moveaxis(data, 1, 3)
    if isinstance(function, Softmax):
        found = softmax(rows, function, None if mask is None else np.moveaxis(mask, 1, 3))
    else:
        found = layer_norm(rows, function)
    return np.ascontiguousarray(np.moveaxis(found, 3, 1))


def packed_addend(hw: HwConfig, function: RowFunction) -> dict[str, Bytes]:
    """The planes of what a function adds to its rows, by name, as activations lie in DRAM."""
    return {
        name: pack_activations(np.moveaxis(plane, 3, 1), batch=hw.batch, block=output_block(hw))
        for name, plane in addend_planes(function).items()
    }


@dataclass(frozen=True, kw_only=True)
class LoweredRows:
    """Softmax or layer normalisation as a program."""

    hw: HwConfig
    shape: Shape
    function: RowFunction
    program: Program  # ``inp``, ``param``, ``out``, ``insn``, an addend's, ``mask`` if there is one

    def image(self, data: Int8Array, mask: Int8Array | None = None) -> Bytes:
        """The memory image: program, activation and parameters; a mask is int8 of (1, C, 1, 1)."""
        memory = self.program.image()
        packed = pack_activations(data, batch=self.hw.batch, block=output_block(self.hw))
        self.program.write(memory, "inp", packed)
        params = row_params(self.function, self.shape[1])
        self.program.write(memory, "param", pack_params(params, block_out=self.hw.block_out))
        for name, plane in packed_addend(self.hw, self.function).items():
            self.program.write(memory, name, plane)
        if mask is not None:
            packed = pack_activations(mask, batch=self.hw.batch, block=output_block(self.hw))
            self.program.write(memory, "mask", packed)
        return memory

    def output(self, memory: Bytes) -> Int8Array:
        """The result, int8 of `shape`, from a memory image after a run."""
        return unpack_activations(
            self.program.read(memory, "out"),
            self.shape,
            batch=self.hw.batch,
            block=output_block(self.hw),
        )


def lower_rows(hw: HwConfig, shape: Shape, function: RowFunction) -> LoweredRows:
    """Lower softmax or layer normalisation over the channels of each pixel, of NCHW shape."""
    images, channels, height, width = shape
    block = output_block(hw)
    tiles = blocks_of(images, hw.batch) * blocks_of(channels, block) * height * width
    sizes = {
        "inp": tiles * hw.batch * block,
        "param": blocks_of(channels, hw.block_out) * hw.param_tile_bytes,
        "out": tiles * hw.batch * block,
    } | dict.fromkeys(addend_planes(function), tiles * hw.batch * block)
    if is_masked(function):
        sizes["mask"] = blocks_of(channels, block) * hw.batch * block
    regions, uop = layout_regions(sizes)
    offsets = {name: region.offset for name, region in regions.items()}
    builder = ProgramBuilder(hw)
    emit_rows(builder, shape, [(function, OperandPlacement(offsets=offsets, uop=uop))])
    return LoweredRows(hw=hw, shape=shape, function=function, program=builder.finish(sizes, {}))
