# SPDX-License-Identifier: Apache-2.0
"""Resources of a `HwConfig` on a Xilinx 7-series or UltraScale+ device, and whether it fits.

DSP and block RAM follow from the parameters and equal Yosys's synthesis of the same RTL (recorded
in constraints/synthesis/results.yaml). LUT and FF are linear models of a few named terms, fitted to
those results. Everything is before place and route.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, fields
from typing import Final

from tilewright.host.block_ram import MemoryCost, memory_cost
from tilewright.host.board import Board
from tilewright.host.hwconfig import INSTRUCTION_BYTES, PARAM_BYTES_PER_CHANNEL, UOP_BYTES, HwConfig

DSP_PER_LANE_REQUANT: Final = 2
"""DSPs for the product of accumulator plus bias (33 bits) and multiplier (16 bits)."""
DSP_PER_LANE_RESIDUAL: Final = 1
"""DSPs for the product of residual (8 bits) and multiplier (16 bits)."""
DSP_PER_LANE_MUL: Final = 2
"""DSPs for the product of accumulator (32 bits) and immediate (16 bits)."""
DSP_PER_LANE: Final = DSP_PER_LANE_REQUANT + DSP_PER_LANE_RESIDUAL + DSP_PER_LANE_MUL
DSP_LOAD: Final = 2
"""DSPs of the padding geometry in the load unit: padding rows times the padded width, twice."""

PARAM_ROW_BYTES: Final = 32
"""Bytes of a PARAM row: two channels, or a bus beat if that is wider."""
FETCH_BYTES: Final = 1024
"""Bytes of the FIFO between the bus and the instruction decoder."""
FIFO_QUADS: Final = 212
"""RAM32M of the FIFOs that depend on no parameter; most of them hold queued instructions."""

LUT_PER_LUT_MAC: Final = 57
"""LUTs of a product that is formed in LUTs and of its share of the adder tree, at block_in 16."""
FF_PER_LUT_MAC: Final = 16
"""Flip-flops of such a product, which has no register of a DSP slice, from two stages on."""

_UOP_USED: Final = (True,) * 51 + (False,) * 13
"""Bits of a micro-op that the hardware reads (`isa`: inp 18, wgt 16, acc 16, first 1)."""
_PARAM_USED: Final = (True,) * 70 + (False,) * 2 + (True,) * 8 + (False,) * 48
"""Bits of a channel's entry that it reads (bias 32, m1 16, m2 16, shift 6; zero point 8)."""

SHIFT_REGISTER_STAGES: Final = 3
"""Registers in a row that Yosys makes a shift register of, in one LUT a bit."""


