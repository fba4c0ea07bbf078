# SPDX-License-Identifier: Apache-2.0
"""What instructions compute: the part of docs/reference/instructions.md that no layout has.

The page alone must suffice to write a model of the accelerator; a test does
(tests/unit/host/machine/test_instruction_text.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.host.machine import isa
from tilewright.host.machine.hwconfig import PARAM_BYTES_PER_CHANNEL, UOP_BYTES
from tilewright.host.machine.log_tables import EXP2, LOG2, LogTable

_COLUMNS = 8


def conventions() -> list[str]:
    """Numbers, tiles, order and errors: what holds for every instruction."""
    return f"""\
This page says all that a program computes, and how it fails. Cycles are not part of it.

An instruction has {isa.INSTRUCTION_BITS} bits and is little-endian: bit n is bit n mod 8 of byte n div 8. Instruction
k lies at byte MEM_BASE + INSN_BASE + {isa.INSTRUCTION_BITS // 8} k. A field is without a sign (u) or in two's
complement (s). Bits that no field has are ignored. `batch`, `block_in`, `block_out` and other names of the
[configuration](configuration.md) are its parameters. B is `axi_data_bits` / 8, the bytes of a beat of
the bus. All integers are in two's complement; `x div y` rounds down, `x mod y` is not negative.

## Scratchpads

A scratchpad has as many tiles as fit its parameter, from number 0 on.

| scratchpad | parameter | a tile | its bytes |
|---|---|---|---|
| INP | `inp_bytes` | `batch` x `block_in` int8 | row b, channel i at b * `block_in` + i |
| WGT | `wgt_bytes` | `block_out` x `block_in` int8 | output o, input i at o * `block_in` + i |
| ACC | `acc_bytes` | `batch` x `block_out` int32 | row b, channel o at 4 * (b * `block_out` + o), lowest byte first |
| UOP | `uop_bytes` | a micro-op, {UOP_BYTES} bytes | as in the table of the micro-op, lowest byte first |
| PARAM | `param_bytes` | `block_out` channels | channel o at {PARAM_BYTES_PER_CHANNEL} o, as in the table of the PARAM channel |
| RES, OUT | `res_bytes`, `out_bytes` | `batch` x `block_out` int8 | row b, channel o at b * `block_out` + o |
| TABLE | {isa.TABLE_ENTRIES // isa.TABLE_ROW_ENTRIES} tiles if `activation_table` is 1, else none | a beat of the bus | tile r has the entries {isa.TABLE_ROW_ENTRIES} r to {isa.TABLE_ROW_ENTRIES} r + {isa.TABLE_ROW_ENTRIES - 1}, int8, in its first bytes; the rest is not read |

ACC is divided into K = min(`acc_bank_count`, its tiles) banks of equal size: tile t lies in bank t div (tiles / K). The
contents of a scratchpad stay from program to program. After a hardware reset they are unknown.

## Order

Instructions go to four units in the order of the program: LOAD, GEMM, VECTOR and STORE. Each unit
executes its own in their order; the units work at the same time. Each ordered pair of different units
has a counter of tokens, 0 at the start. Before an instruction starts, it takes one token from the
counter of each unit in `pop` to its own unit, and waits while there is none. When its last effect is
visible, it adds one token to the counter from its unit to each unit in `push`. Bit 0 of `pop` and
`push` is LOAD, bit 1 GEMM, bit 2 VECTOR, bit 3 STORE.

A program has one meaning if tokens order every two accesses of different units to the same tile or
byte of which one writes; all tiles of TABLE count as one, and so do the bytes of the program itself,
which are read ahead. Then a model may execute instructions one by one in the order of the program, if
each token is pushed before it is popped in that order. Banks that two instructions both name in
`acc_banks` keep them from running at the same time, in whichever order they become ready: they order
nothing. FINISH takes and adds no tokens. It ends the program when all units are idle and all writes
are acknowledged.

## Errors

The first error of a run ends it. What is said here is the code that STATUS and ERROR show
([registers](registers.md)). Effects of an instruction that fails, and of those behind it, are unspecified.

| code | cause |
|---|---|
| ILLEGAL_OPCODE | `opcode` is none of those below |
| ILLEGAL_FIELD | the bit of its own unit in `pop` or `push`; what each instruction below calls illegal |
| SRAM_RANGE | a tile at or beyond the end of its scratchpad |
| DRAM_ALIGNMENT | `dram_offset` of a LOAD or STORE that moves data is no multiple of min(T, B) |
| DRAM_RANGE | a byte at or beyond MEM_SIZE |
| ACC_BANK | an access to a tile of ACC whose bank is not in `acc_banks`; of LOAD, GEMM and VECTOR |
| TOKEN_OVERFLOW | a counter of tokens beyond {2**16 - 1} |
| NO_FINISH | INSN_COUNT instructions without FINISH |
""".splitlines()


def _formula(text: str) -> list[str]:
    return ["```text", *text.strip("\n").splitlines(), "```", ""]


def load() -> list[str]:
    """What LOAD computes."""
    return [
        *"""\
LOAD fills successive tiles from `sram_base` on. The *region* has `z_size` planes of `pad_top` + `y_size` +
`pad_bottom` rows of `pad_left` + `x_size` + `pad_right` tiles. Tile n of the region, in the order
of planes, rows and columns, goes to tile `sram_base` + n. A tile outside of the pads comes from DRAM:
""".splitlines(),
        "",
        *_formula("""
tile (z, y, x), z < z_size, y < y_size, x < x_size:
    n      = (z * rows + pad_top + y) * columns + pad_left + x
             with rows = pad_top + y_size + pad_bottom, columns = pad_left + x_size + pad_right
    source = MEM_BASE + dram_offset + T * (z * z_stride + y * y_stride + x)
"""),
        *"""\
T is the bytes of a tile in DRAM: those of the table above, or fewer with `diagonal` or `int4`. Every byte of a
tile of the pads is `pad_value`; in ACC, RES, UOP and TABLE, too. `x_size` or `y_size` may be 0: then
there is only padding, and `dram_offset` does not count. Illegal are: `memory` OUT, or TABLE without one; `z_size` 0 or a region
without tiles; padding of PARAM; `diagonal` or `int4` of another memory than WGT, both at once, and
`int4` if `int4_weights` is 0.

**`diagonal`**: T = D = min(`block_in`, `block_out`). Row j of DRAM data, counted over all planes without
those of pads, has k = (`phase` + j) mod (max(`block_in`, `block_out`) / D). Its tiles get byte e, e < D, at

- output k D + e, input e, if `block_out` > `block_in`;
- output e, input k D + e, otherwise;

and 0 everywhere else.

**`int4`**: the tile in DRAM has N = `block_out` * `block_in` / 2 bytes of weights. Byte b of them has weights
2 b (bits 3:0) and 2 b + 1 (bits 7:4) of the tile, each from -8 to 7 in two's complement. If
`int4_weights` is 1, T = N. If it is 2, each B bytes of weights, a beat, are a *group* with a scale s from
1 to 16, and LOAD stores s times each weight. Before each 2 B groups, or before all if there are fewer,
lies a beat of scales: bits 3:0 of its first byte are s - 1 of the first group, bits 7:4 that of the second,
and so on. T = N + max(B, N / (2 B)).
""".splitlines(),
        "",
    ]


def gemm() -> list[str]:
    """What GEMM computes."""
    return [
        "For o from 0 to `iter_outer` - 1, in it i from 0 to `iter_inner` - 1, in it each micro-op u from",
        "`uop_begin` to `uop_begin` + `uop_count` - 1, in this order:",
        "",
        *_formula("""
a = acc_base + u.acc + o * acc_outer + i * acc_inner     (p of INP and w of WGT alike)
for each row b and output c:
    start     = 0 if overwrite and u.first else ACC[a][b][c]
    ACC[a][b][c] = start + sum over k of INP[p][b][k] * WGT[w][c][k]        modulo 2^32
"""),
        "Products are those of signed 8-bit numbers. Illegal are 0 in `uop_count`, `iter_outer` and",
        "`iter_inner`.",
        "",
    ]


def vector() -> list[str]:
    """What VECTOR computes."""
    return [
        "For o from 0 to `iter_outer` - 1 and in it i from 0 to `iter_inner` - 1, in this order, for each",
        "row b and channel c of a tile, with x = ACC[src][b][c]:",
        "",
        *_formula("""
src = src_base + o * src_outer + i * src_inner           (dst and opd alike)
y   = RES[opd][b][c] if operand is RES, else imm         both signed
ACC[dst][b][c] = op(x, y)                                all but REQUANT
"""),
        "An iteration reads what earlier ones of the same instruction wrote. MOV does not read ACC.",
        "`sat` cuts a number to int32, -2^31 to 2^31 - 1. `low18(v)` is the number of 18 bits in two's",
        f"complement that the lowest {isa.HELD_BITS} bits of v are.",
        "",
        "| op | result |",
        "|---|---|",
        "| MIN, MAX | the lesser, the greater one of x and y |",
        "| ADD, SUB | sat(x + y), sat(x - y) |",
        "| SHR | x div 2^s with s = 0 if y < 0, 31 if y > 31, else y |",
        "| MUL | sat(x * low18(y)) |",
        "| MOV | y |",
        "| SQUARE | sat(x * low18(x)) |",
        "| EXP2 | exp2(x), see [below](#exp2-and-log2) |",
        "",
        "SUB, SQUARE and EXP2, and the fields `hold`, `reduce` and `lanes`, need `row_unit` 1; without it",
        "they are illegal. Illegal are also: 0 in `iter_outer` and `iter_inner`; an `op` that does not exist;",
        "`hold`, `reduce` or `lanes` of REQUANT; `hold` with `operand` RES; `lanes` without `reduce`; `lookup` of",
        "another operation than REQUANT, or without TABLE; a REQUANT whose minimum is above its maximum.",
        "",
        "**`hold`**: y = ACC[`opd_base` + o * `opd_outer`][b][c], read once before each inner loop.",
        "`opd_inner` does not count.",
        "",
        "**`reduce`**: results are not written. For each o and row b, all results r of the inner loop and of",
        "all channels become one number, which is written to every channel of the row. If `lanes` is not",
        "0, the last tile of the inner loop counts its channels from 0 to `lanes` - 1 alone (all, if there are fewer).",
        "`dst_inner` does not count.",
        "",
        *_formula("""
ACC[dst_base + o * dst_outer][b][c] =
    MAX:     the greatest r
    SUM:     sat(S)         S = sum of all r modulo 2^48, from -2^47 to 2^47 - 1
    LOG_SUM: log2(S)        of the same S
"""),
        "An instruction that reads a tile to which it has reduced a row is unspecified.",
        "",
        "**REQUANT** writes OUT, int8. With p = channel c of PARAM tile `param_base` + (o if `param_step`,",
        "else 0), and y = RES[opd][b][c] if `operand` is RES, else 0:",
        "",
        *_formula(f"""
total    = (x + p.bias) * p.m1 + y * p.m2 * 2^{isa.RESIDUAL_SHIFT}        exact; bias, m1, m2 and y are signed
rounded  = total / 2^p.shift to the nearest integer, a half to the even one
q        = min(max(rounded + p.zero_point, imm[7:0]), imm[15:8])      zero_point and both bounds are int8
OUT[dst][b][c] = TABLE entry (q mod 256) if lookup, else q
"""),
        f"There is one rounding, of the whole sum. A `shift` above {isa.MAX_SHIFT} is unspecified.",
        "",
    ]


def store() -> list[str]:
    """What STORE computes."""
    return [
        "STORE walks as LOAD does, without pads: tile (z, y, x) is OUT tile `sram_base` +",
        "(z * `y_size` + y) * `x_size` + x, and goes to the bytes from MEM_BASE + `dram_offset` +",
        "T * (z * `z_stride` + y * `y_stride` + x) on, T = `batch` * `block_out`. Later tiles go over earlier",
        "ones. Illegal are 0 in `x_size`, `y_size` and `z_size`.",
        "",
    ]


def powers() -> list[str]:
    """EXP2 and LOG2 to the bit, with their tables."""
    return [
        "Both add two entries of tables. EXP2 is about 2^(x / 2^16), LOG2 about 2^16 times the binary",
        "logarithm. Tables are read from left to right, row by row.",
        "",
        *_formula(f"""
exp2(x) = 0 if x < 0, else with a = min(x, 31 * 2^16 - 1):
    f = (a mod 2^16) div 2^{16 - EXP2.index_bits}                               {EXP2.index_bits} bits
    e = EXP2_COARSE[f div {1 << EXP2.low}] + EXP2_FINE[(f div {1 << EXP2.middle + EXP2.low}) * {1 << EXP2.low} + f mod {1 << EXP2.low}]
    (e * 2^{31 - EXP2.result_bits}) div 2^(30 - a div 2^16)

log2(s) = 0 if s < 2, else with n = the number of its highest bit that is 1:
    f = ((s - 2^n) * 2^{LOG2.index_bits}) div 2^n                              {LOG2.index_bits} bits
    n * 2^16 + LOG2_COARSE[f div {1 << LOG2.low}] + LOG2_FINE[(f div {1 << LOG2.middle + LOG2.low}) * {1 << LOG2.low} + f mod {1 << LOG2.low}]
"""),
        *_entries(EXP2),
        *_entries(LOG2),
    ]


def _entries(table: LogTable) -> Iterable[str]:
    for kind, entries in (("COARSE", table.coarse), ("FINE", table.fine)):
        width = max(len(str(entry)) for entry in entries)
        rows = [entries[i : i + _COLUMNS] for i in range(0, len(entries), _COLUMNS)]
        yield f"`{table.name.upper()}_{kind}`, {len(entries)} entries:"
        yield ""
        yield "```text"
        yield from (" ".join(f"{entry:>{width}}" for entry in row) for row in rows)
        yield "```"
        yield ""
