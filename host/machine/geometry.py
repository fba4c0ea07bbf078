# SPDX-License-Identifier: Apache-2.0
"""The sizes of a configuration that its modules and models read at run time.

They are parameters of the modules of the RTL. Where one build serves every configuration, they are
variables instead, which `sim/verilator/runtime/tw_sizes.sv` asks the harness for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from tilewright.host.machine.hwconfig import HwConfig


@dataclass(frozen=True, kw_only=True)
class Size:
    """One size.

    Attributes:
        name: the member of `tw_pkg::sizes_t` and of the harness's `Geometry`.
        of: its value on a configuration.
        meaning: of a group of sizes, with its first one.
    """

    name: str
    of: Callable[[HwConfig], int]
    meaning: str = ""


def _log2(value: int) -> int:
    return value.bit_length() - 1


def _same(name: str, meaning: str = "") -> Size:
    """A parameter, or a derived value, of the configuration."""
    return Size(name=name, of=lambda hw: int(getattr(hw, name)), meaning=meaning)


CONTROL_SIZES: Final = (
    _same("inp_depth", "tiles (UOP: micro-operations) in each scratchpad"),
    _same("wgt_depth"),
    _same("acc_depth"),
    _same("out_depth"),
    _same("uop_depth"),
    _same("res_depth"),
    Size(name="par_depth", of=lambda hw: hw.param_depth),
    _same("table_depth"),
    _same("row_unit", "whether VECTOR reduces rows"),
    _same("int4_weights", "how LOAD unpacks weights of 4 bits"),
    Size(
        name="inp_shift", of=lambda hw: _log2(hw.inp_tile_bytes), meaning="log2 of a tile's bytes"
    ),
    Size(name="wgt_shift", of=lambda hw: _log2(hw.wgt_tile_bytes)),
    Size(name="acc_shift", of=lambda hw: _log2(hw.acc_tile_bytes)),
    Size(name="out_shift", of=lambda hw: _log2(hw.out_tile_bytes)),
    Size(name="par_shift", of=lambda hw: _log2(hw.param_tile_bytes)),
    Size(
        name="diag_shift",
        of=lambda hw: _log2(min(hw.block_in, hw.block_out)),
        meaning="log2 of the bytes in a WGT tile's diagonal",
    ),
    Size(
        name="acc_bank_shift",
        of=lambda hw: _log2(hw.acc_depth // hw.acc_banks),
        meaning="log2 of the tiles in an ACC bank",
    ),
    Size(
        name="vector_parts",
        of=lambda hw: hw.out_tile_bytes // hw.vector_lanes,
        meaning="cycles of a tile in VECTOR",
    ),
    Size(
        name="par_rows",
        of=lambda hw: hw.param_tile_bytes // max(32, hw.axi_bytes),
        meaning="reads of a PARAM tile",
    ),
    _same("mac_pipeline", "cycles of the MAC array"),
    Size(
        name="burst_beats", of=lambda hw: hw.axi_burst_beats, meaning="beats of the longest burst"
    ),
    _same("read_outstanding", "bursts in flight"),
    _same("write_outstanding"),
    _same("config_hash", "what the CONFIG_HASH register reads"),
)
"""What shapes control, the first one highest in `tw_pkg::sizes_t`."""

DATA_SIZES: Final = (
    _same("batch", "sizes that shape data alone"),
    _same("block_in"),
    _same("block_out"),
)
"""What data in C++ needs besides."""


def geometry_of(hw: HwConfig) -> Mapping[str, int]:
    """Every size of a configuration by name, in the order of the harness's `Geometry`."""
    return {size.name: size.of(hw) for size in (*CONTROL_SIZES, *DATA_SIZES)}
