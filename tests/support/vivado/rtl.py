# SPDX-License-Identifier: Apache-2.0
"""The ports of a packaged core: Verilator elaborates it, its attributes name the interfaces."""

from __future__ import annotations

import functools
import hashlib
import json
import re
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from support.vivado.tcl import ScriptError

from tilewright.sim.tools.toolchain import find_verilator


@dataclass(kw_only=True)
class Interface:
    """An interface of a core: its signals are ports."""

    name: str
    kind: str
    library: str
    parameters: dict[str, str] = field(default_factory=dict)
    signals: dict[str, tuple[str, str, int]] = field(default_factory=dict)
    """Port, direction and width by signal."""


@dataclass(kw_only=True)
class Core:
    """A module and its interfaces."""

    module: str
    ports: dict[str, tuple[str, int]]
    interfaces: dict[str, Interface]


def read_core(sources: list[Path], top: str) -> Core:
    """Elaborate the sources in their order; `ScriptError` if Verilator refuses them."""
    digest = hashlib.sha256(
        b"".join(p.name.encode() + b"\0" + p.read_bytes() + b"\0" for p in sources)
    )
    files = tuple((path.name, path.read_text(encoding="utf-8")) for path in sources)
    return Core(
        module=top,
        ports=_ports(digest.hexdigest(), files, top),
        interfaces=_interfaces(files, top, _ports(digest.hexdigest(), files, top)),
    )


@functools.cache
def _ports(
    _digest: str, files: tuple[tuple[str, str], ...], top: str
) -> dict[str, tuple[str, int]]:
    verilator = find_verilator()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        for file, text in files:
            (work / file).write_text(text, encoding="utf-8")
        done = subprocess.run(
            [
                str(verilator.path), "--json-only",
                "--top-module", top, "--json-only-output", "out.json",
                "--json-only-meta-output", "meta.json", *(file for file, _ in files),
            ],
            cwd=work, capture_output=True, text=True, check=False,
            env=verilator.full_environment(),
        )  # fmt: skip
        if done.returncode != 0:
            told = [line for line in done.stderr.splitlines() if line.startswith("%")]
            raise ScriptError(f"the RTL is refused: {' '.join(told[:2])}")
        tree = json.loads((work / "out.json").read_text(encoding="utf-8"))
    ranges = {node["addr"]: node.get("range", "0:0") for node in _nodes(tree) if "addr" in node}
    module = next(each for each in tree["modulesp"] if each["name"] == top)
    ports = {}
    for each in module["stmtsp"]:
        if each.get("direction", "NONE") in {"INPUT", "OUTPUT"}:
            high, low = (int(bound) for bound in ranges[each["dtypep"]].split(":"))
            ports[each["name"]] = (each["direction"].lower(), high - low + 1)
    return ports


def _nodes(node):
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from _nodes(value)
    elif isinstance(node, list):
        for value in node:
            yield from _nodes(value)


_ATTRIBUTES = re.compile(
    r'((?:\(\*\s*X_INTERFACE_\w+\s*=\s*"[^"]*"\s*\*\)\s*)+)(?:input|output)\s+wire\s*(?:\[[^\]]*\])?'
    r"\s*(\w+)"
)
_ATTRIBUTE = re.compile(r'\(\*\s*(X_INTERFACE_\w+)\s*=\s*"([^"]*)"\s*\*\)')
_INFO = re.compile(r"xilinx\.com:(interface|signal):(\w+):1\.0 (\w+) (\w+)")


def _interfaces(files, top, ports):
    text = next((t for _, t in files if re.search(rf"\bmodule\s+{top}\b", t)), "")
    found: dict[str, Interface] = {}
    seen = set()
    for attributes, port in _ATTRIBUTES.findall(text):
        if port not in ports:
            raise ScriptError(f"attributes of {port}, which is no port")
        seen.add(port)
        told = dict(_ATTRIBUTE.findall(attributes))
        info = _INFO.fullmatch(told.pop("X_INTERFACE_INFO", ""))
        if info is None:
            raise ScriptError(f"X_INTERFACE_INFO of {port} cannot be read")
        library, kind, name, signal = info.groups()
        interface = found.setdefault(name, Interface(name=name, kind=kind, library=library))
        interface.signals[signal] = (port, *ports[port])
        parameters = told.pop("X_INTERFACE_PARAMETER", "")
        if told:
            raise ScriptError(f"unknown attribute {next(iter(told))}")
        if parameters:
            words = dict(part.strip().split(" ", 1) for part in parameters.split(","))
            if words.pop("XIL_INTERFACENAME", "") != name:
                raise ScriptError(f"XIL_INTERFACENAME of {port} is not {name}")
            interface.parameters.update(words)
    if left := sorted(set(ports) - seen):
        raise ScriptError(f"ports of no interface: {', '.join(left)}")
    return found
