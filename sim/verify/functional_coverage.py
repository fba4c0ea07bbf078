# SPDX-License-Identifier: Apache-2.0
"""Functional coverage: what a set of runs exercised, as bins of one table (`BINS`).

A bin is static (seen in the instructions of a program that ran to its end), dynamic (seen in
counters or in an error status) or structural (a signal of the RTL rose or fell, seen in the
toggle points of `sim.verify.coverage_points`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np

from tilewright.host.machine import isa
from tilewright.host.machine.hwconfig import UOP_BYTES, HwConfig
from tilewright.host.machine.program import Program
from tilewright.host.machine.registers import UNIT_NAMES, ErrorCode, ErrorUnit, WaitState
from tilewright.host.machine.status import DeviceStatusError
from tilewright.host.runtime.device import Bytes
from tilewright.sim.reference import footprint
from tilewright.sim.verify.coverage_points import Point, Share
from tilewright.sim.verilator.library import AxiResponseCode

_SIDES: Final = ("left", "right", "top", "bottom")
_LOADABLE: Final = tuple(sorted(set(isa.Memory) - {isa.Memory.OUT}))
_PADDED: Final = tuple(memory for memory in _LOADABLE if memory != isa.Memory.PARAM)
_DISTANCES: Final = (1, 2, 3)
_LOOPS: Final = tuple(f"{o}, {i}" for o in ("once", "outer") for i in ("once", "inner"))
_UNITS: Final = tuple(isa.Unit)

_RAISES: Final[Mapping[ErrorUnit, Sequence[ErrorCode]]] = {
    ErrorUnit.LOAD: (
        ErrorCode.ILLEGAL_FIELD, ErrorCode.SRAM_RANGE, ErrorCode.DRAM_RANGE,
        ErrorCode.DRAM_ALIGNMENT, ErrorCode.AXI_READ, ErrorCode.TOKEN_OVERFLOW, ErrorCode.ACC_BANK,
    ),
    ErrorUnit.GEMM: (
        ErrorCode.ILLEGAL_FIELD, ErrorCode.SRAM_RANGE, ErrorCode.TOKEN_OVERFLOW, ErrorCode.ACC_BANK,
    ),
    ErrorUnit.VECTOR: (
        ErrorCode.ILLEGAL_FIELD, ErrorCode.SRAM_RANGE, ErrorCode.TOKEN_OVERFLOW, ErrorCode.ACC_BANK,
    ),
    ErrorUnit.STORE: (
        ErrorCode.ILLEGAL_FIELD, ErrorCode.SRAM_RANGE, ErrorCode.DRAM_RANGE,
        ErrorCode.DRAM_ALIGNMENT, ErrorCode.AXI_WRITE, ErrorCode.TOKEN_OVERFLOW,
    ),
    ErrorUnit.FETCH: (
        ErrorCode.ILLEGAL_OPCODE, ErrorCode.AXI_READ, ErrorCode.NO_FINISH, ErrorCode.SETTINGS,
    ),
    ErrorUnit.WATCHDOG: (ErrorCode.WATCHDOG,),
}  # fmt: skip
"""Every error that each unit can raise."""

_FULL: Final[Mapping[str, tuple[str, str]]] = {
    **{
        f"{name} queue {state}": (r"TOP\.tilewright_top\.u_core", rf"{signal}\[{unit}\]:{edge}")
        for unit, name in enumerate(UNIT_NAMES)
        for state, signal, edge in (
            ("full", "queue_full", "0->1"),
            ("drained", "queue_valid", "1->0"),
        )
    },
    "fetch buffer empty": (r".*u_fetch\.u_beats", "valid_o:1->0"),
    "load instructions in flight full": (r".*u_load", "flight_full:0->1"),
    "load padding waits for data": (r".*u_load", "pads_wait_q:0->1"),
    "store instructions in flight full": (r".*u_store", "flight_full:0->1"),
    "store beats full": (r".*u_store\.u_beats", "full_o:0->1"),
    "store beats empty": (r".*u_store\.u_beats", "valid_o:1->0"),
    "token overflow": (r".*u_tokens", r"overflow_o\[\d\]:0->1"),
    "read address stalled": (r".*u_read", "free:1->0"),
    "writes outstanding full": (r".*u_store", r"tag_count\[4\]:0->1"),  # where there may be 16
}
"""Structural bins: instance and toggle that show them."""

_OUTSTANDING: Final[Mapping[str, tuple[str, str, str]]] = {
    "reads outstanding full": (
        r"tw_read__(?:.*_)?O([0-9a-f]+)(?:_|$)",
        r".*u_read",
        "in_flight_q",
    ),
}
"""Full when a count reaches the parameter that its module's name carries (a power of two)."""


