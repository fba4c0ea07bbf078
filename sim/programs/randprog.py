# SPDX-License-Identifier: Apache-2.0
"""Constrained-random programs: legal, race-free, observable, for any `HwConfig`.

A program uses every kind of instruction on few tiles that lie around *anchors* (the first and
last tiles of a scratchpad, bank boundaries, random places), so that hazards are frequent and
range checks are met at their edges. What it computes becomes visible in DRAM: at the end ACC
tiles are requantised with several shifts and stored. Runs are short on RTL: the work of an
instruction is bounded in cycles, not in tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from tilewright.host.machine import hwconfig
from tilewright.host.machine.isa import (
    Memory,
    Opcode,
    Operand,
    Reduce,
    VectorOp,
)
from tilewright.host.machine.program import Program
from tilewright.host.runtime.device import Bytes
from tilewright.sim.programs.randdata import pick
from tilewright.sim.programs.randwriter import CYCLES, Bools, Pad, ProgramWriter
from tilewright.sim.reference import footprint

_GEMM_PRODUCTS: Final = 160
_ATTEMPTS: Final = 40
_LONGEST_TAIL: Final = 80
"""More instructions than the prefetch holds."""


def random_program(
    hw: hwconfig.HwConfig, rng: np.random.Generator, *, instructions: int = 40, tail: bool = True
) -> tuple[Program, Bytes]:
    """A random legal, race-free program and its memory image.

    Returns:
        The program and a uint8 image of ``program.memory_bytes`` with random data.
    """
    generator = _Generator(hw, rng)
    for _ in range(instructions):
        generator.step()
    generator.observe()
    return generator.finish(random_tail(rng.spawn(1)[0]) if tail else b"")


def random_tail(rng: np.random.Generator) -> bytes:
    """Instructions to follow FINISH, which a device may fetch and never runs."""
    if rng.random() < 0.25:
        return b""
    words = rng.bytes(hwconfig.INSTRUCTION_BYTES * int(rng.integers(1, _LONGEST_TAIL)))
    tail = np.frombuffer(words, dtype=np.uint8).copy().reshape(-1, hwconfig.INSTRUCTION_BYTES)
    known = rng.random(len(tail)) < 0.7
    opcodes = rng.integers(min(Opcode), max(Opcode) + 1, len(tail), dtype=np.uint8)
    tail[known, 0] = tail[known, 0] & 0xF0 | opcodes[known]
    return tail.tobytes()


class _Generator(ProgramWriter):
    """Chooses instructions one after another."""

    def step(self) -> None:
        """Emit one random instruction, preceded by what it needs."""
        actions: tuple[Callable[[], None], ...] = (
            self._random_load,
            self._random_gemm,
            self._random_alu,
            self._random_requant,
            self._random_store,
        )
        self._rng.choice(np.array(actions), p=[0.22, 0.28, 0.2, 0.16, 0.14])()

    def _random_load(self) -> None:
        memories = sorted(footprint.loadable(self._hw))
        self._load_some(memories[int(self._rng.integers(len(memories)))])

    def _load_some(self, memory: Memory) -> None:
        """Load a random region with random strides and padding."""
        rng, pad = self._rng, self._pads[memory]
        beats = max(1, pad.size.tile_bytes // self._hw.axi_bytes)
        room = min(self._regions[name].nbytes for name in self._origins(memory))
        limit = max(2, min(40, CYCLES // beats, room // pad.size.tile_bytes // 2))
        limit = min(limit, pad.size.depth)
        v = self._random_shape(limit)
        padded = memory != Memory.PARAM  # padding of PARAM is illegal
        for name in ("pad_left", "pad_right", "pad_top", "pad_bottom"):
            v[name] = int(rng.integers(4)) if padded and rng.random() < 0.25 else 0
        if padded and rng.random() < 0.12:
            v[pick(rng, ("x_size", "y_size"))] = 0
        elif padded and rng.random() < 0.08:
            v = {"x_size": 1, "y_size": 1, "z_size": 1}
            v |= dict.fromkeys(("pad_left", "pad_right", "pad_top", "pad_bottom"), 1)
        rows = v["pad_top"] + v["y_size"] + v["pad_bottom"]
        columns = v["pad_left"] + v["x_size"] + v["pad_right"]
        count = v["z_size"] * rows * columns
        if not 0 < count <= limit:
            v |= {"x_size": 1, "y_size": 1, "z_size": 1}
            v |= dict.fromkeys(("pad_left", "pad_right", "pad_top", "pad_bottom"), 0)
            count = 1
        # Micro-ops made of any other byte than 0 would lie outside every scratchpad.
        v["pad_value"] = 0 if memory == Memory.UOP else int(rng.integers(-128, 128))
        if memory == Memory.WGT and rng.random() < 0.4:
            v |= {"diagonal": 1, "phase": int(rng.integers(16))}
        elif memory == Memory.WGT and self._hw.int4_weights and rng.random() < 0.5:
            v["int4"] = 1
        base = self._place(pad, count)
        self._emit_load(memory, sram_base=base, **self._source(memory, v), **v)

    def _random_shape(self, limit: int) -> dict[str, int]:
        x = int(self._rng.integers(1, min(limit, 24) + 1))
        y = int(self._rng.integers(1, min(max(1, limit // x), 6) + 1))
        z = int(self._rng.integers(1, min(max(1, limit // (x * y)), 3) + 1))
        return {"x_size": x, "y_size": y, "z_size": z}

    def _source(self, memory: Memory, v: Mapping[str, int]) -> dict[str, int]:
        """Offset and strides so that the walk stays inside the region for this memory."""
        rng = self._rng
        nbytes = footprint.loaded_pad(self._hw, {"memory": memory, **v}).tile_bytes
        align = min(nbytes, self._hw.axi_bytes)
        origins = self._origins(memory)
        name = origins[-1] if self._stored and rng.random() < 0.2 else origins[0]
        region = self._regions[name]
        records = {Memory.UOP: hwconfig.UOP_BYTES, Memory.PARAM: hwconfig.PARAM_BYTES_PER_CHANNEL}
        align = max(align, records.get(memory, 1))
        room = region.nbytes // nbytes - 1
        y_stride, z_stride = self._strides(v, room)
        span = max(0, v["z_size"] - 1) * z_stride + max(0, v["y_size"] - 1) * y_stride + v["x_size"]
        free = (region.nbytes - nbytes * max(1, span)) // align
        offset = int(rng.integers(free + 1)) * align
        if name == "result" and self._stored:
            near = pick(rng, self._stored) - region.offset
            offset = min(near // align, free) * align
        return {
            "dram_offset": region.offset + offset,
            "y_stride": y_stride,
            "z_stride": z_stride,
        }

    def _origins(self, memory: Memory) -> tuple[str, ...]:
        """Regions that may be loaded into a scratchpad: the usual one first."""
        special = {Memory.UOP: ("uop",), Memory.PARAM: ("param",)}
        return special.get(memory, ("data", "result"))

    def _strides(self, v: Mapping[str, int], room: int) -> tuple[int, int]:
        """Row and plane strides of a walk of at most ``room`` tiles; often contiguous."""
        x, y, z = v["x_size"], v["y_size"], v["z_size"]
        row_room = max(0, room - x) // max(1, y * z - 1)
        y_stride = min(row_room, x + pick(self._rng, (0, 0, 0, 1, 3, -1, -x)))
        plane = y * y_stride
        plane_room = max(0, room - x - (y - 1) * y_stride if y else room - x) // max(1, z - 1)
        z_stride = min(plane_room, plane + pick(self._rng, (0, 0, 2, 5)))
        return max(0, y_stride), max(0, z_stride)

    def _random_gemm(self) -> None:
        for memory in (Memory.UOP, Memory.INP, Memory.WGT):
            self._ensure(memory)
        rng = self._rng
        for _ in range(_ATTEMPTS):
            count = int(rng.integers(1, 9))
            begin = self._find(self._pads[Memory.UOP].written, np.arange(count))
            if begin is None:
                continue
            outer, inner = self._loops(max(1, _GEMM_PRODUCTS // count))
            v = {
                "overwrite": int(rng.integers(2)),
                "uop_begin": begin,
                "uop_count": count,
                "iter_outer": outer,
                "iter_inner": inner,
                **dict.fromkeys(("acc_base", "inp_base", "wgt_base"), 0),
                **{
                    f"{name}_{loop}": pick(rng, (0, 1, 1, 1, 2, 5))
                    for name in ("acc", "inp", "wgt")
                    for loop in ("outer", "inner")
                },
            }
            uops = footprint.Uops.from_bytes(self._uops[begin : begin + count])
            block = next(footprint.gemm_blocks(v, uops))
            if self._place_gemm(v, block):
                return
        self._load_some(Memory.UOP)

    def _place_gemm(self, v: dict[str, int], block: footprint.GemmBlock) -> bool:
        """Choose bases so that every operand is written, and emit."""
        acc = self._pads[Memory.ACC]
        tiles, earliest = np.unique(block.acc, return_index=True)
        carried = tiles[~block.fresh[earliest]]
        inp = self._find(self._pads[Memory.INP].written, block.inp)
        wgt = self._find(self._pads[Memory.WGT].written, block.wgt)
        top = int(tiles[-1])
        if top >= acc.size.depth or inp is None or wgt is None:
            return False
        if carried.size:
            base = self._find(acc.written, carried, span=top)
        else:
            base = max(0, self._place(acc, top + 1))
        if base is None:
            if self._rng.random() < 0.3:
                self._load_some(Memory.ACC)
            return False
        v |= {"acc_base": base, "inp_base": inp, "wgt_base": wgt}
        v["acc_banks"] = self._bank_mask(tiles + base)
        uops = np.arange(v["uop_begin"], v["uop_begin"] + v["uop_count"])
        self._emit(
            Opcode.GEMM,
            v,
            {
                Memory.UOP: uops,
                Memory.INP: block.inp + inp,
                Memory.WGT: block.wgt + wgt,
                Memory.ACC: tiles + base,
            },
            {Memory.ACC: tiles + base},
        )
        return True

    def _random_alu(self) -> None:
        self._ensure(Memory.ACC)
        if self._hw.row_unit and self._rng.random() < 0.6:
            self._random_rows()
            return
        op = VectorOp(int(self._rng.integers(6)))
        acc = self._pads[Memory.ACC]
        for _ in range(_ATTEMPTS):
            v = self._random_vector(op)
            pattern = pick(self._rng, ("free", "in place", "chain", "reduce"))
            if pattern in ("in place", "chain"):
                v |= {"dst_outer": v["src_outer"], "dst_inner": v["src_inner"]}
            elif pattern == "reduce":
                v |= {"src_inner": 0, "dst_inner": 0, "dst_outer": v["src_outer"]}
            block = next(footprint.vector_blocks(v))
            src, opd = self._operands(v, block)
            if src is None or opd is None:
                continue
            dst = src + {"free": 0, "chain": v["src_inner"]}.get(pattern, 0)
            if pattern == "free":
                dst = self._place(acc, int(block.dst.max()) + 1)
            if dst + int(block.dst.max()) >= acc.size.depth or dst < 0:
                continue
            self._emit_vector(**v | {"src_base": src, "opd_base": opd, "dst_base": dst})
            return

    def _random_rows(self) -> None:
        """What needs a row unit, most of it on powers that EXP2 takes or sums of them."""
        rng, acc = self._rng, self._pads[Memory.ACC]
        more = (VectorOp.SUB, VectorOp.SQUARE, VectorOp.EXP2)
        for _ in range(_ATTEMPTS):
            v = self._random_vector(VectorOp(pick(rng, (*range(6), *more, *more))))
            v["hold"] = int(rng.random() < 0.5)
            v["reduce"] = int(rng.integers(len(Reduce))) if rng.random() < 0.7 else 0
            if v["reduce"]:
                v["lanes"] = int(rng.integers(min(64, self._hw.block_out + 2)))
            if v["hold"]:
                v["operand"] = int(Operand.IMM)
            block = next(footprint.vector_blocks(v))
            src, opd = self._operands(v, block)
            top = int(block.dst.max())
            if src is None or opd is None or top >= acc.size.depth:
                continue
            dst = self._place(acc, top + 1)
            read = {*(block.src + src).tolist(), *((block.opd + opd).tolist() if v["hold"] else ())}
            if v["reduce"] and read.intersection((block.dst + dst).tolist()):
                continue
            self._emit_vector(**v | {"src_base": src, "opd_base": opd, "dst_base": dst})
            return

    def _random_requant(self) -> None:
        for memory in (Memory.ACC, Memory.PARAM):
            self._ensure(memory)
        rng, out = self._rng, self._pads[Memory.OUT]
        lookup = int(self._hw.activation_table and rng.random() < 0.5)
        if lookup:
            self._fill_table()
        low, high = sorted(rng.integers(-128, 128, 2).tolist())
        if rng.random() < 0.6:
            low, high = (-128, 127) if rng.random() < 0.5 else (0, 127)
        imm = (high & 0xFF) << 8 | (low & 0xFF)
        for _ in range(_ATTEMPTS):
            v = self._random_vector(VectorOp.REQUANT)
            v["imm"] = imm - (1 << 16) if imm >> 15 else imm
            v["param_step"] = int(rng.integers(2))
            v["lookup"] = lookup
            block = next(footprint.vector_blocks(v))
            src, opd = self._operands(v, block)
            param = self._find(self._pads[Memory.PARAM].written, block.param)
            top = int(block.dst.max())
            if src is None or opd is None or param is None or top >= out.size.depth:
                continue
            dst = self._place(out, top + 1)
            bases = {"src_base": src, "opd_base": opd, "dst_base": dst, "param_base": param}
            self._emit_vector(**v | bases)
            return

    def _random_vector(self, op: VectorOp) -> dict[str, int]:
        rng = self._rng
        outer, inner = self._loops(max(2, min(64, CYCLES // self._vector_cycles)))
        operand = int(rng.integers(2))
        if operand == Operand.RES:
            self._ensure(Memory.RES)
        small = op == VectorOp.SHR or rng.random() < 0.5
        imm = int(rng.integers(-3, 34)) if small else int(rng.integers(-(2**15), 2**15))
        return {
            "op": int(op),
            "operand": operand,
            "param_base": 0,
            "param_step": 0,
            "imm": imm,
            "iter_outer": outer,
            "iter_inner": inner,
            **dict.fromkeys(("dst_base", "src_base", "opd_base"), 0),
            **{
                f"{name}_{loop}": pick(rng, (0, 1, 1, 2, 5))
                for name in ("dst", "src", "opd")
                for loop in ("outer", "inner")
            },
        }

    def _operands(
        self, v: Mapping[str, int], block: footprint.VectorBlock
    ) -> tuple[int | None, int | None]:
        """Bases of source and residual; an operand that is not used may lie anywhere in range."""
        src = self._find(self._pads[Memory.ACC].written, block.src)
        if v["operand"] == Operand.RES or v.get("hold"):
            memory = Memory.ACC if v.get("hold") else Memory.RES
            return src, self._find(self._pads[memory].written, block.opd)
        return src, int(self._rng.integers(2**18))

    def _random_store(self) -> None:
        out = self._pads[Memory.OUT]
        if not out.written.any():
            self._random_requant()
        written = np.flatnonzero(out.written)
        if not written.size:
            return
        limit = max(1, min(32, CYCLES * self._hw.axi_bytes // out.size.tile_bytes))
        for _ in range(_ATTEMPTS):
            v = self._random_shape(limit)
            count = v["x_size"] * v["y_size"] * v["z_size"]
            base = self._find(out.written, np.arange(count))
            if base is None:
                continue
            room = self._regions["result"].nbytes // out.size.tile_bytes - 1
            y_stride, z_stride = self._strides(v, room)
            span = (v["z_size"] - 1) * z_stride + (v["y_size"] - 1) * y_stride + v["x_size"]
            offset = self._result_offset(span)
            v |= {"y_stride": y_stride, "z_stride": z_stride}
            self._emit_store(sram_base=base, dram_offset=offset, **v)
            return

    def _ensure(self, memory: Memory) -> None:
        """Load until several tiles of a scratchpad are written."""
        wanted = min(6, self._pads[memory].size.depth // 2)
        for _ in range(_ATTEMPTS):
            if np.count_nonzero(self._pads[memory].written) >= wanted:
                return
            self._load_some(memory)

    def _fill_table(self) -> None:
        """Load the activation table once; single rows of it change with other loads."""
        pad = self._pads[Memory.TABLE]
        if pad.written.all():
            return
        rows = pick(self._rng, (1, 2, 4, 8))
        v = {"x_size": pad.size.depth // rows, "y_size": rows, "z_size": 1}
        self._emit_load(Memory.TABLE, sram_base=0, **self._source(Memory.TABLE, v), **v)

    def _loops(self, limit: int) -> tuple[int, int]:
        """Outer and inner iterations; 1 is frequent."""
        inner = pick(self._rng, (1, 1, 2, 3, 4, 7, 8, 16))
        outer = pick(self._rng, (1, 1, 1, 2, 3, 5))
        inner = min(inner, limit)
        return min(outer, max(1, limit // inner)), inner

    def _find(self, written: Bools, relative: footprint.Index, *, span: int = 0) -> int | None:
        """A random base such that ``base + relative`` is written and ``base + span`` exists."""
        first, *others = set(relative.tolist())
        bases = written.size - max(first, span, *others)
        if bases <= 0:
            return None
        fits = written[first : first + bases].copy()
        for step in others:
            fits &= written[step : step + bases]
        candidates = fits.nonzero()[0]
        return pick(self._rng, candidates.tolist()) if candidates.size else None

    def _place(self, pad: Pad, count: int) -> int:
        """First tile of a range of ``count`` tiles near an anchor."""
        anchor = pick(self._rng, pad.anchors) + int(self._rng.integers(-6, 7))
        return min(max(0, anchor), pad.size.depth - count)
