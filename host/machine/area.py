# SPDX-License-Identifier: Apache-2.0
"""Resources of a `HwConfig` or a `SystemConfig` on a Xilinx device, and whether it fits.

Devices are of the 7-series or UltraScale+.

DSP and block RAM follow from the parameters and equal Yosys's synthesis of the same RTL (recorded
in constraints/synthesis/results.yaml). LUT and FF are what the parameters give (memory in LUTs, MAC
array, registers of known width) plus linear models of a few named terms, fitted to those results.
Everything is before place and route.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, fields
from typing import Final

from tilewright.host.machine.block_ram import MemoryCost, memory_cost
from tilewright.host.machine.board import Board
from tilewright.host.machine.hwconfig import (
    INSTRUCTION_BYTES,
    PARAM_BYTES_PER_CHANNEL,
    UOP_BYTES,
    HwConfig,
)
from tilewright.host.machine.isa import TABLE_ENTRIES
from tilewright.host.machine.system_config import SystemConfig

DSP_PER_LANE_REQUANT: Final = 2
"""DSPs for the product of accumulator plus bias (33 bits) and multiplier (16 bits), or of MUL."""
DSP_PER_LANE_RESIDUAL: Final = 1
"""DSPs for the product of residual (8 bits) and multiplier (16 bits)."""
DSP_PER_LANE: Final = DSP_PER_LANE_REQUANT + DSP_PER_LANE_RESIDUAL
DSP_LOAD: Final = 2
"""DSPs of the padding geometry in the load unit: padding rows times the padded width, twice."""

PARAM_ROW_BYTES: Final = 32
"""Bytes of a PARAM row: two channels, or a bus beat if that is wider."""
FETCH_BYTES: Final = 1024
"""Bytes of the FIFO between the bus and the instruction decoder."""
HOLD_BEATS: Final = 16
"""Beats that LOAD can hold, or a longest burst if that has more (rtl/core/tw_hold.sv)."""
WRITE_BEATS: Final = 4
"""Beats in the FIFO of the write channel, each with its strobes and the mark of a burst's end."""
FIFO_QUADS: Final = 252
"""RAM32M of the other FIFOs (queued instructions, bursts in flight); no parameter sizes them."""

LUT_PER_PRODUCT: Final = 40
"""LUTs of a product of two bytes that is formed in LUTs."""
LUT_PER_TREE_BIT: Final = (1.0, 1.0, 1.04, 1.35, 1.57)
"""LUTs a bit of the adders in so many levels of the adder tree without a register between them.

By the synthesis of rtl/core/tw_mac.sv alone: Yosys merges such levels into one carry-save sum.
"""
LUT_PER_PACKED_MAC: Final = 1
"""LUTs a packed MAC more where just two levels merge: the constant that splits the products."""
LUT_PER_CHAIN: Final = 1.6
FF_PER_CHAIN: Final = 4
"""Of four packed products that a chain of slices adds: LUTs for each of their two sums, flip-flops
for both. They are the parity that tells the low sum's sign."""
LUT_PER_BANK: Final = 73
"""LUTs of a bank of ACC, an output element: its write multiplexer, a share of those of the readers.

By the synthesis of a 1x16x32 with two banks and with four.
"""
LUT_PER_TABLE_LANE: Final = 15
"""LUTs of a lane beside its activation table: address of LOAD or result, entry or by-pass."""
TABLE_LUT_BITS: Final = 64
"""Bits of a LUT of the activation table, which has one port (RAM128X1S: two LUTs)."""
LUT_PER_INT4_BIT: Final = (0.0, 3.7, 11.4)
"""LUTs that unpack weights of 4 bits, by ``int4_weights``, per bit of the bus: two beats of int8,
and one more size of a tile among the strides that LOAD multiplies; with scales also products."""
LUT_OF_ROW_UNIT: Final = 868
LUT_PER_ROW_LANE: Final = 300
FF_OF_ROW_UNIT: Final = 357
FF_PER_ROW_LANE: Final = 89
"""A row unit (rtl/vector/tw_reduce.sv): slots and one total with its logarithm; of each lane its
operand, EXP2, SQUARE and a share of the tree."""
LUT_PER_TOTAL: Final = 440
FF_PER_TOTAL: Final = 300
"""Of each further row that a part of a tile has."""
FF_PER_CHANNEL: Final = 78
"""Parameter registers of an output channel."""

