# SPDX-License-Identifier: Apache-2.0
"""One study of several runs of `bench.tuners`: other tuners, tasks, seeds, arms or noise."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tilewright.bench.arena.records import Record
from tilewright.bench.arena.summary import summarise
from tilewright.host.common.errors import ConfigError
from tilewright.host.common.result_document import rows_of

SHARED: Final = (
    "fidelity",
    "twin",
    "board",
    "memory",
    "space",
    "track",
    "configurations",
    "batch",
    "initial_points",
    "hard",
    "small_budgets",
    "prices",
)
"""Conditions that the parts of a study have in common."""

_IDENTITY: Final[Mapping[str, tuple[str, ...]]] = {
    "task": ("task",),
    "run": ("task", "tuner", "seed", "arm", "noise"),
    "selection": ("task", "seed", "selection"),
    "sampling": ("task", "seed", "trial"),
    "confirmation": ("task", "hw", "schedule"),
}
"""What makes two records of a kind the same."""


def merge(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Several studies as one, its figures computed anew."""
    if not parts:
        raise ConfigError("a study needs a part", field="parts", value=0)
    conditions = [{**part["conditions"], "command": part.get("command", "")} for part in parts]
    for name in SHARED:
        for other in conditions[1:]:
            if other.get(name) != conditions[0].get(name):
                raise ConfigError(
                    "the parts of a study must agree",
                    field=name,
                    value=other.get(name),
                    remedy=f"run both with {conditions[0].get(name)!r}",
                )
    found: dict[str, Record] = {}
    for record in (record for part in parts for record in rows_of(part)):
        names = _IDENTITY[record["what"]]
        key = json.dumps([record["what"], *(record.get(name) for name in names)], sort_keys=True)
        if key not in found or record.get("budget", 0) > found[key].get("budget", 0):
            found[key] = record
    records = list(found.values())
    networks = list(dict.fromkeys(name for c in conditions for name in c["networks"]))
    return {
        "records": records,
        "summary": summarise(
            [r for r in records if r["what"] == "run"],
            networks=networks,
            track=conditions[0]["track"],
        ),
        "conditions": {
            **{name: conditions[0][name] for name in SHARED if name in conditions[0]},
            "networks": networks,
            "parts": conditions,
        },
    }
