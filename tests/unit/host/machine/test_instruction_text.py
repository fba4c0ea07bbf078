# SPDX-License-Identifier: Apache-2.0
"""docs/reference/instructions.md alone suffices: a model written from it agrees with the reference.

Layouts, numbers of names and tables are read out of the page. The rest of the model restates its
formulas, element by element (`support.programs.elements`), and shares no code with the reference.
"""

import re

import numpy as np
from support.programs import elements, loops
from support.programs.elements import signed
from support.randomness import fresh_rng, where

from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.machine.isa import Reduce, VectorOp
from tilewright.host.machine.reference_pages import instructions_page
from tilewright.host.network import row_arithmetic
from tilewright.sim.programs.randprog import random_program
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.verify.randconfig import any_hwconfig

PAGE = instructions_page()


def section(title: str) -> str:
    return re.split(r"^## ", PAGE.split(f"\n## {title}\n", 1)[1], maxsplit=1, flags=re.M)[0]


def layout(title: str) -> dict[str, tuple[int, int, bool]]:
    """Field -> (lowest bit, bits, signed)."""
    found = {}
    for high, low, name, kind in re.findall(
        r"^\| (\d+)(?::(\d+))? \| `(\w+)` \| ([us]) \|", section(title), re.M
    ):
        first = int(low or high)
        found[name] = (first, int(high) - first + 1, kind == "s")
    assert found, title
    return found


def names(title: str) -> dict[int, str]:
    return {int(v): n for v, n in re.findall(r"^\| (\d+) \| (\w+) \|$", section(title), re.M)}


def table(name: str) -> list[int]:
    text = re.search(rf"`{name}`, (\d+) entries:\n\n```text\n(.*?)```", PAGE, re.S)
    assert text is not None, name
    entries = [int(word) for word in text[2].split()]
    assert len(entries) == int(text[1])
    return entries


def fields(title: str, data: bytes) -> dict[str, int]:
    word = int.from_bytes(data, "little")
    found = {}
    for name, (low, bits, has_sign) in LAYOUTS[title].items():
        raw = word >> low & (1 << bits) - 1
        found[name] = signed(raw, bits) if has_sign else raw
    return found


OPCODES, MEMORIES = names("Opcodes"), names("Memories")
OPERATIONS, REDUCTIONS = names("Operations of VECTOR"), names("Reductions of VECTOR")
OPERANDS = names("Operands of VECTOR")
LAYOUTS = {title: layout(title) for title in (*OPCODES.values(), "Micro-op", "PARAM channel")}
EXP2_COARSE, EXP2_FINE = table("EXP2_COARSE"), table("EXP2_FINE")
LOG2_COARSE, LOG2_FINE = table("LOG2_COARSE"), table("LOG2_FINE")


