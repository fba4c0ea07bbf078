# SPDX-License-Identifier: Apache-2.0
"""Resources of a `HwConfig` on a Xilinx 7-series or UltraScale+ device, and whether it fits.

DSP and BRAM follow from the parameters by counting; LUT and FF are a linear estimate whose
coefficients (`LogicModel`) are round figures to be replaced by a fit to synthesis.

Block RAM is counted in 36 Kb blocks used as simple dual-port memories (Xilinx UG473, chapter 1:
512x72, 1Kx36, 2Kx18, 4Kx9, ...). 18 Kb halves are not paired, which overstates shallow memories
by at most half a block a column.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields
from typing import Final

from tilewright.host.board import Board
from tilewright.host.hwconfig import HwConfig

DSP_PER_LANE_REQUANT: Final = 2
"""DSPs for the product of accumulator plus bias (33 bits) and multiplier (16 bits)."""
DSP_PER_LANE_RESIDUAL: Final = 1
"""DSPs for the product of residual (8 bits) and multiplier (16 bits)."""
DSP_PER_LANE_MUL: Final = 2
"""DSPs for the product of accumulator (32 bits) and immediate (16 bits)."""
DSP_PER_LANE: Final = DSP_PER_LANE_REQUANT + DSP_PER_LANE_RESIDUAL + DSP_PER_LANE_MUL

BRAM36_SHAPES: Final = (
    (72, 512), (36, 1024), (18, 2048), (9, 4096), (4, 8192), (2, 16384), (1, 32768),
)  # fmt: skip
"""(width in bits, depth) of a 36 Kb block as simple dual-port memory."""
BRAM36_BYTE_SHAPES: Final = ((64, 512), (32, 1024), (16, 2048), (8, 4096))
"""The same with a write enable for each 8 data bits: the parity bits stay unused."""

LUTRAM_MAX_DEPTH: Final = 64
"""Memories of at most this depth go to LUT RAM."""
LUTRAM_MAX_COLUMN_BITS: Final = 1024
"""So do columns of at most this many bits."""

PARAM_ROW_BITS: Final = 256
"""Width of the PARAM memory: two channels, or a bus beat if that is wider."""


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
    """Coefficients of the linear LUT and FF estimate (counts a unit of the named quantity).

    Initial round figures, not a fit: a 16x16 array with buffers took 1,900 to 3,800 LUT in Yosys
    with one DSP a MAC, a MAC in LUTs alone about 156; the rest is judgement.
    """

    lut_fixed: float = 7000.0
    lut_per_mac: float = 12.0
    lut_per_packed_mac: float = 24.0
    lut_per_lane: float = 260.0
    lut_per_axi_bit: float = 10.0
    lut_per_acc_tile_bit: float = 4.0
    lut_per_outstanding: float = 40.0
    ff_fixed: float = 9000.0
    ff_per_mac: float = 8.0
    ff_per_mac_stage: float = 4.0
    ff_per_lane: float = 300.0
    ff_per_axi_bit: float = 12.0
    ff_per_acc_tile_bit: float = 3.0
    ff_per_outstanding: float = 60.0


LOGIC_MODEL: Final = LogicModel()


@dataclass(frozen=True, kw_only=True)
class Scratchpad:
    """One on-chip memory as it is built.

    Attributes:
        name: scratchpad.
        banks: equal, independent copies of the structure below.
        width: bits that are read at once.
        depth: rows of a bank.
        write_bits: bits that are written at once; a wider memory is made of columns.
    """

    name: str
    banks: int
    width: int
    depth: int
    write_bits: int

    @property
    def column_bits(self) -> int:
        """Width of one independently written column."""
        return min(self.width, self.write_bits)

    @property
    def in_lutram(self) -> bool:
        """Too small for a block RAM."""
        return (
            self.depth <= LUTRAM_MAX_DEPTH
            or self.depth * self.column_bits <= LUTRAM_MAX_COLUMN_BITS
        )

    @property
    def bram36(self) -> int:
        """36 Kb blocks."""
        if self.in_lutram:
            return 0
        columns = -(-self.width // self.column_bits)
        best = columns * _fewest(BRAM36_SHAPES, self.column_bits, self.depth)
        if columns > 1 and self.column_bits % 8 == 0:
            best = min(best, _fewest(BRAM36_BYTE_SHAPES, self.width, self.depth))
        return self.banks * best

    @property
    def lutram_luts(self) -> int:
        """LUTs when it goes to LUT RAM: RAM32M stores 32 x 6, RAM64M 64 x 3 bits in 4 LUTs."""
        if not self.in_lutram:
            return 0
        if self.depth <= 32:
            quads = -(-self.width // 6)
        else:
            quads = -(-self.width // 3) * -(-self.depth // 64)
        return self.banks * 4 * quads


def _fewest(shapes: tuple[tuple[int, int], ...], width: int, depth: int) -> int:
    """Blocks of the best single shape for a width x depth memory."""
    return min(-(-width // w) * -(-depth // d) for w, d in shapes)


def scratchpads(hw: HwConfig) -> tuple[Scratchpad, ...]:
    """The seven scratchpads of a configuration as memories.

    A loaded memory is written one AXI beat at a time. A row is a tile (PARAM: `PARAM_ROW_BITS`),
    or a beat where that is wider; OUT is written by the vector lanes.
    """
    beat = hw.axi_data_bits

    def loaded(name: str, total_bytes: int, row_bits: int, banks: int = 1) -> Scratchpad:
        width = max(row_bits, beat)
        depth = max(8 * total_bytes // (width * banks), 1)
        return Scratchpad(name=name, banks=banks, width=width, depth=depth, write_bits=beat)

    out_bits = 8 * hw.out_tile_bytes
    return (
        loaded("INP", hw.inp_bytes, 8 * hw.inp_tile_bytes),
        loaded("WGT", hw.wgt_bytes, 8 * hw.wgt_tile_bytes),
        loaded("ACC", hw.acc_bytes, 8 * hw.acc_tile_bytes, hw.acc_banks),
        Scratchpad(
            name="OUT",
            banks=1,
            width=out_bits,
            depth=hw.out_depth,
            write_bits=8 * hw.vector_lanes,
        ),
        loaded("RES", hw.res_bytes, out_bits),
        loaded("UOP", hw.uop_bytes, 64),
        loaded("PARAM", hw.param_bytes, PARAM_ROW_BITS),
    )


def dsp_count(hw: HwConfig) -> int:
    """DSP slices: one a MAC, or one for two packed MACs, plus those of the vector lanes."""
    macs = hw.macs_per_cycle
    array = -(-macs // 2) if hw.mac_packed else macs
    return array + DSP_PER_LANE * hw.vector_lanes


def estimate(hw: HwConfig, model: LogicModel = LOGIC_MODEL) -> Area:
    """Resources of a configuration; LUT and FF are estimates, DSP and BRAM are counts."""
    memories = scratchpads(hw)
    macs, lanes, axi_bits = hw.macs_per_cycle, hw.vector_lanes, hw.axi_data_bits
    acc_bits = 8 * hw.acc_tile_bytes
    outstanding = hw.read_outstanding + hw.write_outstanding
    lut = (
        model.lut_fixed
        + macs * (model.lut_per_packed_mac if hw.mac_packed else model.lut_per_mac)
        + lanes * model.lut_per_lane
        + axi_bits * model.lut_per_axi_bit
        + acc_bits * model.lut_per_acc_tile_bit
        + outstanding * model.lut_per_outstanding
        + sum(m.lutram_luts for m in memories)
    )
    ff = (
        model.ff_fixed
        + macs * (model.ff_per_mac + model.ff_per_mac_stage * hw.mac_pipeline)
        + lanes * model.ff_per_lane
        + axi_bits * model.ff_per_axi_bit
        + acc_bits * model.ff_per_acc_tile_bit
        + outstanding * model.ff_per_outstanding
    )
    return Area(
        lut=round(lut), ff=round(ff), bram36=sum(m.bram36 for m in memories), dsp=dsp_count(hw)
    )


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
