# SPDX-License-Identifier: Apache-2.0
"""Dataclasses whose values a user writes into a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from tilewright.host.common.errors import ConfigError, errors_in
from tilewright.host.common.names import choices


def build_record(cls: type, values: Mapping[str, Any], origin: str) -> Any:
    """A dataclass of a file's values: no key unknown, none missing that has no default."""
    known = {f.name for f in fields(cls)}
    for key in values:
        if key not in known:
            raise ConfigError(
                "unknown key",
                field=f"{origin}: {key}",
                remedy=choices(key, sorted(known), "known keys"),
            )
    missing = [
        f.name
        for f in fields(cls)
        if f.default is MISSING and f.default_factory is MISSING and f.name not in values
    ]
    if missing:
        raise ConfigError("a key is missing", field=origin, remedy=f"add {', '.join(missing)}")
    with errors_in(origin):
        return cls(**values)
