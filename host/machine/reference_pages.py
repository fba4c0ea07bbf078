# SPDX-License-Identifier: Apache-2.0
"""Pages of docs/reference/ that are generated: configuration, instructions, registers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from tilewright.host.common.generated_files import GENERATED_NOTE
from tilewright.host.machine import (
    hwconfig,
    instruction_text,
    isa,
    registers,
)
from tilewright.host.machine.status import REMEDIES


def configuration_page() -> str:
    """Parameters of a configuration and the rules between them."""
    spanning = [r for r in hwconfig.RULES if not r.name.endswith(("_range", "_power_of_two"))]
    return _page(
        "Configuration",
        "A configuration is a YAML file with these keys, or one of the named files in",
        "`constraints/configs/`. The reader of the file and the elaboration of the RTL refuse an",
        "illegal value with the same rule and text.",
        "",
        "## Parameters",
        "",
        *_table(
            ("key", "RTL parameter", "range", "power of two", "unit", "meaning"),
            (
                (
                    f"`{p.name}`",
                    f"`{p.rtl_name}`",
                    f"{p.low} to {p.high}",
                    "yes" if p.power_of_two else "no",
                    p.unit,
                    p.meaning,
                )
                for p in hwconfig.PARAMETERS
            ),
        ),
        "## Rules between parameters",
        "",
        "A message names the key in the second column.",
        "",
        *_table(
            ("must hold", "key", "message", "remedy"),
            ((f"`{r.expression}`", f"`{r.field}`", r.text, r.remedy) for r in spanning),
        ),
    )


def instructions_page() -> str:
    """Layout and meaning of every instruction, of micro-operations and of PARAM tiles."""
    lines = [*instruction_text.conventions(), ""]
    for title, enum in (
        ("Opcodes", isa.Opcode),
        ("Memories", isa.Memory),
        ("Operands of VECTOR", isa.Operand),
        ("Operations of VECTOR", isa.VectorOp),
        ("Reductions of VECTOR", isa.Reduce),
    ):
        lines += [f"## {title}", ""]
        lines += _table(("value", "name"), ((m.value, m.name) for m in enum))
    meanings = {
        isa.Opcode.LOAD: instruction_text.load,
        isa.Opcode.GEMM: instruction_text.gemm,
        isa.Opcode.VECTOR: instruction_text.vector,
        isa.Opcode.STORE: instruction_text.store,
        isa.Opcode.FINISH: list,
    }
    layouts = [(op.name, isa.FORMATS[op], isa.INSTRUCTION_BITS, meanings[op]) for op in isa.Opcode]
    layouts += [
        ("Micro-op", isa.UOP_FIELDS, 8 * hwconfig.UOP_BYTES, list),
        ("PARAM channel", isa.PARAM_FIELDS, 8 * hwconfig.PARAM_BYTES_PER_CHANNEL, list),
    ]
    for title, layout, total, meaning in layouts:
        lines += [f"## {title}", "", *meaning()]
        lines += [f"It uses {isa.layout_bits(layout)} of {total} bits:", ""]
        lines += _table(("bits", "field", "type", "meaning"), _fields(layout))
    return _page("Instructions", *lines, "## EXP2 and LOG2", "", *instruction_text.powers())


def registers_page() -> str:
    """Registers, counters and error codes."""
    return _page(
        "Registers, counters, error codes",
        "## Registers (AXI4-Lite, 32 bits)",
        "",
        *_table(
            ("offset", "name", "access", "meaning"),
            ((f"0x{r.offset:03x}", r.name, r.access, r.meaning) for r in registers.REGISTERS),
        ),
        "## Counters (64 bits, low word first)",
        "",
        *_table(
            ("offset", "name", "meaning"),
            (
                (f"0x{registers.COUNTER_BASE + 8 * i:03x}", f"`{name}`", meaning)
                for i, (name, meaning) in enumerate(registers.COUNTERS)
            ),
        ),
        "## Error codes",
        "",
        *_table(
            ("code", "name", "meaning", "remedy"),
            (
                (c.value, c.name, registers.ERROR_TEXT[c], REMEDIES.get(c, ""))
                for c in registers.ErrorCode
            ),
        ),
        "ERROR_INSN counts from 0 and has 32 bits, as INSN_COUNT. It names the instruction that",
        "the error belongs to, even if the unit works on another one by then. For some errors:",
        "",
        *_table(
            ("error", "ERROR_INSN"),
            (
                ("AXI_READ, AXI_LAST of load", "the LOAD whose burst the wrong beat belongs to"),
                (
                    "AXI_WRITE of store",
                    "the STORE whose burst was refused",
                ),
                (
                    "AXI_READ, AXI_LAST of fetch",
                    "the one in the wrong beat; if a beat holds two, the first",
                ),
                ("SETTINGS", "0: nothing was read"),
                ("TOKEN_OVERFLOW", "the instruction that pushed the token"),
                ("NO_FINISH", "INSN_COUNT: the index of the missing instruction"),
                ("WATCHDOG", "0: no single instruction is to blame, see WAIT_STATE"),
            ),
        ),
        *_system_registers(),
    )


def _system_registers() -> list[str]:
    """Registers of a system of cores."""
    own = registers

    def rows(members: Iterable[registers.Register], base: int = 0) -> Iterable[tuple[str, ...]]:
        return ((f"0x{base + r.offset:03x}", r.name, r.access, r.meaning) for r in members)

    header = ("offset", "name", "access", "meaning")
    return [
        "## Systems of cores",
        "",
        "A [system](../explanation/multicore-hardware.md) has pages of 4 KiB. Page 0 is shared.",
        "Page 1 + i is the window of core i: at its start are the registers above, from",
        f"0x{own.QUEUE_BASE:03x} on those of its queue. Registers of the shared page and of queues",
        "are written as whole words. A page that does not exist answers DECERR.",
        "",
        "The shared page keeps one upper word: a read of any LO register there replaces it. So",
        "between LO and HI of a pair nobody else may read a LO register of that page. Hosts of",
        "several threads read pairs under one lock (`SystemDriver` has it), those of several",
        "processes in one of them. A SNAPSHOT holds counters of a core until its next SNAPSHOT.",
        "",
        "### Shared page",
        "",
        *_table(header, rows(own.SYSTEM_REGISTERS)),
        f"Core i has an entry at 0x{own.CORE_TABLE:03x} + 0x{own.CORE_TABLE_STEP:02x} i:",
        "",
        *_table(header, rows(own.CORE_ENTRY)),
        f"Its share of the memory port is at 0x{own.SHARE_BASE:03x} + 0x{own.SHARE_STEP:02x} i:",
        "",
        *_table(header, rows(own.SHARE_REGISTERS)),
        *_table(
            ("offset", "counter (64 bits, low word first)", "meaning"),
            (
                (f"0x{own.SHARE_COUNTERS + 8 * index:03x}", f"`{name}`", meaning)
                for index, (name, meaning) in enumerate(own.SHARE_COUNTER_NAMES)
            ),
        ),
        "### Queue of a core, in its window",
        "",
        "STATUS, the registers of errors and the counters are those of the core's last run, of the",
        "window or of the queue. An error of a window's run stands until a soft reset, and no",
        "descriptor begins before that. A run of the window that ended well gives way to the next",
        "descriptor at once: keep QUEUE_ENABLE of the core off until its counters are read.",
        "",
        *_table(header, rows(own.QUEUE_REGISTERS)),
    ]


REFERENCE_PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "configuration.md": configuration_page,
    "instructions.md": instructions_page,
    "registers.md": registers_page,
}
"""Files of docs/reference/ and what writes them."""


def _page(title: str, *lines: str) -> str:
    text = "\n".join([f"# {title}", "", f"<!-- {GENERATED_NOTE} -->", "", *lines])
    return text.rstrip("\n") + "\n"


def _fields(layout: Sequence[isa.Field]) -> Iterable[tuple[str, str, str, str]]:
    low = 0
    for field in layout:
        span = f"{low + field.bits - 1}:{low}" if field.bits > 1 else str(low)
        yield span, f"`{field.name}`", "s" if field.signed else "u", field.meaning
        low += field.bits


def _table(header: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    head = list(header)
    out = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    out += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return [*out, ""]