_UOP_USED: Final = (True,) * 51 + (False,) * 13
"""Bits of a micro-op that the hardware reads (`isa`: inp 18, wgt 16, acc 16, first 1)."""
_PARAM_USED: Final = (True,) * 70 + (False,) * 2 + (True,) * 8 + (False,) * 48
"""Bits of a channel's entry that it reads (bias 32, m1 16, m2 16, shift 6; zero point 8)."""


@dataclass(frozen=True, kw_only=True)
class Area:
    """Device resources: LUTs, flip-flops, 36 Kb block RAMs, DSP slices."""

    lut: int
    ff: int
    bram36: int
    dsp: int


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Whether a configuration fits a board."""

    ok: bool  # everything fits
    text: str  # one line: what is used of what, or what does not fit and by how much
    area: Area  # the estimate behind it


@dataclass(frozen=True, kw_only=True)
class LogicModel:
    """Coefficients of the LUT and FF models (counts a unit of the named quantity).

    Fitted by `sim.synth.fit` to the recorded syntheses; docs/results/synthesis.md has the error.
    """

    lut_fixed: float = 0.0  # control, registers, counters, load, store, fetch
    lut_per_lane: float = 0.0  # ALU and requantisation of a vector lane
    lut_per_element: float = 0.0  # adder and forwarding of an output element
    lut_per_axi_bit: float = 0.0  # alignment and steering of a bit of the bus
    ff_fixed: float = 0.0  # as for LUTs
    ff_per_lane: float = 0.0  # pipeline of a vector lane
    ff_per_element: float = 0.0  # results and forwarding registers of an output element


LUT_ERROR: Final = 0.03
FF_ERROR: Final = 0.021
"""Largest relative errors of the estimate over the rows that the fit has seen."""

LOGIC_MODEL: Final = LogicModel(
    lut_fixed=5839.0,
    lut_per_lane=466.0,
    lut_per_element=109.5,
    lut_per_axi_bit=8.4,
    ff_fixed=7576.5,
    ff_per_lane=368.2,
    ff_per_element=78.3,
)


@dataclass(frozen=True, kw_only=True)
class SurroundModel:
    """Coefficients of what stands around the cores of a system (counts a unit of the quantity).

    Taken from Yosys's synthesis of the modules of rtl/system/ by themselves for xc7.
    """

    fixed: float  # shared page and control port of any system
    per_core: float  # shared page, queue, scrub and a place in an arbiter of a core
    per_port: float  # an arbiter
    per_data_bit: float  # multiplexers of write data, of a core's bus where cores share a port

    def count(self, system: SystemConfig) -> int:
        """The model's value for a system."""
        shared_bits = sum(
            core.hw.axi_data_bits for core in system.cores if len(system.cores_of(core.port)) > 1
        )
        return round(
            self.fixed
            + self.per_core * len(system.cores)
            + self.per_port * system.memory_ports
            + self.per_data_bit * shared_bits
        )


LUT_AROUND: Final = SurroundModel(fixed=130, per_core=1280, per_port=30, per_data_bit=0.6)
FF_AROUND: Final = SurroundModel(fixed=250, per_core=840, per_port=30, per_data_bit=0.0)


@dataclass(frozen=True, kw_only=True)
class Scratchpad:
    """One on-chip memory as the RTL describes it.

    Attributes:
        used: by bit of a row, whether the hardware reads it; all when None.
    """

    name: str  # scratchpad
    banks: int  # equal, independent copies of the structure below
    width: int  # bits that are read at once
    depth: int  # rows of a bank
    write_bits: int  # neighbouring bits that share a write enable
    used: tuple[bool, ...] | None = None

    @property
    def cost(self) -> MemoryCost:
        """Block RAMs or LUT RAMs of all banks."""
        bank = memory_cost(
            width=self.width, depth=self.depth, write_bits=self.write_bits, used=self.used
        )
        return bank.times(self.banks)


