# SPDX-License-Identifier: Apache-2.0
"""How a float model is quantised for one configuration."""

from __future__ import annotations

from dataclasses import replace

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.read.import_options import ImportOptions
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.int4_tiles import group_shape, has_scales


def for_hardware(options: ImportOptions, hw: HwConfig) -> ImportOptions:
    """Options with which a float model is quantised for all that a configuration computes."""
    quantise = options.quantise
    if quantise.int4_weights != "none" and not hw.int4_weights:
        raise WorkloadError(
            f"{hw.name} keeps weights with 8 bits: 4 bits would cost accuracy and save nothing",
            field="int4_weights",
            value=quantise.int4_weights,
            remedy="use a configuration with int4_weights: 1 or 2, or none",
        )
    if quantise.int4_weights != "none" and hw.int4_tile_bytes >= hw.wgt_tile_bytes:
        raise WorkloadError(
            f"{hw.name} keeps a tile's 4-bit weights and their scales in {hw.int4_tile_bytes} "
            f"bytes, and int8 in {hw.wgt_tile_bytes}",
            field="int4_weights",
            value=quantise.int4_weights,
            remedy="use larger tiles, a narrower bus, int4_weights: 1, or none",
        )
    if has_scales(hw):
        quantise = replace(quantise, int4_group=(*group_shape(hw), hw.block_in))
    if hw.activation_table:
        quantise = replace(quantise, activation_tables=True)
    if hw.row_unit:
        quantise = replace(quantise, row_functions=True)
    return replace(options, quantise=quantise)
