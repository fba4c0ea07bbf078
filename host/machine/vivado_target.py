# SPDX-License-Identifier: Apache-2.0
"""`VivadoTarget`: what Vivado has to know of a board, the ``vivado`` section of its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.errors import ConfigError, errors_in
from tilewright.host.common.names import check_name, choices
from tilewright.host.common.plain_values import is_integer, require_keys

SECTION: Final = "vivado"
"""Key of a board's file."""

PROCESSORS: Final = ("zynq7000", "zynqmp")
"""Families of processing systems: each has a constraints/vivado/processor_<family>.tcl."""

CELL: Final = "accelerator"
"""Name of the accelerator in the block design, and so in pynq's ``ip_dict``."""
CORE: Final = "tilewright:core:tilewright:1.0"
"""Its type there."""
REGISTERS_BYTES: Final = 4096
"""Window of the registers: what the address width of the AXI4-Lite port spans."""

_ADDRESSES: Final = 1 << 40
_PAGE: Final = 4096


@dataclass(frozen=True, kw_only=True)
class VivadoTarget:
    """How the block design for a board differs from that for another.

    Attributes:
        processor_properties: of the processing system, without ``CONFIG.``, where Vivado does not
            have the board files.
    """

    processor: str  # one of `PROCESSORS`
    board_part: str  # pattern of the board files' names in Vivado
    registers_base: int  # where the CPU finds the accelerator's registers
    memory_bytes: int  # DRAM from address 0 that the accelerator reaches
    processor_properties: Mapping[str, str]

    def __post_init__(self) -> None:
        """Validate."""
        if self.processor not in PROCESSORS:
            raise ConfigError(
                "must be a family of processing systems",
                field="vivado.processor",
                value=self.processor,
                remedy=choices(str(self.processor), PROCESSORS),
            )
        for name in ("registers_base", "memory_bytes"):
            value = getattr(self, name)
            if not is_integer(value, _PAGE, _ADDRESSES) or value % _PAGE:
                raise ConfigError(
                    f"must be a multiple of {_PAGE} below 2^40",
                    field=f"vivado.{name}",
                    value=value,
                )
        pattern = self.board_part  # of any vendor where it begins with *:
        named = pattern.removeprefix("*:") if isinstance(pattern, str) else pattern
        check_name(named, "vivado.board_part")
        properties = self.processor_properties
        plain = isinstance(properties, Mapping) and all(
            isinstance(name, str) and isinstance(value, str | int | float)
            for name, value in properties.items()
        )
        if not plain:
            raise ConfigError(
                "must be a mapping of properties to plain values",
                field="vivado.processor_properties",
                value=properties,
            )
        for name, value in properties.items():
            check_name(name, "vivado.processor_properties")
            check_name(str(value), f"vivado.processor_properties.{name}")


def vivado_target(section: Any, origin: Path) -> VivadoTarget:
    """The target that the section of a board's file describes."""
    known = [field.name for field in fields(VivadoTarget)]
    if not isinstance(section, Mapping):
        raise ConfigError(
            "the board must say how Vivado builds for it",
            field=f"{origin}: {SECTION}",
            remedy=f"add the section with {', '.join(known)}; boards that come with Tilewright "
            "have it",
        )
    with errors_in(f"{origin}: {SECTION}"):
        require_keys(VivadoTarget, section)
    return VivadoTarget(**section)