def scratchpads(hw: HwConfig) -> tuple[Scratchpad, ...]:
    """The seven scratchpads that every configuration has; see also `table_lutram`.

    Shapes as in rtl/core/tw_spad.sv, tw_acc.sv and tw_out.sv: a tile of at least a beat is a row of
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
    )


def fifo_luts(*, width: int, depth: int) -> int:
    """LUTs of a FIFO in LUT RAM: RAM32M of 6 bits each, or RAM64M of 3 (rtl/core/tw_fifo.sv)."""
    narrow, deep = (6, 32) if depth <= 32 else (3, 64)
    return 4 * -(-width // narrow) * -(-depth // deep)


def holds_beats(hw: HwConfig) -> bool:
    """Whether LOAD can hold beats, because one may bring several diagonals of a WGT tile."""
    return min(hw.block_in, hw.block_out) < hw.axi_bytes


def lut_memory(hw: HwConfig) -> int:
    """LUTs used as memory: FIFOs, small scratchpads, and the delay line of a deep MAC pipeline."""
    beat = 8 * hw.axi_bytes
    fifos = 4 * FIFO_QUADS + fifo_luts(width=9 * hw.axi_bytes + 1, depth=WRITE_BEATS)
    fifos += fifo_luts(width=beat, depth=FETCH_BYTES // hw.axi_bytes)
    if holds_beats(hw):
        fifos += fifo_luts(width=beat, depth=max(HOLD_BEATS, hw.axi_burst_beats))
    line = _sum_bits(hw) if _line_in_luts(hw) else 0
    return fifos + line + table_lutram(hw) + sum(memory.cost.lutram for memory in scratchpads(hw))


def table_lutram(hw: HwConfig) -> int:
    """LUTs that hold the activation table, a copy for each vector lane (rtl/vector/tw_table.sv)."""
    return hw.activation_table * hw.vector_lanes * 8 * TABLE_ENTRIES // TABLE_LUT_BITS


def row_unit(hw: HwConfig) -> tuple[int, int]:
    """LUTs and flip-flops of the row unit, 0 when there is none."""
    if not hw.row_unit:
        return 0, 0
    further = max(hw.vector_lanes // hw.block_out, 1) - 1
    return (
        LUT_OF_ROW_UNIT + LUT_PER_ROW_LANE * hw.vector_lanes + LUT_PER_TOTAL * further,
        FF_OF_ROW_UNIT + FF_PER_ROW_LANE * hw.vector_lanes + FF_PER_TOTAL * further,
    )


# -- MAC array (rtl/core/tw_mac.sv) --------------------------------------------------------------


def _sum_bits(hw: HwConfig) -> int:
    """Bits of the sums that leave the MAC array in a cycle."""
    return (16 + int(math.log2(hw.block_in))) * hw.batch * hw.block_out


def _lut_macs(hw: HwConfig) -> int:
    """Products that are formed in LUTs."""
    return hw.batch * hw.block_in * hw.mac_lut_columns


def _sum_stages(hw: HwConfig) -> int:
    """Registers behind the products: the others are before them and before the operands."""
    return hw.mac_pipeline - (hw.mac_pipeline >= 2) - (hw.mac_pipeline >= 3)


def _staged_levels(hw: HwConfig) -> list[bool]:
    """By level of the adder tree, whether a register follows; level 0 are the products."""
    levels = int(math.log2(hw.block_in))
    stages = min(_sum_stages(hw), levels)
    return [False] + [level < stages for level in range(1, levels)] + [stages > 0]


def _level_bits(hw: HwConfig, level: int) -> int:
    """Bits of all sums of a level of the tree of one output element."""
    return (hw.block_in >> level) * (16 + level)


def _line_stages(hw: HwConfig) -> int:
    """Registers behind the last level of the tree, which has one too."""
    return _sum_stages(hw) - sum(_staged_levels(hw))


def _line_in_luts(hw: HwConfig) -> bool:
    """Whether the registers of a sum are a shift register in LUTs (three or more in a row)."""
    return _line_stages(hw) >= 2


def _tree_luts(hw: HwConfig, first: int) -> float:
    """LUTs of the adders of one output element from level ``first`` on."""
    staged = _staged_levels(hw)
    total, bits, run = 0.0, 0, 0
    for level in range(first, len(staged)):
        bits, run = bits + _level_bits(hw, level), run + 1
        if staged[level]:
            total += bits * LUT_PER_TREE_BIT[min(run, len(LUT_PER_TREE_BIT) - 1)]
            bits, run = 0, 0
    return total


def _packed_columns(hw: HwConfig) -> int:
    """Output channels whose products share multipliers, two and two."""
    return (hw.block_out - hw.mac_lut_columns) // 2 * 2 * hw.mac_packed


def _chained(hw: HwConfig) -> bool:
    """Whether a chain of slices adds four packed products, and not two."""
    return hw.mac_pipeline >= 2 and all(_staged_levels(hw)[1:3])


def array_luts(hw: HwConfig) -> float:
    """LUTs of the MAC array, memory apart.

    DSP slices add products in pairs, packed ones also in fours, and all of them when nothing is
    registered before the sums.
    """
    packed = hw.batch * _packed_columns(hw)
    plain = hw.batch * (hw.block_out - hw.mac_lut_columns) - packed
    in_luts = hw.batch * hw.mac_lut_columns
    total = 0.0 if hw.mac_pipeline == 1 else plain * _tree_luts(hw, 2)
    total += packed * _tree_luts(hw, 3 if _chained(hw) else 2)
    if _chained(hw):
        total += LUT_PER_CHAIN * packed * hw.block_in // 4
    elif _staged_levels(hw)[2:] == [False, True]:
        total += LUT_PER_PACKED_MAC * packed * hw.block_in
    return total + in_luts * _tree_luts(hw, 1) + LUT_PER_PRODUCT * _lut_macs(hw)


def array_registers(hw: HwConfig) -> int:
    """Flip-flops of the MAC array outside of the DSP slices."""
    staged = _staged_levels(hw)
    if _line_in_luts(hw):
        staged[-1] = False
    elements = hw.batch * hw.block_out
    total = elements * sum(_level_bits(hw, n) for n in range(2, len(staged)) if staged[n])
    total += 0 if _line_in_luts(hw) else _line_stages(hw) * _sum_bits(hw)
    if _chained(hw):  # the second level's are in slices; half of the weights wait for the first
        columns = _packed_columns(hw)
        total -= hw.batch * columns * _level_bits(hw, 2)
        total += 8 * hw.block_in // 2 * columns
        chains = hw.block_in // 4
        total += hw.batch * columns // 2 * (FF_PER_CHAIN * chains + chains - 1)
    if staged[1]:
        total += hw.batch * hw.mac_lut_columns * _level_bits(hw, 1)
    if hw.mac_pipeline >= 2:
        total += 16 * _lut_macs(hw)
    if hw.mac_pipeline >= 3:  # operands: slices have registers of their own for one of a pair
        pairs = _packed_columns(hw) // 2
        total += 8 * hw.block_in * pairs * min(hw.batch, 2)
        total += 8 * hw.block_in * hw.mac_lut_columns
        total += 8 * hw.block_in * hw.batch * (hw.mac_lut_columns > 0)
    return total


# -- estimate -------------------------------------------------------------------------------


def dsp_count(hw: HwConfig) -> int:
    """DSP slices: one a MAC or for two packed MACs, those of the vector lanes and of the loads."""
    columns = hw.block_out - hw.mac_lut_columns
    multipliers = -(-columns // 2) if hw.mac_packed else columns
    array = hw.batch * hw.block_in * multipliers
    return array + DSP_PER_LANE * hw.vector_lanes + DSP_LOAD


def counted_registers(hw: HwConfig) -> int:
    """Flip-flops that follow from the parameters.

    They are those of the MAC array and of the parameters, the beat that LOAD writes, the outputs of
    scratchpads in LUT RAM, and the word in which the fetch unit gathers an instruction from
    narrower beats.
    """
    outputs = sum(
        memory.banks * (sum(memory.used) if memory.used else memory.width)
        for memory in scratchpads(hw)
        if memory.cost.lutram
    )
    word = 8 * INSTRUCTION_BYTES if hw.axi_bytes < INSTRUCTION_BYTES else 0
    parameters = FF_PER_CHANNEL * hw.block_out
    return array_registers(hw) + parameters + hw.axi_data_bits + outputs + word


def estimate(design: HwConfig | SystemConfig, model: LogicModel = LOGIC_MODEL) -> Area:
    """Resources of a configuration, or of a system: its cores, and what stands around them.

    LUT and FF are estimates, DSP and BRAM of a configuration are counts.
    """
    if isinstance(design, SystemConfig):
        return _system(design, model)
    hw = design
    costs = [memory.cost for memory in scratchpads(hw)]
    elements = hw.batch * hw.block_out
    lut = (
        model.lut_fixed
        + model.lut_per_lane * hw.vector_lanes
        + (model.lut_per_element + LUT_PER_BANK * hw.acc_banks) * elements
        + model.lut_per_axi_bit * hw.axi_data_bits
        + array_luts(hw)
        + LUT_PER_TABLE_LANE * hw.activation_table * hw.vector_lanes
        + row_unit(hw)[0]
        + LUT_PER_INT4_BIT[hw.int4_weights] * hw.axi_data_bits
        + lut_memory(hw)
    )
    ff = (
        model.ff_fixed
        + model.ff_per_lane * hw.vector_lanes
        + model.ff_per_element * elements
        + counted_registers(hw)
        + row_unit(hw)[1]
    )
    halves = sum(2 * cost.ramb36 + cost.ramb18 for cost in costs)
    return Area(lut=round(lut), ff=round(ff), bram36=-(-halves // 2), dsp=dsp_count(hw))


def _system(system: SystemConfig, model: LogicModel) -> Area:
    cores = [estimate(core.hw, model) for core in system.cores]
    lut, ff, bram36, dsp = (sum(column) for column in zip(*map(astuple, cores), strict=True))
    return Area(
        lut=lut + LUT_AROUND.count(system), ff=ff + FF_AROUND.count(system), bram36=bram36, dsp=dsp
    )


def shortfalls(design: HwConfig | SystemConfig, area: Area, board: Board) -> list[str]:
    """What a design of an area needs beyond a board's resources and its ports."""
    return resource_shortfalls(area, board) + port_shortfalls(design, board)