def _pairs(names: Iterable[str], others: Iterable[str]) -> Iterator[str]:
    rest = tuple(others)
    return (f"{name}: {other}" for name in names for other in rest)


BINS: Final[Mapping[str, tuple[str, ...]]] = {
    "load": (
        *_pairs((m.name for m in _LOADABLE), ("contiguous", "strided", "planes")),
        *_pairs((m.name for m in _PADDED), (*_SIDES, "all sides", "padding only")),
        "repeated row",
        "overlapping rows",
        "offset inside a beat",
        *_pairs(
            ("diagonal",),
            ("contiguous", "strided", "padded", "inside a beat", "beats", "one block",
             "blocks below each other", "blocks side by side", "back to the first block"),
        ),
        *_pairs(("int4",), ("contiguous", "strided", "padded")),
    ),
    "store": ("one tile", "row", "rows", "planes", "strided", "overlapping rows",
              "offset inside a beat"),
    "gemm": (
        *_pairs(("overwrite", "accumulate"), ("no first", "some first", "all first")),
        *_pairs(_LOOPS, ("one micro-op", "micro-ops")),
        *(f"same accumulator at distance {n}" for n in _DISTANCES),
        "same accumulator across instructions",
    ),
    "vector": (
        *_pairs((op.name for op in isa.VectorOp), (operand.name for operand in isa.Operand)),
        *(f"{op.name}: {loop}" for op in isa.VectorOp for loop in _LOOPS),
        *(f"reads what was written {n} before" for n in _DISTANCES),
        "reads what the last instruction wrote last",
        "in place",
        "PARAM advances",
        "PARAM stays in a loop",
        "clip of full range",
        "clip of ReLU",
        "clip of another range",
        *_pairs(
            (f"reduce: {kind.name}" for kind in isa.Reduce if kind),
            ("one tile", "tiles", "some channels", "operand in ACC"),
        ),
        "operand in ACC",
        "look-up: none",
        "look-up: of every result",
        "look-up: after another table",
    ),
    "token": tuple(
        f"{user.name}: {way} {names}"
        for user in _UNITS
        for way in ("pop", "push")
        for names in ("none", "several", *(u.name for u in _UNITS if u != user))
    ),
    "hazard": (
        *(
            f"{first.name} then {second.name} in the same ACC bank"
            for first in (isa.Unit.LOAD, isa.Unit.GEMM, isa.Unit.VECTOR)
            for second in (isa.Unit.LOAD, isa.Unit.GEMM, isa.Unit.VECTOR)
            if first != second
        ),
        *(f"{m.name}: padding over loaded data" for m in _PADDED),
        *(f"{m.name}: data over padding" for m in _PADDED),
        "LOAD of what a STORE wrote",
    ),
    "stall": tuple(
        f"{name}: {state}"
        for name in UNIT_NAMES
        for state in ("busy", *(f"token_{u}" for u in UNIT_NAMES if u != name), "memory", "idle")
    ),
    "wait state at an error": tuple(
        f"{name}: {state.name}"
        for name in UNIT_NAMES
        for state in WaitState
        if state.name != f"TOKEN_{name.upper()}"
    ),
    "error": tuple(
        f"{unit.name}: {code.name}" for unit, codes in _RAISES.items() for code in codes
    ),
    "bus response": tuple(
        f"{unit}: {response.name}" for unit in ("FETCH", "LOAD", "STORE")
        for response in AxiResponseCode
    ),
    "soft reset": tuple(f"{name} in the middle of its work" for name in UNIT_NAMES),
    "full and empty": (*_FULL, *_OUTSTANDING),
}  # fmt: skip
"""Every bin, by group."""


