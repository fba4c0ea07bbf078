# SPDX-License-Identifier: Apache-2.0
"""The one shape of the JSON that commands write: what ran, under which conditions, and rows.

Every file is an object with at least these members::

    schema      1; raised when a member changes its meaning
    command     the command line that made it, quoted for a shell
    conditions  what the rows hold under: configuration, board, memory, seed, tools ...
    rows        a list of objects, one per line of the table; numbers in the units of their names

Some commands add ``summary``, or a member that their help names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

SCHEMA: Final = 1

Row = Mapping[str, Any]


def result_document(
    command: str, rows: Sequence[Row], conditions: Row, **more: Any
) -> dict[str, Any]:
    """A document of the one shape."""
    return {
        "schema": SCHEMA,
        "command": command,
        "conditions": dict(conditions),
        "rows": [dict(row) for row in rows],
        **more,
    }


def to_json(document: Row) -> str:
    """The text of a document; infinite and undefined numbers are refused, as JSON has none."""
    return json.dumps(document, indent=1, default=str, allow_nan=False) + "\n"


def rows_of(document: Row) -> list[dict[str, Any]]:
    """The rows of a document; files from before there was a schema call them ``records``."""
    return list(document["rows"] if "rows" in document else document["records"])
