# SPDX-License-Identifier: Apache-2.0
"""What Yosys moved into the DSP slices of a netlist; moves that may be wrong are refused.

The pass `xilinx_dsp` of Yosys 0.70 changes what a design computes in three forms
(docs/results/yosys-xilinx-dsp.md has the smallest case of each):

- a register between a sum and a multiplier becomes ADREG: its reset and other readers are lost;
- a sum that is as narrow as its operands becomes the pre-adder, which does not wrap as it does;
- a register that is reset to another value than 0 becomes one of the slice, which knows only 0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.errors import BuildError

_BEFORE: Final = "packing-before.json"
_LOG: Final = "packing.log"
_SLICES: Final = "packing-slices.json"

_SLICE_BITS: Final = 25
"""Width of the pre-adder; a sum of as many bits wraps as it does."""

_ADDER: Final = re.compile(r"^  preadder (\S+) \(", re.MULTILINE)
_REGISTER: Final = re.compile(r"^ (ff\w+):(\S+)", re.MULTILINE)
_REMEDY: Final = (
    "give the register before the multiplier `(* keep *)`, or the sum a bit more than its operands "
    "(docs/results/yosys-xilinx-dsp.md)"
)

_Cells = Mapping[str, Mapping[str, Any]]


def packing_commands(flow: str) -> list[str]:
    """The passes of a Xilinx flow up to its stage ``coarse``, with records for `check_packing`."""
    return [
        f"{flow} -run begin:map_dsp",
        "select t:$add t:$sub t:$sdff*",
        f"write_json -selected {_BEFORE}",
        "select -clear",
        f"tee -o {_LOG} {flow} -run map_dsp:coarse",
        "select t:DSP48E1 t:DSP48E2",
        f"write_json -selected {_SLICES}",
        "select -clear",
    ]


def check_packing(work: Path) -> None:
    """Refuse a netlist whose DSP slices may compute something else than the RTL."""
    wrong = sorted(set(_wrong(work)))
    if wrong:
        raise BuildError(
            "Yosys must move nothing into a DSP slice that changes what the design computes",
            field="xilinx_dsp",
            value="; ".join(wrong),
            remedy=_REMEDY,
        )


def _wrong(work: Path) -> Iterator[str]:
    """What is wrong, each with its place in the RTL."""
    before, slices = _cells(work / _BEFORE), _cells(work / _SLICES)
    log = (work / _LOG).read_text(encoding="utf-8", errors="replace")
    adders = _ADDER.findall(log)
    with_adder = [cell for cell in slices.values() if _has_adder(cell)]
    if len(adders) != len(with_adder):
        yield f"{len(with_adder)} slices with a pre-adder, {len(adders)} told in the log"
    for cell in slices.values():
        if _number(cell, "ADREG") and _has_adder(cell):
            yield f"a register became ADREG at {_place(cell)}"
    for name in adders:
        if name not in before:
            yield f"a pre-adder that was no sum before: {name}"
        elif _may_wrap(before[name]):
            yield f"a sum that may wrap became the pre-adder at {_place(before[name])}"
    for slot, name in _REGISTER.findall(log):
        if name in before and "1" in str(before[name]["parameters"]["SRST_VALUE"]):
            place = _place(before[name])
            yield f"a register with a reset to another value than 0 became {slot} at {place}"


def _has_adder(slice_: Mapping[str, Any]) -> bool:
    """Whether a slice uses its pre-adder: DSP48E1 and DSP48E2 tell it by other parameters."""
    parameters = slice_["parameters"]
    return bool(parameters.get("USE_DPORT") == "TRUE" or parameters.get("AMULTSEL", "A") != "A")


def _may_wrap(adder: Mapping[str, Any]) -> bool:
    """Whether the sum has fewer bits than the largest result and than the pre-adder."""
    widest = max(_number(adder, "A_WIDTH"), _number(adder, "B_WIDTH"))
    return _number(adder, "Y_WIDTH") < min(_SLICE_BITS, widest + 1)


def _cells(path: Path) -> _Cells:
    """The cells of the only module of a JSON netlist, under the names that the log gives them."""
    modules = json.loads(path.read_text(encoding="utf-8"))["modules"]
    return {name: cell for module in modules.values() for name, cell in module["cells"].items()}


def _number(cell: Mapping[str, Any], name: str) -> int:
    return int(cell["parameters"][name], 2)


def _place(cell: Mapping[str, Any]) -> str:
    """File and line of the RTL: the first of the places that made the cell."""
    return str(cell["attributes"].get("src", "an unknown place")).partition("|")[0]
