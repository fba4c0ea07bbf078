# SPDX-License-Identifier: Apache-2.0
"""`Limits`: what an agent lets a client take, checked before memory is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tilewright.host.common.errors import ConfigError

MAX_WAIT_SECONDS = 7 * 24 * 3600.0
"""Longest wait for a turn that a client may ask for."""

_MIB = 1 << 20
_BOUND = 1 << 40
_MOST_SECONDS = 1 << 30
"""34 years: a socket takes no time-out of 300."""

_IN_SECONDS = ("run_seconds", "lease_seconds")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of a session."""

    program_bytes: int = 128 * _MIB  # instructions and constants of a program
    memory_bytes: int = 128 * _MIB  # memory image of a program
    run_seconds: float = 60  # longest run
    lease_seconds: float = 30  # silence after which a client loses the device
    connections: int = 64  # clients that know the token at a time, those that wait included

    def __post_init__(self) -> None:
        """Refuse what is not a positive number."""
        for name, value in asdict(self).items():
            kinds = (int, float) if name in _IN_SECONDS else (int,)
            bound = most(name)
            if isinstance(value, bool) or not isinstance(value, kinds) or not 0 < value < bound:
                raise ConfigError(
                    f"must be a number above 0 and below 2^{bound.bit_length() - 1}",
                    field=name,
                    value=value,
                )

    def to_mapping(self) -> dict[str, int | float]:
        """Plain values, for a message."""
        return asdict(self)

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any]) -> Limits:
        """From the values of a message."""
        try:
            return cls(**data)
        except TypeError as error:
            raise ConfigError("must be limits", field="limits") from error


def most(name: str) -> int:
    """What a limit is below."""
    return _MOST_SECONDS if name in _IN_SECONDS else _BOUND