def resource_shortfalls(area: Area, board: Board) -> list[str]:
    """What an area needs beyond a board's resources."""
    return [
        f"{name} {value} exceeds {limit} by {value - limit}"
        for name, value, limit in resource_shares(area, board)
        if value > limit
    ]


def port_shortfalls(design: HwConfig | SystemConfig, board: Board) -> list[str]:
    """What a design needs beyond the width and the bursts of a board's ports."""
    if isinstance(design, SystemConfig):
        return [
            f"core {number}: {text}"
            for number, core in enumerate(design.cores)
            for text in port_shortfalls(core.hw, board)
        ]
    return [
        f"{name} {getattr(design, name)} exceeds the port's {getattr(board, name)}"
        for name in ("axi_data_bits", "axi_burst_beats")
        if getattr(design, name) > getattr(board, name)
    ]


def fits(design: HwConfig | SystemConfig, board: Board) -> Fit:
    """Compare a design with a board's resources and the width and bursts of its ports."""
    area = estimate(design)
    if problems := shortfalls(design, area, board):
        text = f"{design.name} does not fit {board.name}: {'; '.join(problems)}"
        return Fit(ok=False, text=text, area=area)
    shares = ", ".join(
        f"{name} {value} of {limit}" for name, value, limit in resource_shares(area, board)
    )
    note = " (estimated)" if isinstance(design, SystemConfig) else ""
    return Fit(ok=True, text=f"{design.name} fits {board.name}: {shares}{note}", area=area)


def resource_shares(area: Area, board: Board) -> list[tuple[str, int, int]]:
    """(resource, used, available) of each kind."""
    return [
        (field.name.upper(), value, int(getattr(board, field.name)))
        for field, value in zip(fields(Area), astuple(area), strict=True)
    ]
