# SPDX-License-Identifier: Apache-2.0
"""What a user says of an agent: to `tilewright agent`, and to its module on a board.

It uses nothing that Python 3.10 lacks, the Python of the PYNQ image.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.errors import ConfigError
from tilewright.host.common.options import option
from tilewright.host.common.str_enum import StrEnum
from tilewright.host.runtime.agent.limits import Limits, most

DEFAULT_ADDRESS: Final = "127.0.0.1:7425"
"""Where an agent listens, and clients reach it through a tunnel."""

_MIB: Final = 1 << 20

_LIMITS: Final = {
    "program_bytes": ("max_program_mib", _MIB),
    "memory_bytes": ("max_memory_mib", _MIB),
    "run_seconds": ("max_seconds", 1),
    "lease_seconds": ("lease_seconds", 1),
    "connections": ("max_connections", 1),
}
"""Of a limit: the option that states it, and the unit of that."""


class LogForm(StrEnum):
    """What a line of the log looks like (`agent.events`)."""

    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, kw_only=True)
class AgentOptions:
    """What an agent serves, to whom, and what it lets them take."""

    home: Path | None = option(
        None,
        "Folder that 'agent init' made: token, certificate, and a journal that keeps results over "
        "a restart.",
        metavar="FOLDER",
    )
    token_file: Path | None = option(
        None,
        "File with the shared secret, readable by its owner alone; default: the home's.",
        metavar="FILE",
    )
    hw: str = option("pynq-16x16", "Named configuration or YAML file.", metavar="HW")
    bitstream: Path | None = option(
        None, "On a board: bitstream to load, with its .hwh file beside it.", metavar="FILE"
    )
    bitstreams: Path | None = option(
        None,
        "Folder of bitstreams and their manifests: clients choose the configuration. Simulations "
        "build it; --hw names the first.",
        metavar="FOLDER",
    )
    ip: str = option(
        "", "Name of the accelerator in the bitstream, if not found by itself.", metavar="NAME"
    )
    board: str = option(
        "pynq-z2", "Board or YAML file: caches and contiguous memory.", metavar="BOARD"
    )
    listen: str = option(
        DEFAULT_ADDRESS, "Address to listen on; port 0 takes any free port.", metavar="HOST:PORT"
    )
    certificate: Path | None = option(
        None,
        "PEM file with private key and certificate for TLS, readable by its owner alone; default: "
        "the home's, or a new one.",
        metavar="FILE",
    )
    plain: bool = option(False, "Serve without TLS, to clients of this machine alone.")
    max_seconds: float = option(
        Limits.run_seconds, "Seconds of the longest run.", metavar="SECONDS"
    )
    max_program_mib: int = option(
        Limits.program_bytes // _MIB,
        "Most MiB of a program's instructions and constants.",
        metavar="MIB",
    )
    max_memory_mib: int = option(
        Limits.memory_bytes // _MIB, "Most MiB of a program's memory.", metavar="MIB"
    )
    lease_seconds: float = option(
        Limits.lease_seconds,
        "Seconds of silence after which a client loses the device.",
        metavar="SECONDS",
    )
    max_connections: int = option(
        Limits.connections, "Most clients at a time; waiting ones count.", metavar="N"
    )
    grace_seconds: float = option(
        30,
        "On SIGTERM or Ctrl-C: seconds for the run under way; a second one ends it.",
        low=0,
        metavar="SECONDS",
    )
    log: str = option(LogForm.TEXT.value, "Form of the log on standard error.", kind=LogForm)

    def limits(self) -> Limits:
        """What a client may take.

        Raises:
            ConfigError: names the option as it was typed.
        """
        stated: dict[str, Any] = {
            name: getattr(self, option) * unit for name, (option, unit) in _LIMITS.items()
        }
        try:
            return Limits(**stated)
        except ConfigError as error:
            option, unit = _LIMITS[error.field]
            raise ConfigError(
                f"must be a number above 0 and below {most(error.field) // unit:,}",
                field=f"--{option.replace('_', '-')}",
                value=getattr(self, option),
            ) from error
