# SPDX-License-Identifier: Apache-2.0
"""What layers of every kind do to the program that they are appended to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tilewright.host.common.errors import ProgramError
from tilewright.host.lowering.program_builder import ProgramBuilder, pack_load, pack_store
from tilewright.host.lowering.transfers import Box
from tilewright.host.machine.isa import Memory, Unit, VectorOp
from tilewright.host.network.layout import Spread

Key = tuple[str, int]
"""A resource, as dependencies are tracked: its name, and which of several."""

_TABLE: Final[Key] = ("table", 0)


@dataclass(frozen=True, kw_only=True)
class OperandPlacement:
    """Where the operands of a layer lie in its program's memory, in bytes from MEM_BASE.

    Attributes:
        offsets: first byte of ``inp``, ``wgt``, ``param``, ``out``, with a residual of ``res``, of
            a product's ``factor``, and of ``table`` if results are looked up in one.
        weights_by_input: weight tiles lie input block by input block, as an activation of another
            layer does (its pixels are the output channels); of a 1x1 workload.
        spread: the output fills only some pixels of a larger one; without a residual.
        input_plane: pixels of the tensor of which the input is a part; 0: it is no part of one.
        channels_last: all channels of a pixel of the output lie together; of a workload with
            weights, without a residual and without a spread (`host.lowering.outputs`).
    """

    offsets: Mapping[str, int]
    uop: int  # first byte of the layer's micro-ops
    pad_value: int = 0  # int8 that stands for 0 in the input
    weights_by_input: bool = False
    factor_zero: int = 0  # int8 that stands for 0 in a product's factor
    spread: Spread | None = None
    input_plane: int = 0
    weight_plane: int = 0  # the same of an activation that is loaded as weights
    channels_last: bool = False


@dataclass(frozen=True, kw_only=True)
class Emitted:
    """What a layer added to a program."""

    uops: bytes  # its micro-ops, as they lie in DRAM
    macs_tiles: int  # tile products
    bytes_read: int  # bytes that LOAD reads, micro-ops included, instruction fetch not
    bytes_written: int  # bytes that STORE writes


class Emission:
    """What a layer of any kind does to the program that it is appended to; ``clip``: its bounds."""

    def __init__(
        self, builder: ProgramBuilder, clip: tuple[int, int], placement: OperandPlacement
    ) -> None:
        self.builder = builder
        self.offsets = placement.offsets
        raw = (clip[1] & 0xFF) << 8 | clip[0] & 0xFF
        self.bytes_read = self.bytes_written = 0
        self.requant_fields = {"op": int(VectorOp.REQUANT), "imm": raw - (raw >> 15 << 16)}
        self.requant_reads: tuple[Key, ...] = ()
        self.table_loaded = False
        if "table" in self.offsets:
            self._look_up()

    def _look_up(self) -> None:
        """Load the layer's activation table when its first parameters are loaded; use it."""
        if not self.builder.hw.activation_table:
            raise ProgramError(
                "a layer with a table needs an accelerator with one",
                field=self.builder.hw.name,
                value="activation_table: 0",
                remedy="use a configuration with activation_table: 1",
            )
        self.requant_fields["lookup"] = 1
        self.requant_reads = (_TABLE,)

    def load_params(self, slot: int, slot_tiles: int, first: int, count: int) -> None:
        """Load the parameters of output blocks (first, count) into a slot of PARAM.

        The first time the layer's activation table goes before them.
        """
        if self.requant_reads and not self.table_loaded:
            self._load_table()
        size = self.builder.hw.param_tile_bytes
        word = pack_load(
            memory=Memory.PARAM,
            sram_base=slot * slot_tiles,
            dram_offset=self.offsets["param"] + first * size,
            x_size=count,
            y_size=1,
            z_size=1,
        )
        self.builder.emit_word(Unit.LOAD, word, (), (("param", slot),))
        self.bytes_read += count * size

    def store(self, base: int, first: int, region: Box, slot: Key) -> None:
        """Store tiles of OUT, from one on, to a region of the output."""
        size = self.builder.hw.out_tile_bytes
        word = pack_store(
            sram_base=base,
            dram_offset=self.offsets["out"] + first * size,
            **region._asdict(),
        )
        self.builder.emit_word(Unit.STORE, word, (slot,), ())
        self.bytes_written += region.tiles * size

    def emitted(self) -> Emitted:
        """What a layer without GEMM added to the program."""
        return Emitted(
            uops=b"", macs_tiles=0, bytes_read=self.bytes_read, bytes_written=self.bytes_written
        )

    def _load_table(self) -> None:
        hw = self.builder.hw
        word = pack_load(
            memory=Memory.TABLE,
            dram_offset=self.offsets["table"],
            x_size=hw.table_depth,
            y_size=1,
            z_size=1,
        )
        self.builder.emit_word(Unit.LOAD, word, (), (_TABLE,))
        self.bytes_read += hw.table_depth * hw.axi_bytes
        self.table_loaded = True
