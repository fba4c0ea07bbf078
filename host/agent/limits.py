# SPDX-License-Identifier: Apache-2.0
"""`Limits`: what an agent lets a client take, checked before memory is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tilewright.host.errors import ConfigError

MAX_WAIT_SECONDS = 7 * 24 * 3600.0
"""Longest wait for a turn that a client may ask for."""

_MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of a session.

    Attributes:
        program_bytes: instructions and constants of a program.
        memory_bytes: memory image of a program.
        run_seconds: longest run.
        lease_seconds: silence after which a client loses the device.
        connections: clients that know the token at a time, those that wait included.
    """

    program_bytes: int = 128 * _MIB
    memory_bytes: int = 128 * _MIB
    run_seconds: float = 60.0
    lease_seconds: float = 30.0
    connections: int = 64

    def __post_init__(self) -> None:
        """Refuse what is not a positive number."""
        for name, value in asdict(self).items():
            whole = name not in ("run_seconds", "lease_seconds")
            kinds = (int,) if whole else (int, float)
            if isinstance(value, bool) or not isinstance(value, kinds) or not 0 < value < 2**40:
                raise ConfigError(
                    "must be a number above 0 and below 2^40", field=name, value=value
                )

    def to_mapping(self) -> dict[str, int | float]:
        """Plain values, for a message."""
        return asdict(self)

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any]) -> Limits:
        """From the values of a message.

        Raises:
            ConfigError: a value that is missing, unknown or no positive number.
        """
        try:
            return cls(**data)
        except TypeError as error:
            raise ConfigError("must be limits", field="limits") from error