@dataclass
class FunctionalCoverage:
    """Collects hits; an observer of `sim.verify.coverage_campaign`."""

    hits: dict[tuple[str, str], int] = field(default_factory=dict)

    def hit(self, group: str, name: str) -> None:
        """Count a bin."""
        if name not in BINS[group]:
            raise KeyError(f"{group}: {name}")
        self.hits[group, name] = self.hits.get((group, name), 0) + 1

    def share(self, group: str) -> Share:
        """Bins hit in a group."""
        names = BINS[group]
        return Share(hit=sum((group, name) in self.hits for name in names), total=len(names))

    def misses(self) -> list[tuple[str, str]]:
        """Bins (group, name) that nothing hit, in table order."""
        return [
            (group, name)
            for group, names in BINS.items()
            for name in names
            if (group, name) not in self.hits
        ]

    # -- dynamic ------------------------------------------------------------------------------

    def counters(self, counters: Mapping[str, int]) -> None:
        """States that a unit was in, from the counters of a run."""
        for name in BINS["stall"]:
            if counters[name.replace(": ", "_")]:
                self.hit("stall", name)

    def status(self, error: DeviceStatusError, response: AxiResponseCode | None) -> None:
        """An error status, and the bus response that caused it, if one did."""
        self.hit("error", f"{error.unit.name}: {error.code.name}")
        for name, state in zip(UNIT_NAMES, error.wait_states, strict=False):
            self.hit("wait state at an error", f"{name}: {state.name}")
        if response is not None:
            self.hit("bus response", f"{error.unit.name}: {response.name}")

    def reset(self, counters: Mapping[str, int], planned: Mapping[str, int]) -> None:
        """A soft reset: a unit is interrupted when it worked and has instructions left."""
        for name in UNIT_NAMES:
            if counters[f"{name}_busy"] and counters[f"{name}_instructions"] < planned[name]:
                self.hit("soft reset", f"{name} in the middle of its work")

    # -- structural ---------------------------------------------------------------------------

    def points(self, points: Iterable[Point]) -> None:
        """Signals that rose or fell."""
        for point in points:
            if point.kind != "toggle" or not point.count:
                continue
            for name, (instance, toggle) in _FULL.items():
                if re.fullmatch(toggle, point.what) and re.fullmatch(instance, point.instance):
                    self.hit("full and empty", name)
            for name, (page, instance, signal) in _OUTSTANDING.items():
                limit = re.match(page, point.page)
                if limit is None or not re.fullmatch(instance, point.instance):
                    continue
                most = int(limit[1], 16)  # Verilator writes parameters in hexadecimal
                bit = most.bit_length() - 1
                if most == 1 << bit and point.what == f"{signal}[{bit}]:0->1":
                    self.hit("full and empty", name)

    # -- static -------------------------------------------------------------------------------

    def program(self, hw: HwConfig, program: Program, memory: Bytes) -> None:
        """Instructions of a program and their neighbours."""
        stream = list(map(isa.Instruction.decode, program.executed()))
        state = _State(hw=hw, memory=memory)
        for instruction in stream:
            self._tokens(instruction)
            for group, name in state.features(instruction):
                self.hit(group, name)
        self._banks(stream)

    def _tokens(self, instruction: isa.Instruction) -> None:
        unit = isa.UNIT_OF[instruction.opcode]
        for way in ("pop", "push"):
            named = [u.name for u in _UNITS if instruction.values[way] >> u & 1]
            amount = ["none"] if not named else ["several"] if len(named) > 1 else []
            for what in (*named, *amount):
                self.hit("token", f"{unit.name}: {way} {what}")

    def _banks(self, stream: Sequence[isa.Instruction]) -> None:
        users = [i for i in stream if i.values["acc_banks"]]
        for first, second in pairwise(users):
            units = isa.UNIT_OF[first.opcode], isa.UNIT_OF[second.opcode]
            shared = first.values["acc_banks"] & second.values["acc_banks"]
            # Without a token between them only the bank check keeps them apart.
            if units[0] != units[1] and shared:
                names = f"{units[0].name} then {units[1].name}"
                self.hit("hazard", f"{names} in the same ACC bank")