@dataclass(frozen=True, kw_only=True)
class Area:
    """Device resources: LUTs, flip-flops, 36 Kb block RAMs, DSP slices."""

    lut: int
    ff: int
    bram36: int
    dsp: int


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Whether a configuration fits a board.

    Attributes:
        ok: everything fits.
        text: one line: what is used of what, or what does not fit and by how much.
        area: the estimate behind it.
    """

    ok: bool
    text: str
    area: Area


@dataclass(frozen=True, kw_only=True)
class LogicModel:
    """Coefficients of the LUT and FF models (counts a unit of the named quantity).

    Fitted by `sim.synthesis_results` to the recorded syntheses; docs/synthesis.md has the error.

    Attributes:
        lut_fixed: control, registers, counters, load, store, fetch.
        lut_per_lane: ALU and requantisation of a vector lane.
        lut_per_element: adder, forwarding and bank multiplexers of an output element.
        lut_per_packed_mac: splitting and adding the products of a shared multiplier; the sums
            of a plain array are formed inside the DSPs.
        lut_per_axi_bit: alignment and steering of a bit of the bus.
        ff_fixed: as for LUTs.
        ff_per_lane: pipeline of a vector lane.
        ff_per_channel: parameter registers of an output channel.
        ff_per_element: results and forwarding registers of an output element.
    """

    lut_fixed: float = 0.0
    lut_per_lane: float = 0.0
    lut_per_element: float = 0.0
    lut_per_packed_mac: float = 0.0
    lut_per_axi_bit: float = 0.0
    ff_fixed: float = 0.0
    ff_per_lane: float = 0.0
    ff_per_channel: float = 0.0
    ff_per_element: float = 0.0


LUT_ERROR: Final = 0.035
FF_ERROR: Final = 0.035
"""Largest relative errors of the estimate over the recorded syntheses."""

LOGIC_MODEL: Final = LogicModel(
    lut_fixed=5344.6,
    lut_per_lane=952.9,
    lut_per_element=305.7,
    lut_per_packed_mac=24.3,
    lut_per_axi_bit=7.5,
    ff_fixed=8447.8,
    ff_per_lane=118.5,
    ff_per_channel=94.7,
    ff_per_element=59.3,
)


@dataclass(frozen=True, kw_only=True)
class Scratchpad:
    """One on-chip memory as the RTL describes it.

    Attributes:
        name: scratchpad.
        banks: equal, independent copies of the structure below.
        width: bits that are read at once.
        depth: rows of a bank.
        write_bits: neighbouring bits that share a write enable.
        used: by bit of a row, whether the hardware reads it; all when None.
    """

    name: str
    banks: int
    width: int
    depth: int
    write_bits: int
    used: tuple[bool, ...] | None = None

    @property
    def cost(self) -> MemoryCost:
        """Block RAMs or LUT RAMs of all banks."""
        bank = memory_cost(
            width=self.width, depth=self.depth, write_bits=self.write_bits, used=self.used
        )
        return bank.times(self.banks)


def scratchpads(hw: HwConfig) -> tuple[Scratchpad, ...]:
    """The seven scratchpads of a configuration, and the FIFO of the fetch unit.

    Shapes as in rtl/tw_spad.sv, tw_acc.sv and tw_out.sv: a tile of at least a beat is a row of
    beat-wide slices with own write enables; of smaller tiles, a beat's worth of banks is made.
    """
    beat = hw.axi_bytes

    def loaded(
        name: str, total: int, tile: int, row: int = 0, used: tuple[bool, ...] | None = None
    ) -> Scratchpad:
        row = row or tile
        banks = 1 if tile >= beat else beat // tile
        return Scratchpad(
            name=name,
            banks=banks,
            width=8 * row,
            depth=total // row // banks,
            write_bits=8 * min(row, beat),
            used=used,
        )

    param_row = max(PARAM_ROW_BYTES, beat)
    out_banks = max(beat // hw.out_tile_bytes, 1)
    return (
        loaded("INP", hw.inp_bytes, hw.inp_tile_bytes),
        loaded("WGT", hw.wgt_bytes, hw.wgt_tile_bytes),
        Scratchpad(
            name="ACC",
            banks=hw.acc_banks,
            width=8 * hw.acc_tile_bytes,
            depth=hw.acc_depth // hw.acc_banks,
            write_bits=8 * min(4 * hw.vector_lanes, beat),
        ),
        Scratchpad(
            name="OUT",
            banks=out_banks,
            width=8 * hw.out_tile_bytes,
            depth=hw.out_depth // out_banks,
            write_bits=8 * hw.vector_lanes,
        ),
        loaded("RES", hw.res_bytes, hw.out_tile_bytes),
        loaded("UOP", hw.uop_bytes, UOP_BYTES, used=_UOP_USED),
        loaded(
            "PARAM",
            hw.param_bytes,
            hw.param_tile_bytes,
            param_row,
            _PARAM_USED * (param_row // PARAM_BYTES_PER_CHANNEL),
        ),
        loaded("FETCH", FETCH_BYTES, beat),
    )


def lut_memory(hw: HwConfig) -> int:
    """LUTs used as memory: FIFOs, small scratchpads, and the delay line of a deep MAC pipeline."""
    write_data = 9 * hw.axi_bytes + 1
    fifos = 4 * (FIFO_QUADS + -(-write_data // 6))
    line = _sum_bits(hw) if _line_in_luts(hw) else 0
    return fifos + line + sum(memory.cost.lutram for memory in scratchpads(hw))


def _sum_bits(hw: HwConfig) -> int:
    """Bits of the sums that leave the MAC array in a cycle."""
    return (16 + int(math.log2(hw.block_in))) * hw.batch * hw.block_out


def _lut_macs(hw: HwConfig) -> int:
    """Products that are formed in LUTs."""
    return hw.batch * hw.block_in * hw.mac_lut_columns


def _line_in_luts(hw: HwConfig) -> bool:
    """Whether the stages behind the first are shift registers in LUTs (three or more of them)."""
    return hw.mac_pipeline >= SHIFT_REGISTER_STAGES + 1


def dsp_count(hw: HwConfig) -> int:
    """DSP slices: one a MAC or for two packed MACs, those of the vector lanes and of the loads."""
    columns = hw.block_out - hw.mac_lut_columns
    multipliers = -(-columns // 2) if hw.mac_packed else columns
    array = hw.batch * hw.block_in * multipliers
    return array + DSP_PER_LANE * hw.vector_lanes + DSP_LOAD


def counted_registers(hw: HwConfig) -> int:
    """Flip-flops that follow from the parameters.

    They are the sums of the MAC array (one of each output element a stage), products formed in
    LUTs, and the word in which the fetch unit gathers an instruction from narrower beats.
    """
    sums = _sum_bits(hw) * (1 if _line_in_luts(hw) else hw.mac_pipeline)
    products = FF_PER_LUT_MAC * _lut_macs(hw) if hw.mac_pipeline >= 2 else 0
    return sums + products + (8 * INSTRUCTION_BYTES if hw.axi_bytes < INSTRUCTION_BYTES else 0)


def estimate(hw: HwConfig, model: LogicModel = LOGIC_MODEL) -> Area:
    """Resources of a configuration; LUT and FF are estimates, DSP and BRAM are counts."""
    costs = [memory.cost for memory in scratchpads(hw)]
    elements = hw.batch * hw.block_out
    lut_macs = _lut_macs(hw)
    lut = (
        model.lut_fixed
        + model.lut_per_lane * hw.vector_lanes
        + model.lut_per_element * elements
        + model.lut_per_packed_mac * (hw.macs_per_cycle - lut_macs) * hw.mac_packed
        + LUT_PER_LUT_MAC * lut_macs
        + model.lut_per_axi_bit * hw.axi_data_bits
        + lut_memory(hw)
    )
    ff = (
        model.ff_fixed
        + model.ff_per_lane * hw.vector_lanes
        + model.ff_per_channel * hw.block_out
        + model.ff_per_element * elements
        + counted_registers(hw)
    )
    halves = sum(2 * cost.ramb36 + cost.ramb18 for cost in costs)
    return Area(lut=round(lut), ff=round(ff), bram36=-(-halves // 2), dsp=dsp_count(hw))


def fits(hw: HwConfig, board: Board) -> Fit:
    """Compare a configuration with a board's resources and the width and bursts of its port."""
    area = estimate(hw)
    used = [
        (field.name.upper(), value, int(getattr(board, field.name)))
        for field, value in zip(fields(Area), astuple(area), strict=True)
    ]
    problems = [
        f"{name} {value} exceeds {limit} by {value - limit}"
        for name, value, limit in used
        if value > limit
    ]
    problems += [
        f"{name} {value} exceeds the port's {limit}"
        for name, value, limit in (
            ("axi_data_bits", hw.axi_data_bits, board.axi_data_bits),
            ("axi_burst_beats", hw.axi_burst_beats, board.axi_burst_beats),
        )
        if value > limit
    ]
    if problems:
        return Fit(
            ok=False, text=f"{hw.name} does not fit {board.name}: {'; '.join(problems)}", area=area
        )
    shares = ", ".join(f"{name} {value} of {limit}" for name, value, limit in used)
    return Fit(ok=True, text=f"{hw.name} fits {board.name}: {shares}", area=area)