def exp2(x: int) -> int:
    if x < 0:
        return 0
    a = min(x, 31 * 2**16 - 1)
    f = a % 2**16 // 2**6
    e = EXP2_COARSE[f // 16] + EXP2_FINE[f // 128 * 16 + f % 16]
    return e * 2**16 // 2 ** (30 - a // 2**16)


def log2(s: int) -> int:
    if s < 2:
        return 0
    n = s.bit_length() - 1
    f = (s - 2**n) * 2**11 // 2**n
    return n * 2**16 + LOG2_COARSE[f // 16] + LOG2_FINE[f // 128 * 16 + f % 16]


OPERATION = elements.OPERATIONS | {VectorOp.EXP2: lambda x, y: exp2(x)}


class PageModel:
    """The accelerator as the page describes it."""

    def __init__(self, p, memory: np.ndarray) -> None:
        self.p, self.dram = p, bytearray(memory.tobytes())
        rows, ins, outs = p["batch"], p["block_in"], p["block_out"]
        self.beat = p["axi_data_bits"] // 8
        self.used: set[str] = set()
        self.size = {
            "INP": rows * ins, "WGT": outs * ins, "ACC": 4 * rows * outs, "UOP": 8,
            "PARAM": 16 * outs, "RES": rows * outs, "OUT": rows * outs, "TABLE": self.beat,
        }  # fmt: skip
        self.pads = {
            name: bytearray(128 * size if name == "TABLE" else p[f"{name.lower()}_bytes"])
            for name, size in self.size.items()
        }

    def run(self, first: int) -> bytes:
        for at in range(first, len(self.dram), 32):
            data = bytes(self.dram[at : at + 32])
            name = OPCODES[data[0] & 15]
            self.used.add(name)
            if name == "FINISH":
                return bytes(self.dram)
            getattr(self, name.lower())(fields(name, data))
        raise AssertionError("no FINISH")

    # -- tiles ----------------------------------------------------------------------------

    def tile(self, memory: str, number: int) -> bytes:
        size = self.size[memory]
        assert (number + 1) * size <= len(self.pads[memory]), (memory, number)
        return bytes(self.pads[memory][number * size : (number + 1) * size])

    def put(self, memory: str, number: int, data: bytes) -> None:
        size = self.size[memory]
        assert len(data) == size
        assert (number + 1) * size <= len(self.pads[memory])
        self.pads[memory][number * size : (number + 1) * size] = data

    def int8(self, memory: str, number: int, *shape: int) -> np.ndarray:
        return np.frombuffer(self.tile(memory, number), np.int8).reshape(shape).astype(object)

    def acc(self, number: int) -> np.ndarray:
        shape = (self.p["batch"], self.p["block_out"])
        return np.frombuffer(self.tile("ACC", number), "<i4").reshape(shape).astype(object)

    def put_acc(self, number: int, values: np.ndarray) -> None:
        self.put("ACC", number, values.astype("<i4").tobytes())

    # -- instructions ---------------------------------------------------------------------

    def load(self, v) -> None:
        memory = MEMORIES[v["memory"]]
        size, weights = self.size[memory], self.size["WGT"] // 2
        if v["diagonal"]:
            size = min(self.p["block_in"], self.p["block_out"])
        if v["int4"]:
            size = weights
            if self.p["int4_weights"] == 2:
                size += max(self.beat, weights // (2 * self.beat))
        for tile, place, row in loops.tiles(v):
            at = v["dram_offset"] + size * (place or 0)
            data = bytes(self.dram[at : at + size])
            if place is None:
                data = bytes([v["pad_value"] % 256]) * self.size[memory]
            elif v["diagonal"]:
                data = self.diagonal(data, v["phase"] + row)
            elif v["int4"]:
                data = self.int4(data)
            self.put(memory, tile, data)

    def diagonal(self, data: bytes, row: int) -> bytes:
        ins, outs = self.p["block_in"], self.p["block_out"]
        k = row % (max(ins, outs) // len(data))
        whole = np.zeros((outs, ins), np.uint8)
        for e, byte in enumerate(data):
            if outs > ins:
                whole[k * len(data) + e, e] = byte
            else:
                whole[e, k * len(data) + e] = byte
        return whole.tobytes()

    def int4(self, data: bytes) -> bytes:
        scaled = self.p["int4_weights"] == 2
        scales: list[int] = []
        found = []
        beats = [data[i : i + self.beat] for i in range(0, len(data), self.beat)]
        for beat in beats if scaled else [data]:
            if scaled and not scales:
                scales = [1 + (byte >> 4 * half & 15) for byte in beat for half in (0, 1)]
                continue
            scale = scales.pop(0) if scaled else 1
            found += [scale * signed(byte >> 4 * half, 4) for byte in beat for half in (0, 1)]
        return np.array(found, np.int8).tobytes()

    def gemm(self, v) -> None:
        p = self.p
        numbers = range(v["uop_begin"], v["uop_begin"] + v["uop_count"])
        uops = [fields("Micro-op", self.tile("UOP", number)) for number in numbers]
        for acc, inp, wgt, fresh in loops.products(v, uops):
            pixels = self.int8("INP", inp, p["batch"], p["block_in"])
            weights = self.int8("WGT", wgt, p["block_out"], p["block_in"])
            total = self.acc(acc) * (not fresh) + pixels.dot(weights.T)
            self.put_acc(acc, np.vectorize(lambda t: signed(t, 32))(total))

    def vector(self, v) -> None:
        p, op = self.p, OPERATIONS[v["op"]]
        shape = (p["batch"], p["block_out"])
        reduction = REDUCTIONS[v["reduce"]]
        for o in range(v["iter_outer"]):
            held = self.acc(v["opd_base"] + o * v["opd_outer"]) if v["hold"] else None
            rows: list[list[int]] = [[] for _ in range(p["batch"])]
            for i in range(v["iter_inner"]):
                src, dst, opd = loops.places(v, ("src", "dst", "opd"), o, i)
                x = np.zeros(shape, object) if op == "MOV" else self.acc(src)
                y = np.full(shape, v["imm"], object)
                if OPERANDS[v["operand"]] == "RES":
                    y = self.int8("RES", opd, *shape)
                elif op == "REQUANT":
                    y = np.zeros(shape, object)
                if held is not None:
                    y = held
                if op == "REQUANT":
                    number = v["param_base"] + (o if v["param_step"] else 0)
                    self.put("OUT", dst, self.requantised(v, x, y, number))
                    continue
                result = np.empty(shape, object)
                for place in np.ndindex(shape):
                    result[place] = OPERATION[VectorOp[op]](int(x[place]), int(y[place]))
                if reduction == "NONE":
                    self.put_acc(dst, result)
                    continue
                last = i == v["iter_inner"] - 1
                for b, row in enumerate(result):
                    rows[b] += list(row[: v["lanes"]] if last and v["lanes"] else row)
            if reduction != "NONE":
                left = [self.reduced(reduction, row) for row in rows]
                self.put_acc(
                    v["dst_base"] + o * v["dst_outer"],
                    np.array([[value] * shape[1] for value in left], object),
                )

    @staticmethod
    def reduced(reduction: str, row: list[int]) -> int:
        if reduction == "LOG_SUM":
            return log2(signed(sum(row), 48))
        return elements.reduced(Reduce[reduction], row)

    def requantised(self, v, x, y, number: int) -> bytes:
        found = bytearray()
        low, high = signed(v["imm"], 8), signed(v["imm"] >> 8, 8)
        tile = self.tile("PARAM", number)
        for b, c in np.ndindex(x.shape):
            p = fields("PARAM channel", tile[16 * c : 16 * c + 16])
            q = elements.requantised(int(x[b, c]), int(y[b, c]), p, low, high) % 256
            found.append(self.tile("TABLE", q // 2)[q % 2] if v["lookup"] else q)
        return bytes(found)

    def store(self, v) -> None:
        size = self.size["OUT"]
        for tile, place, _ in loops.tiles(v):
            at = v["dram_offset"] + size * place
            self.dram[at : at + size] = self.tile("OUT", tile)


TINY = load_hwconfig("tiny-4x4")
CONFIGS = [
    TINY,
    TINY.with_(name="tall", batch=2, block_out=8, vector_lanes=4, row_unit=1, int4_weights=1),
    TINY.with_(name="wide", block_in=8, activation_table=1, row_unit=1),
    TINY.with_(name="scaled", block_in=8, block_out=16, axi_data_bits=32, int4_weights=2),
]


def test_a_model_of_the_page_computes_what_the_reference_does():
    rng = fresh_rng()
    used = set()
    for hw in (*2 * CONFIGS, *(any_hwconfig(rng) for _ in range(30))):
        program, memory = random_program(hw, rng, instructions=30)
        model = PageModel(hw.parameters(), memory)
        found = model.run(program.regions["insn"].offset)
        used |= model.used
        expected = ReferenceDevice(hw).run(program, memory).memory
        wrong = np.flatnonzero(np.frombuffer(found, np.uint8) != expected)
        assert not wrong.size, where(hw=hw.parameters(), bytes=wrong[:10].tolist())
    assert used == set(OPCODES.values())


def test_exp2_and_log2_of_the_page_are_those_of_the_device():
    rng = fresh_rng()
    near = [v + d for v in (0, 1 << 16, 31 << 16, 1 << 31) for d in range(-3, 3)]
    given = [v for v in near if -(2**31) <= v < 2**31]
    given += rng.integers(-(2**16), 32 << 16, 3000).tolist()
    assert [exp2(v) for v in given] == row_arithmetic.exp2(given).tolist()
    sums = [*range(70), *(2**n + d for n in range(2, 48) for d in (-1, 0, 1))]
    sums = [v for v in sums if v < 2**47]
    sums += [-5, *(int(v) >> int(s) for v, s in rng.integers(0, [2**47, 47], (3000, 2)))]
    assert [log2(v) for v in sums] == row_arithmetic.log2(sums).tolist()