@dataclass(kw_only=True)
class _State:
    """What the features of an instruction depend on: earlier instructions of the program."""

    hw: HwConfig
    memory: Bytes
    uops: Bytes = field(init=False)
    padded: dict[isa.Memory, set[int]] = field(default_factory=dict)
    loaded: dict[isa.Memory, set[int]] = field(default_factory=dict)
    stored: set[int] = field(default_factory=set)
    last_product: int = -1
    last_result: int = -1
    tables: int = 0
    """1: the table was loaded; 2: and used; 3: and changed."""

    def __post_init__(self) -> None:
        self.uops = np.zeros((self.hw.uop_depth, UOP_BYTES), dtype=np.uint8)

    def features(self, instruction: isa.Instruction) -> Iterator[tuple[str, str]]:
        """The bins of one instruction."""
        v = instruction.values
        if instruction.opcode == isa.Opcode.LOAD:
            yield from (("load", name) for name in self._load(v))
            yield from (("hazard", name) for name in self._load_hazards(v))
        elif instruction.opcode == isa.Opcode.STORE:
            yield from (("store", name) for name in self._store(v))
        elif instruction.opcode == isa.Opcode.GEMM:
            yield from (("gemm", name) for name in self._gemm(v))
        else:
            yield from (("vector", name) for name in self._vector(v))

    def _load(self, v: Mapping[str, int]) -> Iterator[str]:
        memory = isa.Memory(v["memory"])
        if memory == isa.Memory.TABLE and self.tables in (0, 2):
            self.tables += 1
        strided = v["y_size"] > 1 and v["y_stride"] != v["x_size"]
        yield f"{memory.name}: {'strided' if strided else 'contiguous'}"
        if v["z_size"] > 1:
            yield f"{memory.name}: planes"
        sides = [side for side in _SIDES if v[f"pad_{side}"]]
        yield from (f"{memory.name}: {side}" for side in sides)
        if len(sides) == len(_SIDES):
            yield f"{memory.name}: all sides"
        if not v["x_size"] or not v["y_size"]:
            yield f"{memory.name}: padding only"
        elif v["dram_offset"] % self.hw.axi_bytes:
            yield "offset inside a beat"
        if v["y_size"] > 1 and v["x_size"]:
            if v["y_stride"] == 0:
                yield "repeated row"
            elif v["y_stride"] < v["x_size"]:
                yield "overlapping rows"
        if v["diagonal"] and v["x_size"] and v["y_size"]:
            yield from (f"diagonal: {name}" for name in self._diagonal(v, strided, bool(sides)))

        if v["int4"] and v["x_size"] and v["y_size"]:
            yield f"int4: {'strided' if strided else 'contiguous'}"
            if sides:
                yield "int4: padded"

    def _diagonal(self, v: Mapping[str, int], strided: bool, padded: bool) -> Iterator[str]:
        yield "strided" if strided else "contiguous"
        if padded:
            yield "padded"
        hw = self.hw
        yield "inside a beat" if footprint.loaded_pad(hw, v).tile_bytes < hw.axi_bytes else "beats"
        if hw.block_in == hw.block_out:
            yield "one block"
            return
        below = hw.block_out > hw.block_in
        yield "blocks below each other" if below else "blocks side by side"
        blocks = max(hw.block_in, hw.block_out) // min(hw.block_in, hw.block_out)
        if v["phase"] % blocks + v["y_size"] * v["z_size"] > blocks:
            yield "back to the first block"

    def _load_hazards(self, v: Mapping[str, int]) -> Iterator[str]:
        memory = isa.Memory(v["memory"])
        pad = footprint.loaded_pad(self.hw, v)
        walk = footprint.transfer(v, pad.tile_bytes)
        data = set(walk.tiles.tolist())
        padding = set(range(walk.first, walk.first + walk.count)) - data
        if padding & self.loaded.get(memory, set()):
            yield f"{memory.name}: padding over loaded data"
        if data & self.padded.get(memory, set()) and memory != isa.Memory.PARAM:
            yield f"{memory.name}: data over padding"
        # Only the LOAD before this one can still be on its way.
        self.loaded[memory], self.padded[memory] = data, padding
        if self.stored.intersection(_lines(walk.dram, pad.tile_bytes)):
            yield "LOAD of what a STORE wrote"
        if memory == isa.Memory.UOP:
            target = np.arange(walk.first, walk.first + walk.count)
            self.uops[target] = v["pad_value"] & 0xFF
            source = walk.dram[:, None] + np.arange(UOP_BYTES)
            self.uops[walk.tiles] = self.memory[source]

    def _store(self, v: Mapping[str, int]) -> Iterator[str]:
        if v["z_size"] > 1:
            yield "planes"
        if v["y_size"] > 1:
            yield "rows"
            if v["y_stride"] > v["x_size"]:
                yield "strided"
            elif v["y_stride"] < v["x_size"]:
                yield "overlapping rows"
        elif v["z_size"] == 1:
            yield "row" if v["x_size"] > 1 else "one tile"
        if v["dram_offset"] % self.hw.axi_bytes:
            yield "offset inside a beat"
        nbytes = self.hw.out_tile_bytes
        self.stored.update(_lines(footprint.transfer(v, nbytes).dram, nbytes))

    def _gemm(self, v: Mapping[str, int]) -> Iterator[str]:
        uops = footprint.Uops.from_bytes(
            self.uops[v["uop_begin"] : v["uop_begin"] + v["uop_count"]]
        )
        firsts = int(np.count_nonzero(uops.first))
        kind = "all" if firsts == v["uop_count"] else "some" if firsts else "no"
        yield f"{'overwrite' if v['overwrite'] else 'accumulate'}: {kind} first"
        yield f"{_loop(v)}: {'micro-ops' if v['uop_count'] > 1 else 'one micro-op'}"
        acc = next(footprint.gemm_blocks(v, uops)).acc
        for distance in _DISTANCES:
            if (acc[distance:] == acc[:-distance]).any():
                yield f"same accumulator at distance {distance}"
        if acc[0] == self.last_product:
            yield "same accumulator across instructions"
        self.last_product = int(acc[-1])

    def _vector(self, v: Mapping[str, int]) -> Iterator[str]:
        op = isa.VectorOp(v["op"])
        yield f"{op.name}: {isa.Operand(v['operand']).name}"
        yield f"{op.name}: {_loop(v)}"
        yield from _rows(v)
        if op == isa.VectorOp.REQUANT:
            yield from _requant(v)
            yield f"look-up: {self._look_up(v)}"
        block = next(footprint.vector_blocks(v))
        if op == isa.VectorOp.REQUANT:
            if block.src[0] == self.last_result:
                yield "reads what the last instruction wrote last"
            self.last_result = -1
            return
        if op != isa.VectorOp.MOV:
            for distance in _DISTANCES:
                if (block.src[distance:] == block.dst[:-distance]).any():
                    yield f"reads what was written {distance} before"
            if block.src[0] == self.last_result:
                yield "reads what the last instruction wrote last"
            if (block.src == block.dst).all():
                yield "in place"
        self.last_result = int(block.dst[-1])

    def _look_up(self, v: Mapping[str, int]) -> str:
        if not v["lookup"]:
            return "none"
        if self.tables == 3:
            return "after another table"
        self.tables = 2
        return "of every result"


def _requant(v: Mapping[str, int]) -> Iterator[str]:
    if v["iter_outer"] > 1:
        yield "PARAM advances" if v["param_step"] else "PARAM stays in a loop"
    ranges = {0x7F80: "full range", 0x7F00: "ReLU"}
    yield f"clip of {ranges.get(v['imm'] & 0xFFFF, 'another range')}"


def _rows(v: Mapping[str, int]) -> Iterator[str]:
    if v["hold"]:
        yield "operand in ACC"
    if v["reduce"]:
        name = f"reduce: {isa.Reduce(v['reduce']).name}"
        yield f"{name}: {'tiles' if v['iter_inner'] > 1 else 'one tile'}"
        if v["lanes"]:
            yield f"{name}: some channels"
        if v["hold"]:
            yield f"{name}: operand in ACC"


def _loop(v: Mapping[str, int]) -> str:
    outer = "outer" if v["iter_outer"] > 1 else "once"
    return f"{outer}, {'inner' if v['iter_inner'] > 1 else 'once'}"


def _lines(dram: footprint.Index, nbytes: int) -> set[int]:
    """Bytes, in steps of 4, that tiles at these offsets take."""
    return set((dram[:, None] + np.arange(0, nbytes, 4)).ravel().tolist())
