# SPDX-License-Identifier: Apache-2.0
"""Generated files say what the tables say; stale ones are found."""

import re

import pytest

from tilewright.host.machine import codegen, geometry, hwconfig, isa, registers
from tilewright.host.machine.reference_pages import registers_page


def test_package_fields_stand_most_significant_first_with_their_widths():
    text = codegen.systemverilog_package()
    structs = dict(re.findall(r"typedef struct packed \{\n(.*?)\n  \} (\w+);", text, re.DOTALL))
    structs = {name: body for body, name in structs.items()}
    for name, layout, total in (
        ("load_t", isa.LOAD_FIELDS, 256), ("store_t", isa.STORE_FIELDS, 256),
        ("gemm_t", isa.GEMM_FIELDS, 256), ("vector_t", isa.VECTOR_FIELDS, 256),
        ("uop_t", isa.UOP_FIELDS, 64), ("param_t", isa.PARAM_FIELDS, 128),
    ):  # fmt: skip
        found = re.findall(r"logic( signed)? (?:\[(\d+):0\] )?(\w+);", structs[name])
        widths = [(n, int(high or 0) + 1, bool(sign)) for sign, high, n in found]
        assert sum(width for _, width, _ in widths) == total, name
        wanted = [(f.name, f.bits, f.signed) for f in reversed(layout)]
        assert [w for w in widths if w[0] != "spare"] == wanted
        assert all(w[0] != "spare" for w in widths[1:]), "spare bits are the highest"


@pytest.mark.parametrize("rule", hwconfig.RULES, ids=lambda r: r.name)
def test_legality_module_has_every_rule(rule):
    text = codegen.systemverilog_legality()
    (block,) = re.findall(
        rf"  if \(!\(([^\n]*)\)\) begin : gen_{rule.name}\n(.*?)\n  end", text, re.DOTALL
    )
    condition, statement = block
    (rtl_name,) = (p.rtl_name for p in hwconfig.PARAMETERS if p.name == rule.field)
    assert f"tilewright_top: {rtl_name} ({rule.field}): {rule.text}, not %0d; " in statement
    assert f'{rule.remedy}", Config.{rule.field});' in statement
    assert re.sub(r"\bConfig\.", "", condition) == rule.expression


@pytest.mark.parametrize("name", hwconfig.named_configs())
def test_sizes_of_the_rtl_are_those_of_the_configuration(name):
    hw = hwconfig.load_hwconfig(name)
    sizes = geometry.geometry_of(hw)
    depths = ("inp", "wgt", "acc", "out", "uop", "res", "table")
    for memory in depths:
        assert sizes[f"{memory}_depth"] == getattr(hw, f"{memory}_depth")
    for memory in ("inp", "wgt", "acc", "out"):
        assert 1 << sizes[f"{memory}_shift"] == getattr(hw, f"{memory}_tile_bytes")
    assert hw.acc_depth >> sizes["acc_bank_shift"] == hw.acc_banks
    assert sizes["config_hash"] == hw.config_hash


def test_harness_header_and_docs_hold_every_register_and_counter():
    header, docs = codegen.cpp_header(), registers_page()
    for register in registers.REGISTERS:
        assert re.search(rf" = 0x{register.offset:03x};", header)
        assert f"| 0x{register.offset:03x} | {register.name} |" in docs
    assert f"kNumCounters = {len(registers.COUNTERS)};" in header
    for name, _ in registers.COUNTERS:
        assert f"`{name}`" in docs


def test_instruction_header_gives_the_position_of_every_field():
    text = codegen.cpp_instructions()
    spaces = dict(re.findall(r"namespace (\w+) \{\n(.*?)\n\}  // namespace", text, re.DOTALL))
    layouts = {op.name.lower(): layout for op, layout in isa.FORMATS.items()}
    layouts |= {"header": isa.HEADER, "uop": isa.UOP_FIELDS, "param": isa.PARAM_FIELDS}
    assert set(spaces) == set(layouts)
    for name, layout in layouts.items():
        found = re.findall(r"BitField k(\w+)\{(\d+), (\d+), (true|false)\};", spaces[name])
        assert [camel.lower() for camel, *_ in found] == [f.name.replace("_", "") for f in layout]
        for field, (_, low, bits, sign) in zip(layout, found, strict=True):
            top = -1 if field.signed else (1 << field.bits) - 1
            word = isa.pack_fields(layout, {field.name: top})
            assert word == ((1 << int(bits)) - 1) << int(low)
            assert field.signed == (sign == "true")
