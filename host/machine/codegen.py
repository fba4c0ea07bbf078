# SPDX-License-Identifier: Apache-2.0
"""Generate the SystemVerilog package, legality module, FuseSoC core, C++ headers and docs tables.

Everything derives from `host.machine.isa`, `wires`, `registers`, `hwconfig` and `geometry`.
Run ``python -m tilewright.host.machine.codegen --write`` after changing one of them; ``--check``
fails when a generated file is stale.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Final

from tilewright.host.common import generated_files
from tilewright.host.common.generated_files import GENERATED_NOTE as _NOTE
from tilewright.host.common.generated_files import camel, cpp_enum, cpp_struct
from tilewright.host.machine import (
    geometry,
    hwconfig,
    isa,
    log_tables,
    program,
    registers,
    system_config,
    wires,
)
from tilewright.host.machine.fusesoc_core import fusesoc_core
from tilewright.host.machine.reference_pages import REFERENCE_PAGES


def _sv_enum(kind: type[IntEnum], type_name: str, prefix: str, bits: int) -> list[str]:
    members = [f"    {prefix}{camel(m.name)} = {bits}'d{m.value}" for m in kind]
    size = f"[{bits - 1}:0] " if bits > 1 else ""
    return [f"  typedef enum logic {size}{{", ",\n".join(members), f"  }} {type_name};", ""]


def _sv_struct(
    layout: tuple[isa.Field, ...], type_name: str, total_bits: int, comment: str
) -> list[str]:
    lines = [f"  // {comment}", "  typedef struct packed {"]
    spare = total_bits - isa.layout_bits(layout)
    if spare:
        lines.append(f"    logic [{spare - 1}:0] spare;")
    for field in reversed(layout):
        sign = " signed" if field.signed else ""
        size = f" [{field.bits - 1}:0]" if field.bits > 1 else ""
        meaning = f"  // {field.meaning}" if field.meaning else ""
        lines.append(f"    {field.type or f'logic{sign}{size}'} {field.name};{meaning}")
    return [*lines, f"  }} {type_name};", ""]


def _sv_table(table: log_tables.LogTable) -> list[str]:
    """Functions of a bipartite table; cases, so that synthesis makes LUTs of them."""
    name = table.name.lower()
    lines = [
        f"  // {table.meaning}, in {table.result_bits} bits.",
        f"  localparam int unsigned {table.name}IndexBits = {table.index_bits};",
    ]
    for part, bits, entries in (
        ("coarse", table.high + table.middle, table.coarse),
        ("fine", table.high + table.low, table.fine),
    ):
        width = max(entries).bit_length()
        lines += [
            (
                f"  function automatic logic [{width - 1}:0] {name}_{part}("
                f"logic [{bits - 1}:0] index);"
            ),
            "    unique case (index)",
            *(f"      {bits}'d{i}: return {width}'d{entry};" for i, entry in enumerate(entries)),
            f"      default: return {width}'d{entries[-1]};",
            "    endcase",
            "  endfunction",
        ]
    top, result = table.index_bits - 1, table.result_bits
    return [
        *lines,
        f"  function automatic logic [{result - 1}:0] {name}_of(logic [{top}:0] fraction);",
        f"    return {result}'({name}_coarse(fraction[{top}:{table.low}])) +",
        (
            f"           {result}'({name}_fine({{fraction[{top}-:{table.high}],"
            f" fraction[{table.low - 1}:0]}}));"
        ),
        "  endfunction",
        "",
    ]


_FUNCTIONS: Final = """\
  // What a unit waits for whose entry pops tokens that are missing: of several, the first one.
  function automatic wait_e token_wait(unit_e unit, logic [3:0] pop, logic [3:0] tokens);
    token_wait = unit == UnitStore ? WaitTokenVector : WaitTokenStore;
    for (int unsigned u = 3; u > 0; u--) begin
      if (pop[u-1] && !tokens[u-1] && u - 1 != 32'(unit))
        token_wait = wait_e'(32'(WaitTokenLoad) + u - 1);
    end
  endfunction

  // The first step of a row that begins in a lane: whether it ends the row, its tiles, and those
  // beyond the first.
  function automatic logic [10:0] first_step(logic [4:0] lane, logic [4:0] lanes, logic single,
                                             logic one, logic few, logic [4:0] low);
    logic [4:0] fit;
    fit = lanes - lane;
    if (single) return {one, 5'd1, 5'd0};
    return (few && low <= fit) ? {1'b1, low, low - 5'd1} : {1'b0, fit, lanes + ~lane};
  endfunction

  function automatic first_step_t first_of(logic [5:0] base, logic [3:0] shift, logic parts,
                                           logic [15:0] x_size, logic [3:0] beat_shift);
    logic wide;
    logic [4:0] lanes;
    wide = shift >= beat_shift;
    lanes = 5'(32'd1 << 4'(beat_shift - shift));
    first_of.lane = wide ? '0 : 5'(base >> shift);
    first_of.lane_end = first_of.lane == lanes - 5'd1;
    first_of.few = x_size <= 16'(lanes);
    {first_of.ends_row, first_of.count, first_of.beyond} = first_step(
        first_of.lane, lanes, wide || parts, x_size == 16'd1, first_of.few, x_size[4:0]);
  endfunction

  function automatic int unsigned least(int unsigned a, int unsigned b);
    return a < b ? a : b;
  endfunction
  function automatic int unsigned most(int unsigned a, int unsigned b);
    return a > b ? a : b;
  endfunction
"""


def _sv_sizes() -> list[str]:
    """The functions that derive sizes from a configuration."""
    known = {p.name: f"c.{p.name}" for p in hwconfig.PARAMETERS} | {"config_hash": "c.config_hash"}
    known |= {"log2": "$clog2"}
    lines = [
        _FUNCTIONS,
        "  // The configuration, or for an illegal one another that can be elaborated: it reaches",
        "  // the $error of tw_legal, no division by zero.",
        "  function automatic config_t built(config_t c);",
        "    built = c;",
        *(
            f"    built.{p.name} = most({p.low}, c.{p.name});"
            for p in hwconfig.PARAMETERS
            if p.low and p.unit != "bytes"
        ),
        "  endfunction",
        "",
        "  function automatic sizes_t sizes_of(config_t given);",
        "    config_t c;",
        "    c = built(given);",
    ]
    for size in geometry.CONTROL_SIZES:
        text = _renamed(size.expression, known).replace("//", "/")
        lines.append(f"    sizes_of.{size.name} = 32'({text});")
        known[size.name] = f"sizes_of.{size.name}"
    return [*lines, "  endfunction", ""]


def systemverilog_package() -> str:
    """`rtl/generated/tw_pkg.sv`: instruction structures, enumerations, register offsets."""
    lines = [
        "// SPDX-License-Identifier: Apache-2.0",
        f"// {_NOTE}",
        "// Instruction layouts, register map, error codes and counters shared by all modules.",
        "package tw_pkg;",
        f"  localparam int unsigned InsnBits = {isa.INSTRUCTION_BITS};",
        f"  localparam int unsigned UopBits = {isa.UOP_BITS};",
        f"  localparam int unsigned AccBanks = {hwconfig.MAX_ACC_BANKS};",
        f"  localparam logic [31:0] DeviceId = 32'h{registers.DEVICE_ID:08x};",
        f"  localparam logic [31:0] IsaVersion = 32'd{hwconfig.ISA_VERSION};",
        f"  localparam int unsigned MaxShift = {isa.MAX_SHIFT};",
        "  // Of an instruction in its program, as wide as INSN_COUNT.",
        "  typedef logic [31:0] index_t;",
        f"  localparam int unsigned ResidualShift = {isa.RESIDUAL_SHIFT};",
        f"  localparam int unsigned TableEntries = {isa.TABLE_ENTRIES};",
        f"  localparam int unsigned TableRowEntries = {isa.TABLE_ROW_ENTRIES};",
        f"  localparam int unsigned HeldBits = {isa.HELD_BITS};",
        f"  localparam int unsigned SumBits = {isa.SUM_BITS};",
        "",
    ]
    lines += _sv_enum(isa.Unit, "unit_e", "Unit", 2)
    lines += _sv_enum(isa.Opcode, "opcode_e", "Op", 4)
    lines += _sv_enum(isa.Memory, "memory_e", "Mem", 3)
    lines += _sv_enum(isa.VectorOp, "vector_op_e", "Vec", 4)
    lines += _sv_enum(isa.Operand, "operand_e", "Operand", 1)
    lines += _sv_enum(isa.Reduce, "reduce_e", "Reduce", 2)
    lines += _sv_enum(registers.ErrorCode, "error_e", "Err", 8)
    lines += _sv_enum(registers.ErrorUnit, "error_unit_e", "From", 4)
    lines += _sv_enum(registers.WaitState, "wait_e", "Wait", 4)
    for table in log_tables.TABLES:
        lines += _sv_table(table)
    for layout, name, bits, comment in (
        (isa.HEADER, "header_t", isa.INSTRUCTION_BITS, "Fields common to all instructions."),
        (isa.LOAD_FIELDS, "load_t", isa.INSTRUCTION_BITS, "LOAD."),
        (isa.STORE_FIELDS, "store_t", isa.INSTRUCTION_BITS, "STORE."),
        (isa.GEMM_FIELDS, "gemm_t", isa.INSTRUCTION_BITS, "GEMM."),
        (isa.VECTOR_FIELDS, "vector_t", isa.INSTRUCTION_BITS, "VECTOR."),
        (isa.UOP_FIELDS, "uop_t", isa.UOP_BITS, "Micro-operation."),
        (isa.PARAM_FIELDS, "param_t", 128, "One channel of a PARAM tile."),
    ):
        lines += _sv_struct(layout, name, bits, comment)
    for type_name, parts, meaning in wires.STRUCTURES:
        lines += _sv_struct(parts, type_name, isa.layout_bits(parts), meaning)
    lines += _sv_sizes()
    lines.append("  // AXI4-Lite register offsets.")
    for register in registers.REGISTERS:
        lines.append(
            f"  localparam logic [11:0] Reg{camel(register.name)} = 12'h{register.offset:03x};"
            f"  // {register.access}: {register.meaning}"
        )
    attributes = next(r for r in registers.REGISTERS if r.name == "AXI_ATTRIBUTES")
    lines += [
        "  // What AXI_ATTRIBUTES reads after a reset.",
        f"  localparam logic [11:0] AxiAttributesReset = 12'h{attributes.reset:03x};",
        f"  localparam logic [11:0] RegCounters = 12'h{registers.COUNTER_BASE:03x};",
        "",
        "  // Counter indices; each is 64 bits at RegCounters + 8 * index.",
        f"  localparam int unsigned NumCounters = {len(registers.COUNTERS)};",
    ]
    for index, (name, meaning) in enumerate(registers.COUNTERS):
        lines.append(f"  localparam int unsigned Cnt{camel(name)} = {index};  // {meaning}")
    return "\n".join([*lines, "endpackage", ""])


def systemverilog_system_package() -> str:
    """`rtl/generated/tw_system_pkg.sv`: register map of a system of cores."""

    def offsets(prefix: str, members: Iterable[registers.Register]) -> list[str]:
        return [f"{number(prefix + camel(r.name), r.offset)}  // {r.access}" for r in members]

    def number(name: str, value: int) -> str:
        return f"  localparam logic [11:0] {name} = 12'h{value:03x};"

    names = registers.SHARE_COUNTER_NAMES
    lines = [
        "// SPDX-License-Identifier: Apache-2.0",
        f"// {_NOTE}",
        "// Register map of a system of cores.",
        "package tw_system_pkg;",
        f"  localparam logic [31:0] SystemId = 32'h{registers.SYSTEM_ID:08x};",
        f"  localparam logic [31:0] SystemVersion = 32'd{system_config.SYSTEM_VERSION};",
        number("QueueBase", registers.QUEUE_BASE),
        number("CoreTable", registers.CORE_TABLE),
        number("CoreTableStep", registers.CORE_TABLE_STEP),
        number("ShareBase", registers.SHARE_BASE),
        number("ShareStep", registers.SHARE_STEP),
        number("ShareCounters", registers.SHARE_COUNTERS),
        "",
        "  // The shared page, an entry of its core table, a core's share of its memory port.",
        *offsets("Reg", registers.SYSTEM_REGISTERS),
        *offsets("Core", registers.CORE_ENTRY),
        *offsets("Share", registers.SHARE_REGISTERS),
        f"  localparam int unsigned NumShareCounters = {len(names)};",
        *(
            f"  localparam int unsigned Cnt{camel(name)} = {index};  // {meaning}"
            for index, (name, meaning) in enumerate(names)
        ),
        "",
        "  // The queue of a core, in its window.",
        *offsets("Reg", registers.QUEUE_REGISTERS),
        "endpackage",
    ]
    return "\n".join([*lines, ""])


def _renamed(expression: str, names: Mapping[str, str]) -> str:
    return re.sub(
        r"[a-z_][a-z0-9_]*", lambda match: names.get(match.group(), match.group()), expression
    )


def systemverilog_legality() -> str:
    """`rtl/generated/tw_legal.sv`: refuses an illegal elaboration with `HwConfig`'s rules."""
    lines = [
        "// SPDX-License-Identifier: Apache-2.0",
        f"// {_NOTE}",
        "// Elaboration-time legality: the rules and texts of host/machine/hwconfig.py.",
        "module tw_legal #(",
        "    parameter tw_pkg::config_t Config = '0",
        ") ();",
    ]
    names = {p.name: p.rtl_name for p in hwconfig.PARAMETERS}
    members = {name: f"Config.{name}" for name in names}
    for rule in hwconfig.RULES:
        lines += [
            f"  if (!({_renamed(rule.expression, members)})) begin : gen_{rule.name}",
            (
                f'    $error("tilewright_top: {names[rule.field]} ({rule.field}): {rule.text}, '
                f'not %0d; {rule.remedy}", {members[rule.field]});'
            ),
            "  end",
        ]
    return "\n".join([*lines, "endmodule", ""])


def cpp_header() -> str:
    """`sim/harness/generated/tilewright_isa.h`: register offsets, codes and counters for C++."""
    lines = [
        "// SPDX-License-Identifier: Apache-2.0",
        f"// {_NOTE}",
        "#pragma once",
        "",
        "#include <cstdint>",
        "",
        "namespace tilewright {",
        "",
        f"inline constexpr uint32_t kDeviceId = 0x{registers.DEVICE_ID:08x};",
        f"inline constexpr uint32_t kIsaVersion = {hwconfig.ISA_VERSION};",
        f"inline constexpr uint32_t kResidualShift = {isa.RESIDUAL_SHIFT};",
        "",
    ]
    for register in registers.REGISTERS:
        lines.append(
            f"inline constexpr uint32_t kReg{camel(register.name)} = 0x{register.offset:03x};"
        )
    lines += [
        f"inline constexpr uint32_t kRegCounters = 0x{registers.COUNTER_BASE:03x};",
        f"inline constexpr uint32_t kNumCounters = {len(registers.COUNTERS)};",
        "",
    ]
    for kind in (registers.Ctrl, registers.Status):
        for member in kind:
            name = f"k{kind.__name__}{camel(member.name or '')}"
            lines.append(f"inline constexpr uint32_t {name} = {member.value};")
    lines.append("")
    for enum in (registers.ErrorCode, registers.ErrorUnit):
        lines += _cpp_enum(enum)
    return "\n".join([*lines, "}  // namespace tilewright", ""])


def _cpp_enum(kind: type[IntEnum]) -> list[str]:
    return cpp_enum(kind.__name__, "uint32_t", ((member.name, member.value) for member in kind))


def _cpp_layout(layout: tuple[isa.Field, ...], name: str, comment: str) -> list[str]:
    lines, position = [f"// {comment}", f"namespace {name} {{"], 0
    for field in layout:
        sign = "true" if field.signed else "false"
        lines.append(
            f"inline constexpr BitField k{camel(field.name)}{{{position}, {field.bits}, {sign}}};"
        )
        position += field.bits
    return [*lines, f"}}  // namespace {name}", ""]


def _cpp_table(table: log_tables.LogTable) -> list[str]:
    name = f"k{table.name}"
    lines = [f"// {table.meaning}, in {table.result_bits} bits.", "// clang-format off"]
    for member in ("high", "middle", "low"):
        lines.append(f"inline constexpr uint32_t {name}{camel(member)} = {getattr(table, member)};")
    for part, entries in (("Coarse", table.coarse), ("Fine", table.fine)):
        text = textwrap.wrap(", ".join(map(str, entries)), 94)
        lines += [
            f"inline constexpr uint16_t {name}{part}[] = {{",
            *(f"    {line}" for line in text),
            "};",
        ]
    return [*lines, "// clang-format on", ""]


def cpp_instructions() -> str:
    """`host/machine/generated/instructions.h`: bit positions of fields, enumerations."""
    lines = [
        "// SPDX-License-Identifier: Apache-2.0",
        f"// {_NOTE}",
        "#pragma once",
        "",
        "#include <cstdint>",
        "",
        "namespace tilewright::isa {",
        "",
        f"inline constexpr uint32_t kInstructionBytes = {hwconfig.INSTRUCTION_BYTES};",
        f"inline constexpr uint32_t kUopBytes = {hwconfig.UOP_BYTES};",
        f"inline constexpr uint32_t kParamBytesPerChannel = {hwconfig.PARAM_BYTES_PER_CHANNEL};",
        f"inline constexpr uint32_t kAccBanks = {hwconfig.MAX_ACC_BANKS};",
        f"inline constexpr uint32_t kTableEntries = {isa.TABLE_ENTRIES};",
        f"inline constexpr uint32_t kTableRowEntries = {isa.TABLE_ROW_ENTRIES};",
        f"inline constexpr uint32_t kHeldBits = {isa.HELD_BITS};",
        f"inline constexpr uint32_t kSumBits = {isa.SUM_BITS};",
        f"inline constexpr uint32_t kRegionAlignment = {program.REGION_ALIGNMENT};",
        f"inline constexpr uint32_t kUnits = {len(isa.Unit)};",
        "",
        "// Bits low to low + bits - 1 of a little-endian instruction, micro-op or parameter.",
        "struct BitField {",
        "  uint32_t low;",
        "  uint32_t bits;",
        "  bool is_signed;",
        "};",
        "",
    ]
    for kind in (isa.Unit, isa.Opcode, isa.Memory, isa.VectorOp, isa.Operand, isa.Reduce):
        lines += _cpp_enum(kind)
    lines += _cpp_layout(isa.HEADER, "header", "Fields common to all instructions.")
    for opcode, layout in isa.FORMATS.items():
        lines += _cpp_layout(layout, opcode.name.lower(), f"{opcode.name}.")
    lines += _cpp_layout(isa.UOP_FIELDS, "uop", "Micro-operation.")
    lines += _cpp_layout(isa.PARAM_FIELDS, "param", "One channel of a PARAM tile.")
    for table in log_tables.TABLES:
        lines += _cpp_table(table)
    return "\n".join([*lines, "}  // namespace tilewright::isa", ""])


def cpp_geometry() -> str:
    """`sim/harness/generated/geometry.h`: the sizes of a configuration, a member each."""
    sizes = (*geometry.CONTROL_SIZES, *geometry.DATA_SIZES)
    lines = [
        "// SPDX-License-Identifier: Apache-2.0",
        f"// {_NOTE}",
        "// The sizes of a configuration, for models that serve every one with one build.",
        "#pragma once",
        "",
        "#include <cstdint>",
        "",
        "namespace tilewright {",
        "",
        "// The first kControlSizes words are those of tw_pkg::sizes_t, highest first.",
        "struct Geometry {",
    ]
    for size in sizes:
        lines += [f"  // {size.meaning}"] if size.meaning else []
        lines.append(f"  uint32_t {size.name};")
    lines += [
        "};",
        "",
        f"inline constexpr uint32_t kControlSizes = {len(geometry.CONTROL_SIZES)};",
        f"static_assert(sizeof(Geometry) == {len(sizes)} * sizeof(uint32_t));",
        "",
        "}  // namespace tilewright",
    ]
    return "\n".join([*lines, ""])


def cpp_timing_parameters() -> str:
    """`sim/twin/core/generated/timing_parameters.h`: what the twin is told of an accelerator."""
    members = (("uint32_t", name) for name in hwconfig.TIMING_PARAMETERS)
    lines = [
        "// SPDX-License-Identifier: Apache-2.0",
        f"// {_NOTE}",
        "#pragma once",
        "",
        "#include <cstdint>",
        "",
        "namespace tilewright::twin {",
        "",
        "// The parameters that shape time; the depths of the scratchpads do not.",
        *cpp_struct("Hardware", members),
    ]
    return "\n".join([*lines, "}  // namespace tilewright::twin", ""])


OUTPUTS: Final[dict[str, Callable[[], str]]] = {
    "rtl/generated/tw_pkg.sv": systemverilog_package,
    "rtl/generated/tw_legal.sv": systemverilog_legality,
    "rtl/generated/tw_system_pkg.sv": systemverilog_system_package,
    "rtl/tilewright.core": fusesoc_core,
    "sim/harness/generated/tilewright_isa.h": cpp_header,
    "sim/harness/generated/geometry.h": cpp_geometry,
    "sim/twin/core/generated/timing_parameters.h": cpp_timing_parameters,
    "host/machine/generated/instructions.h": cpp_instructions,
    **{f"docs/reference/{name}": page for name, page in REFERENCE_PAGES.items()},
}
"""Generated files (relative to the repository) and their generators."""


def main(arguments: list[str] | None = None) -> int:
    """Command line: ``--check`` or ``--write``."""
    return generated_files.main(OUTPUTS, __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
