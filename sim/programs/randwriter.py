# SPDX-License-Identifier: Apache-2.0
"""The program under the hands of `randprog`: what is emitted, written, stored and not yet seen."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.host.machine.hwconfig import UOP_BYTES, HwConfig
from tilewright.host.machine.isa import UNIT_OF, Instruction, Memory, Opcode, Operand, VectorOp
from tilewright.host.machine.program import Program, layout_regions
from tilewright.host.runtime.device import Bytes
from tilewright.sim.programs.randdata import (
    PARAM_POOL,
    PROBE_SHIFTS,
    UOP_POOL,
    anchors,
    exact_params,
    lines,
    random_params,
    random_tensor,
    random_uops,
    runs,
    shift_params,
)
from tilewright.sim.programs.randtokens import TokenTracker
from tilewright.sim.reference import footprint
from tilewright.sim.reference.device import ReferenceDevice

CYCLES: Final = 300
"""About as many as an instruction may take."""

Bools = npt.NDArray[np.bool_]


@dataclass(kw_only=True)
class Pad:
    """What the generator knows of a scratchpad."""

    size: footprint.Scratchpad
    written: Bools
    anchors: list[int]
    unseen: set[int] = field(default_factory=set)
    """Tiles changed since they were last stored (OUT) or requantised for a store (ACC)."""


class ProgramWriter:
    """Emits instructions one after another, tracking what is written."""

    def __init__(self, hw: HwConfig, rng: np.random.Generator) -> None:
        self._hw = hw
        self._rng = rng
        self._pads = {
            memory: Pad(
                size=size,
                written=np.zeros(size.depth, dtype=np.bool_),
                anchors=anchors(rng, size.depth),
            )
            for memory, size in footprint.scratchpads(hw).items()
        }
        beats = hw.param_tile_bytes // hw.axi_bytes
        self._exact = min(hw.param_depth, hw.out_depth, max(1, 4 * CYCLES // beats), 40)
        data_bytes = max(
            [4096 * int(rng.integers(2, 5))]
            + [12 * pad.size.tile_bytes for pad in self._pads.values()]
        )
        self._sizes = {
            "uop": UOP_POOL * UOP_BYTES,
            "param": PARAM_POOL * hw.param_tile_bytes,
            "data": data_bytes,
            "result": 4096 * int(rng.integers(8, 17)),
            "probe": (self._exact + len(PROBE_SHIFTS)) * hw.param_tile_bytes,
        }
        self._tensors = {name: random_tensor(rng, self._sizes[name]) for name in ("data", "result")}
        self._regions, _ = layout_regions(self._sizes)
        self._uop_pool = random_uops(hw, rng, {m: p.anchors for m, p in self._pads.items()})
        self._constants = {"uop": self._uop_pool.tobytes(), "param": random_params(hw, rng)}
        self._uops = np.zeros((self._pads[Memory.UOP].size.depth, UOP_BYTES), dtype=np.uint8)
        self._emitted: list[tuple[Opcode, dict[str, int]]] = []
        self._tokens = TokenTracker(rng)
        self._stored: list[int] = []

    def _emit(
        self,
        opcode: Opcode,
        values: dict[str, int],
        reads: Mapping[Hashable, footprint.Index],
        writes: Mapping[Hashable, footprint.Index],
    ) -> None:
        self._tokens.add(UNIT_OF[opcode], reads, writes)
        self._emitted.append((opcode, values))
        for memory, tiles in writes.items():
            if isinstance(memory, Memory):
                self._pads[memory].written[tiles] = True
                if memory in (Memory.ACC, Memory.OUT):
                    self._pads[memory].unseen.update(tiles.tolist())

    def _emit_load(self, memory: Memory, **values: int) -> None:
        v = {"memory": int(memory), "y_stride": 0, "z_stride": 0, **values}
        nbytes = footprint.loaded_pad(self._hw, v).tile_bytes
        walk = footprint.transfer(v, nbytes)
        target = np.arange(walk.first, walk.first + walk.count)
        if memory == Memory.ACC:
            v["acc_banks"] = self._bank_mask(target)
        if memory == Memory.UOP:
            self._uops[target] = v.get("pad_value", 0) & 0xFF
            pool = (walk.dram - self._regions["uop"].offset) // UOP_BYTES
            self._uops[walk.tiles] = self._uop_pool[pool]
        touched = lines(walk.dram, nbytes)
        self._emit(Opcode.LOAD, v, {"dram": touched}, {memory: target})

    def _emit_vector(self, **values: int) -> None:
        names = ("dst", "src", "opd")
        steps = {f"{name}_{kind}": 0 for name in names for kind in ("base", "outer", "inner")}
        flags = ("operand", "param_base", "param_step", "lookup", "hold", "reduce", "lanes")
        v = {**dict.fromkeys(flags, 0), **steps, **values}
        block = next(footprint.vector_blocks(v))
        requant = v["op"] == VectorOp.REQUANT
        read = [block.src] if v["op"] != VectorOp.MOV else []
        read += [block.opd] if v["hold"] else []
        banked = [] if requant else [block.src, block.dst]
        v["acc_banks"] = self._bank_mask(np.concatenate([*read, *banked]))
        reads: dict[Hashable, footprint.Index] = {}
        if read:
            reads[Memory.ACC] = np.concatenate(read)
        if v["operand"] == Operand.RES:
            reads[Memory.RES] = block.opd
        if requant:
            reads[Memory.PARAM] = block.param
            self._pads[Memory.ACC].unseen.difference_update(block.src.tolist())
        if v["lookup"]:
            reads[Memory.TABLE] = np.arange(self._pads[Memory.TABLE].size.depth)
        self._emit(Opcode.VECTOR, v, reads, {Memory.OUT if requant else Memory.ACC: block.dst})

    def _emit_store(self, **values: int) -> None:
        v = {"y_stride": 0, "z_stride": 0, **values}
        nbytes = self._pads[Memory.OUT].size.tile_bytes
        walk = footprint.transfer(v, nbytes)
        touched = lines(walk.dram, nbytes)
        self._emit(Opcode.STORE, v, {Memory.OUT: walk.tiles}, {"dram": touched})
        self._pads[Memory.OUT].unseen.difference_update(walk.tiles.tolist())
        self._stored.extend(walk.dram.tolist())

    def _store_unseen(self) -> None:
        for first, count in runs(sorted(self._pads[Memory.OUT].unseen), limit=64):
            self._emit_store(
                sram_base=first,
                dram_offset=self._result_offset(count),
                x_size=count,
                y_size=1,
                z_size=1,
            )

    def observe(self) -> None:
        """Store every OUT tile not yet stored, then make ACC visible.

        A reference run tells what ACC holds; some tiles are shown exactly (see
        `exact_params`), more of them through several shifts.
        """
        self._store_unseen()
        unseen = self._rng.permutation(sorted(self._pads[Memory.ACC].unseen)).tolist()
        if not unseen:
            return
        device = ReferenceDevice(self._hw)
        device.run(*self.finish())
        shape = (-1, self._hw.batch, self._hw.block_out)
        acc = device.scratchpad(Memory.ACC).view("<i4").reshape(shape)
        exact = sorted(unseen[: self._exact])
        tiles = [exact_params(self._rng, acc[tile]) for tile in exact]
        tiles += [bytes(self._hw.param_tile_bytes)] * (self._exact - len(exact))
        tiles += [shift_params(self._hw, shift) for shift in PROBE_SHIFTS]
        self._constants["probe"] = b"".join(tiles)
        self._probe(exact, first=0, step=1)
        budget = max(1, 4 * CYCLES // (self._vector_cycles * len(PROBE_SHIFTS)))
        shown = sorted(unseen[: min(budget, self._pads[Memory.OUT].size.depth)])
        for probe in self._rng.permutation(len(PROBE_SHIFTS)).tolist():
            self._probe(shown, first=self._exact + probe, step=0)

    def _probe(self, tiles: list[int], *, first: int, step: int) -> None:
        """Requantise ACC tiles with probe tile ``first``, or with one each, and store them."""
        needed = len(tiles) if step else 1
        base = int(self._rng.integers(self._pads[Memory.PARAM].size.depth - needed + 1))
        target = int(self._rng.integers(self._pads[Memory.OUT].size.depth - len(tiles) + 1))
        offset = self._regions["probe"].offset + first * self._hw.param_tile_bytes
        shape = {"x_size": needed, "y_size": 1, "z_size": 1}
        self._emit_load(Memory.PARAM, sram_base=base, dram_offset=offset, **shape)
        done = 0
        for start, count in runs(tiles, limit=len(tiles)):
            self._emit_vector(
                op=int(VectorOp.REQUANT),
                imm=0x7F80,
                param_base=base + step * done,
                param_step=step,
                iter_outer=count,
                iter_inner=1,
                src_base=start,
                src_outer=1,
                dst_base=target + done,
                dst_outer=1,
            )
            done += count
        self._store_unseen()

    def finish(self, tail: bytes = b"") -> tuple[Program, Bytes]:
        """The program so far, closed by FINISH and followed by a tail, and its memory image."""
        stream = b"".join(
            Instruction(opcode, {**values, **self._tokens.masks(index)}).encode()
            for index, (opcode, values) in enumerate(self._emitted)
        )
        stream += Instruction(Opcode.FINISH, {}).encode() + tail
        regions, memory_bytes = layout_regions({**self._sizes, "insn": len(stream)})
        program = Program(
            config_hash=self._hw.config_hash,
            instructions=stream,
            regions=regions,
            constants=dict(self._constants),
            memory_bytes=memory_bytes,
        )
        image = program.image()
        for name, data in self._tensors.items():
            program.write(image, name, data)
        return program, image

    @property
    def _vector_cycles(self) -> int:
        """Cycles a tile of the vector unit."""
        return self._hw.batch * self._hw.block_out // self._hw.vector_lanes

    def _bank_mask(self, acc: footprint.Index) -> int:
        """Banks of these tiles, now and then with others that are not used."""
        per_bank = self._hw.acc_depth // self._hw.acc_banks
        mask = 0
        for bank in set((acc // per_bank).tolist()):
            mask |= 1 << bank
        if self._rng.random() < 0.2:
            mask |= int(self._rng.integers(1 << self._hw.acc_banks))
        return mask

    def _result_offset(self, tiles: int) -> int:
        region = self._regions["result"]
        nbytes = self._pads[Memory.OUT].size.tile_bytes
        align = min(nbytes, self._hw.axi_bytes)
        free = (region.nbytes - nbytes * tiles) // align
        return region.offset + int(self._rng.integers(free + 1)) * align
