# SPDX-License-Identifier: Apache-2.0
"""The accelerator of one configuration as a Verilog module that Vivado can package.

The IP packager takes Verilog or VHDL tops alone (UG1118, "Top-Level HDL Requirements"). Its
interfaces are told by attributes on the ports, which `rtl/system/tilewright_top.sv` does not carry.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tilewright.host.common.errors import BuildError
from tilewright.host.common.whole_file import renew_folder, write_whole
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.sim.tools.build_cache import source_text
from tilewright.sim.tools.yosys import copy_sources, rtl_parameters
from tilewright.sim.verilator.build import TOP, read_manifest

MODULE: Final = "tilewright"
FILE: Final = f"{MODULE}.v"

_HEADER: Final = re.compile(
    rf"\bmodule\s+{TOP}\s*#\((?P<parameters>.*?)\)\s*\((?P<ports>.*?)\);", re.S
)
_PARAMETER: Final = re.compile(r"\bparameter\s[^=]*?(\w+)\s*=\s*([^,\s]+)")
_PORT: Final = re.compile(r"\b(input|output)\s+logic\s*(?:\[\s*([^\]:]+?)\s*:\s*0\s*\])?\s*(\w+)")
_BUS: Final = re.compile(r"(s_axil|m_axi)_(\w+)")

_SINGLE: Final = {
    "aclk": ("clock", "aclk", "CLK", "ASSOCIATED_BUSIF s_axil:m_axi, ASSOCIATED_RESET aresetn"),
    "aresetn": ("reset", "aresetn", "RST", "POLARITY ACTIVE_LOW"),
    "irq": ("interrupt", "irq", "INTERRUPT", "SENSITIVITY LEVEL_HIGH"),
}
"""Ports that are an interface of their own: type, name, signal and parameters of it."""


@dataclass(frozen=True, kw_only=True)
class Port:
    """A port of the top module."""

    name: str  # in the RTL
    direction: str  # ``input`` or ``output``
    width: int  # in bits

    @property
    def pin(self) -> str:
        """Name in the wrapper: without the mark of the direction."""
        return re.sub(r"_[io]$", "", self.name)


def top_ports(source: str, parameters: Mapping[str, str]) -> list[Port]:
    """The ports of the top module."""
    text = re.sub(r"//[^\n]*", "", source)
    header = _HEADER.search(text)
    if header is None:
        raise BuildError("the header of the top module cannot be read", field=TOP)
    values = dict(_PARAMETER.findall(header["parameters"]))
    unknown = sorted(set(parameters) - set(values))
    if unknown:
        raise BuildError(f"the top module has no parameter {', '.join(unknown)}", field=TOP)
    numbers = {k: int(v) for k, v in (values | dict(parameters)).items() if v.isdigit()}
    ports = []
    for declaration in header["ports"].split(","):
        found = _PORT.fullmatch(declaration.strip())
        if found is None:
            raise BuildError("a port's declaration cannot be read", field=TOP, value=declaration)
        direction, high, name = found.groups()
        try:
            width = 1 if high is None else _evaluate(high, numbers) + 1
        except (ArithmeticError, SyntaxError, NameError) as error:
            raise BuildError("a port's width cannot be read", field=name, value=high) from error
        ports.append(Port(name=name, direction=direction, width=width))
    return ports


def wrapper(hw: HwConfig, source: str) -> str:
    """The Verilog of one configuration."""
    parameters = rtl_parameters(hw)
    ports = top_ports(source, parameters)
    of = {port.name: port.width for port in ports}
    first: dict[str, str] = {
        "s_axil": "PROTOCOL AXI4LITE, DATA_WIDTH 32, "
        f"ADDR_WIDTH {of.get('s_axil_awaddr')}, READ_WRITE_MODE READ_WRITE",
        "m_axi": f"PROTOCOL AXI4, DATA_WIDTH {hw.axi_data_bits}, "
        f"ADDR_WIDTH {of.get('m_axi_awaddr')}, ID_WIDTH {of.get('m_axi_awid')}, "
        f"MAX_BURST_LENGTH {hw.axi_burst_beats}, SUPPORTS_NARROW_BURST 0, "
        f"NUM_READ_OUTSTANDING {hw.read_outstanding}, "
        f"NUM_WRITE_OUTSTANDING {hw.write_outstanding}, READ_WRITE_MODE READ_WRITE",
    }
    title = re.sub(r"[^\w.-]+", " ", hw.name)
    lines: list[str] = []
    for port in ports:
        lines += _attributes(port, first)
        vector = f"[{port.width - 1}:0] " if _is_vector(port) else ""
        comma = "" if port is ports[-1] else ","
        lines.append(f"    {port.direction} wire {vector}{port.pin}{comma}")
    return "\n".join(
        [
            "// SPDX-License-Identifier: Apache-2.0",
            f"// Generated: the accelerator of configuration {title}.",
            "// The attributes tell Vivado's IP packager the interfaces.",
            "`default_nettype none",
            f"module {MODULE} #(",
            "    parameter AddressBits = 40  // of the board's memory port",
            ") (",
            *lines,
            ");",
            f"  {TOP} #(",
            _bindings({**parameters, "AddressBits": "AddressBits"}),
            "  ) core (",
            _bindings({port.name: port.pin for port in ports}),
            "  );",
            "endmodule",
            "`default_nettype wire",
            "",
        ]
    )


def write_sources(
    hw: HwConfig, around: Sequence[Path], folder: Path, others: Sequence[str] = ()
) -> list[str]:
    """Write the RTL of a configuration for tools of others."""
    core = read_manifest()
    top = next((path for path in core if path.name == f"{TOP}.sv"), None)
    if top is None:
        raise BuildError(f"the RTL must have a file {TOP}.sv", field="rtl")
    names = [path.name for path in (*core, *around)]
    if len(set(names)) < len(names):  # one module a file, named after it
        raise BuildError("files of the RTL must differ in their names", field="rtl")
    text = wrapper(hw, source_text(top))
    listed = [f"rtl/{name}" for name in names]
    renew_folder(folder, [*listed, FILE, *others])
    copy_sources([*core, *around], folder / "rtl")
    write_whole(folder / FILE, text)
    return [*listed[: len(core)], FILE, *listed[len(core) :]]


def _attributes(port: Port, first: dict[str, str]) -> Sequence[str]:
    """Attributes that put a port into its interface; takes the interface's parameters once."""
    if port.pin in _SINGLE:
        kind, name, signal, told = _SINGLE[port.pin]
        library = "signal"
    else:
        found = _BUS.fullmatch(port.pin)
        if found is None:
            raise BuildError("the port belongs to no interface", field=TOP, value=port.name)
        name, signal = found[1], found[2].upper()
        kind, library, told = "aximm", "interface", first.pop(name, "")
    lines = [f'    (* X_INTERFACE_INFO = "xilinx.com:{library}:{kind}:1.0 {name} {signal}" *)']
    if told:
        lines.append(f'    (* X_INTERFACE_PARAMETER = "XIL_INTERFACENAME {name}, {told}" *)')
    return lines


def _is_vector(port: Port) -> bool:
    """IDs and locks are vectors in AXI, of one bit too."""
    return port.width > 1 or port.name.endswith(("awid", "bid", "arid", "rid", "lock"))


def _bindings(values: Mapping[str, str]) -> str:
    return ",\n".join(f"      .{name}({value})" for name, value in values.items())


def _evaluate(expression: str, names: Mapping[str, int]) -> int:
    """An integer expression of SystemVerilog over parameters, with + - * / and no brackets."""
    if not re.fullmatch(r"[\w\s+*/-]+", expression):
        raise SyntaxError(expression)
    text = expression.replace("/", "//")
    return int(eval(text, {"__builtins__": {}}, dict(names)))
