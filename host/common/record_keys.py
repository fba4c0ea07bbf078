# SPDX-License-Identifier: Apache-2.0
"""Keys of a mapping that a data class is made from: none unknown, none missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields

from tilewright.host.common.errors import TilewrightError
from tilewright.host.common.names import choices


def require_keys(
    record: type, values: Mapping[str, object], error: type[TilewrightError], what: str
) -> None:
    """Refuse a mapping that is not exactly the fields of a data class, defaults left out or not."""
    known = fields(record)
    names = [field.name for field in known]
    for key in values:
        if key not in names:
            raise error(
                f"unknown key of a {what}",
                field=str(key),
                remedy=choices(key, names, "known keys"),
            )
    missing = [f.name for f in known if f.default is MISSING and f.name not in values]
    if missing:
        required = ", ".join(f.name for f in known if f.default is MISSING)
        raise error(
            f"must be stated in a {what}",
            field=", ".join(missing),
            remedy=f"fields without a default: {required}",
        )
