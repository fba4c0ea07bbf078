# SPDX-License-Identifier: Apache-2.0
"""The sizes of a configuration that its modules and models read at run time.

The modules of the RTL get them from `tw_pkg::sizes_of`, which is generated of the expressions here.
Where one build serves every configuration, they are variables instead, which
`sim/verilator/runtime/tw_sizes.sv` asks the harness for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tilewright.host.machine.hwconfig import PARAM_BYTES_PER_CHANNEL, UOP_BYTES, HwConfig
from tilewright.host.machine.isa import TABLE_ENTRIES, TABLE_ROW_ENTRIES


@dataclass(frozen=True, kw_only=True)
class Size:
    """One size.

    Attributes:
        expression: integer arithmetic over parameters, ``config_hash`` and sizes above it, with
            ``log2``, ``least`` and ``most``; codegen writes the same in SystemVerilog.
    """

    name: str  # the member of `tw_pkg::sizes_t` and of the harness's `Geometry`
    expression: str
    meaning: str = ""  # of a group of sizes, with its first one


def _s(name: str, expression: str = "", meaning: str = "") -> Size:
    return Size(name=name, expression=expression or name, meaning=meaning)


CONTROL_SIZES: Final = (
    _s("inp_depth", "inp_bytes // (batch * block_in)",
       "tiles (UOP: micro-operations) in each scratchpad"),
    _s("wgt_depth", "wgt_bytes // (block_in * block_out)"),
    _s("acc_depth", "acc_bytes // (4 * batch * block_out)"),
    _s("out_depth", "out_bytes // (batch * block_out)"),
    _s("uop_depth", f"uop_bytes // {UOP_BYTES}"),
    _s("res_depth", "res_bytes // (batch * block_out)"),
    _s("par_depth", f"param_bytes // ({PARAM_BYTES_PER_CHANNEL} * block_out)"),
    _s("table_depth", f"{TABLE_ENTRIES // TABLE_ROW_ENTRIES} * activation_table"),
    _s("row_unit", meaning="whether VECTOR reduces rows"),
    _s("int4_weights", meaning="how LOAD unpacks weights of 4 bits"),
    _s("inp_shift", "log2(batch * block_in)", "log2 of a tile's bytes"),
    _s("wgt_shift", "log2(block_in * block_out)"),
    _s("acc_shift", "log2(4 * batch * block_out)"),
    _s("out_shift", "log2(batch * block_out)"),
    _s("par_shift", f"log2({PARAM_BYTES_PER_CHANNEL} * block_out)"),
    _s("diag_shift", "log2(least(block_in, block_out))",
       "log2 of the bytes in a WGT tile's diagonal"),
    _s("acc_bank_shift", "log2(acc_depth // most(1, least(acc_bank_count, acc_depth)))",
       "log2 of the tiles in an ACC bank"),
    _s("vector_parts", "batch * block_out // vector_lanes", "cycles of a tile in VECTOR"),
    _s("par_rows",
       f"most(1, {PARAM_BYTES_PER_CHANNEL} * block_out // most(32, axi_data_bits // 8))",
       "reads of a PARAM tile"),
    _s("mac_pipeline", meaning="cycles of the MAC array"),
    _s("burst_beats", "axi_burst_beats", "beats of the longest burst"),
    _s("read_outstanding", meaning="bursts in flight"),
    _s("write_outstanding"),
    _s("config_hash", meaning="what the CONFIG_HASH register reads"),
)  # fmt: skip
"""What shapes control, the first one highest in `tw_pkg::sizes_t`."""

DATA_SIZES: Final = (
    _s("batch", meaning="sizes that shape data alone"),
    _s("block_in"),
    _s("block_out"),
)
"""What data in C++ needs besides."""

_FUNCTIONS: Final = {
    "__builtins__": {},
    "log2": lambda value: value.bit_length() - 1,
    "least": min,
    "most": max,
}
_CODE: Final = {
    size.name: compile(size.expression, size.name, "eval") for size in (*CONTROL_SIZES, *DATA_SIZES)
}


def geometry_of(hw: HwConfig) -> Mapping[str, int]:
    """Every size of a configuration by name, in the order of the harness's `Geometry`."""
    known = {**hw.parameters(), "config_hash": hw.config_hash}
    for name, code in _CODE.items():
        known[name] = eval(code, _FUNCTIONS, known)
    return {name: known[name] for name in _CODE}
