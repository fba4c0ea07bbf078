# SPDX-License-Identifier: Apache-2.0
"""From a configuration to a bitstream: the folder that Vivado builds from, and the build.

The Tcl of constraints/vivado is the same for every board and configuration. What differs is written
into ``settings.tcl`` and ``tilewright.v``. The folder needs Vivado and nothing of Tilewright, so
that it can be built on another machine.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

from tilewright.host.common.errors import BuildError, ConfigError, ToolError
from tilewright.host.common.places import CONSTRAINTS_DIR
from tilewright.host.common.whole_file import copy_whole, write_whole
from tilewright.host.machine.bitstream import (
    FORMAT,
    MARK,
    BitstreamManifest,
    read_bitstream_manifest,
)
from tilewright.host.machine.board import Board
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.vivado_target import REGISTERS_BYTES, VivadoTarget
from tilewright.sim.synth.core_wrapper import FILE, write_sources

SCRIPTS: Final = CONSTRAINTS_DIR / "vivado"
SETTINGS: Final = "settings.tcl"
ENTRY: Final = "build.tcl"
MANIFEST_NAME: Final = "tilewright.yaml"
STRATEGY: Final = "Explore"
"""Directive of every step of the implementation (UG904, "Directives")."""

_PLAIN: Final = re.compile(r"[\w./:+-]+", re.ASCII)
_BRACED: Final = re.compile(r"[\n -\[\]-~]*")
"""Printable ASCII without the backslash: braces keep it, and `source` reads it as it is."""
_ERROR: Final = "tilewright error: "
"""How an error of the scripts begins; Vivado goes on with a trace of many lines."""
_LAST_LINES: Final = 12


def settings(
    hw: HwConfig, board: Board, target: VivadoTarget, sources: list[str], board_name: str
) -> dict[str, str]:
    """What ``settings.tcl`` says, by the index into the Tcl array ``settings``."""
    head = {
        MARK: FORMAT,
        "board": board_name,
        "part": board.part,
        "config_hash": hw.config_hash,
        "hw": asdict(hw),
    }
    return {
        "config": hw.name,
        "part": board.part,
        "board_part": target.board_part,
        "processor": target.processor,
        "processor_properties": " ".join(
            f"CONFIG.{name} {tcl_word(str(value))}"
            for name, value in target.processor_properties.items()
        ),
        "clock_mhz": f"{board.clock_mhz:g}",
        "port_bits": str(board.axi_data_bits),
        "registers_base": f"{target.registers_base:#010x}",
        "registers_bytes": str(REGISTERS_BYTES),
        "memory_base": "0x00000000",
        "memory_bytes": f"{target.memory_bytes:#010x}",
        "strategy": STRATEGY,
        "sources": "".join(f"\n    {tcl_word(name)}" for name in sources) + "\n",
        # One key a line: JSON is YAML, and quotes what has to be quoted.
        "manifest": "\n".join(f"{key}: {json.dumps(value)}" for key, value in head.items()),
    }


def write_project(
    hw: HwConfig, board: Board, target: VivadoTarget, folder: Path, *, board_name: str = ""
) -> Path:
    """Write the folder that Vivado builds from; what an earlier one left there is replaced.

    Args:
        hw: configuration.
        board: with the clock to plan for.
        target: what Vivado has to know of the board.
        folder: to write.
        board_name: name or path that the manifest gives the board; default: its name.

    Returns:
        The file to give to ``vivado -mode batch -source``.

    Raises:
        ConfigError: the board's port is narrower, or its bursts are shorter, than the
            configuration's.
        BuildError: a file of the RTL cannot be read.
    """
    for name in ("axi_data_bits", "axi_burst_beats"):
        limit = getattr(board, name)
        if getattr(hw, name) > limit:
            raise ConfigError(
                f"must be at most {limit}, as the port of {board.name}",
                field=name,
                value=getattr(hw, name),
                remedy=f"use a configuration with {name}: {limit}",
            )
    scripts = [
        script
        for script in sorted(SCRIPTS.iterdir())
        if not script.stem.startswith("processor_") or script.stem[10:] == target.processor
    ]
    written = [SETTINGS, *(script.name for script in scripts)]
    names = [name for name in write_sources(hw, (), folder, written) if name != FILE]
    for script in scripts:
        copy_whole(script, folder / script.name)
    values = settings(hw, board, target, names, board_name or board.name)
    write_whole(folder / SETTINGS, settings_text(hw, board, values))
    return folder / ENTRY


def settings_text(hw: HwConfig, board: Board, values: Mapping[str, str]) -> str:
    """The file that the scripts read."""
    title = re.sub(r"[^\w.-]+", " ", f"{hw.name} on {board.name}")
    lines = [f"set settings({name}) {tcl_word(value)}" for name, value in values.items()]
    return "\n".join([f"# Generated by `tilewright bitstream`: {title}.", *lines, ""])


def find_vivado() -> Path:
    """The Vivado on PATH.

    Raises:
        ToolError: there is none.
    """
    found = shutil.which("vivado")
    if found is None:
        raise ToolError(
            "Vivado is not on PATH",
            field="vivado",
            remedy="source settings64.sh of a Vivado; or add --dry-run, copy the folder that it "
            f"writes to a machine with Vivado, and run `vivado -mode batch -source {ENTRY}` in it",
        )
    return Path(found)


def build_bitstream(vivado: Path, entry: Path, say: Callable[[str], None]) -> BitstreamManifest:
    """Build a project; Vivado's own words go to ``vivado.log`` in its folder.

    Args:
        vivado: the program.
        entry: what `write_project` returned.
        say: takes the name of each step as it begins.

    Raises:
        BuildError: Vivado stopped; the text is its error.
        ConfigError: the manifest that it wrote cannot be used.
    """
    told: list[str] = []
    last: list[str] = []
    with subprocess.Popen(
        [str(vivado), "-mode", "batch", "-notrace", "-nojournal", "-source", entry.name],
        cwd=entry.parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        for line in process.stdout or ():
            text = line.rstrip()
            if text.startswith("tilewright: "):
                say(text.removeprefix("tilewright: "))
            if text.startswith((_ERROR, "ERROR:")):
                told.append(text.removeprefix(_ERROR))
            last = [*last, text][-_LAST_LINES:]
    if process.returncode != 0:
        raise BuildError(
            f"Vivado built no bitstream: {' '.join(told or last)}",
            field=str(entry.parent),
            remedy=f"read {entry.parent / 'vivado.log'}",
        )
    manifest = read_bitstream_manifest(entry.parent / MANIFEST_NAME)
    manifest.check_files()
    return manifest


def tcl_word(text: str) -> str:
    """A text as one word of Tcl, whatever is in it."""
    if _PLAIN.fullmatch(text):
        return text
    if _BRACED.fullmatch(text) and _balanced(text):
        return f"{{{text}}}"
    return "".join(map(_escaped, text))


def _escaped(letter: str) -> str:
    """A letter of a word outside of braces."""
    if _PLAIN.fullmatch(letter):
        return letter
    if letter.isascii() and letter.isprintable():
        return f"\\{letter}"
    return f"\\u{ord(letter):04x}" if ord(letter) < 0x10000 else f"\\U{ord(letter):08x}"


def _balanced(text: str) -> bool:
    depth = 0
    for letter in text:
        depth += (letter == "{") - (letter == "}")
        if depth < 0:
            return False
    return depth == 0
