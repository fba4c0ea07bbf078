# SPDX-License-Identifier: Apache-2.0
"""One study of several runs of `bench.tuners`: other tuners, tasks, seeds, arms or noise."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tilewright.bench.arena.records import TARGETS, Record
from tilewright.bench.arena.summary import summarise
from tilewright.host.common.errors import ConfigError
from tilewright.host.common.plain_values import is_integer
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


_TASK: Final = ("points", "legal", "optimum_cycles")
"""Members of a task's record that are those of its table, whatever its layer is called."""

_KINDS: Final[tuple[tuple[str, type, Any], ...]] = (
    *(("track", str, None), ("networks", list, None), ("small_budgets", dict, None)),
    *(("failures", list, []), ("runs_missing", int, 0), ("note", str, "")),
)
"""Conditions by their types, and what stands for them where they are not told."""

_REMEDY: Final = "give files that 'tilewright bench tuners' wrote"


def require_parts(parts: Sequence[Mapping[str, Any]]) -> None:
    """Refuse documents that are none of this study, or that do not belong together.

    Raises:
        ConfigError: it names the document by its number and the member.
    """
    if not parts:
        raise ConfigError("a study needs a part", field="parts", value=0)
    first: Any = parts[0].get("conditions")
    tables: dict[str, list[Any]] = {}
    for number, part in enumerate(parts, 1):
        conditions: Any = part.get("conditions")
        place = f"JSON {number}"
        require(isinstance(conditions, Mapping), f"{place}: conditions", "be a mapping", conditions)
        for name, kind, default in _KINDS:
            value = conditions.get(name, default)
            require(isinstance(value, kind), f"{place}: {name}", "be that of a study", value)
        for name in SHARED:
            wanted, value = first.get(name), conditions.get(name)
            require(value == wanted, f"{place}: {name}", f"be that of JSON 1, {wanted!r}", value)
        command = part.get("command", "")
        require(isinstance(command, str), f"{place}: command", "be a text", command)
        for row in rows_of(part):
            what: Any = row.get("what") if isinstance(row, Mapping) else None
            require(str(what) in _IDENTITY, f"{place}: rows", f"be of {', '.join(_IDENTITY)}", what)
            missing = [name for name in _IDENTITY[what] if name not in row]
            require(not missing, f"{place}: rows", f"have {', '.join(missing)}", what)
            field = f"{place}: {what} {row['task']}"
            require(isinstance(row["task"], str), field, "have a text task", row["task"])
            if what == "task":
                counts = [row.get(name) for name in _TASK]
                whole = all(is_integer(count, 1) for count in counts)
                require(whole, field, f"have counts {', '.join(_TASK)}", counts)
                same = tables.setdefault(row["task"], counts) == counts
                require(same, field, f"be the same problem everywhere: {', '.join(_TASK)}", counts)
            elif what == "run":
                _require_run(row, f"{field}: {row['tuner']}, seed {row['seed']}")
                _, _, optimum = tables.get(row["task"], (0, 0, None))
                require(optimum is not None, field, "stand behind its task", row["task"])
                require(row.get("optimum") == optimum, field, f"have the optimum {optimum}", row)


def _require_run(row: Mapping[str, Any], field: str) -> None:
    """Refuse the record of a run whose members contradict each other."""
    budget: Any = row.get("budget")
    regrets: Any = row.get("regret")
    require(isinstance(row["tuner"], str), field, "have a text tuner", row["tuner"])
    require(is_integer(row["seed"], 0), field, "have a seed of at least 0", row["seed"])
    require(is_integer(budget, 1), field, "have a budget of at least 1", budget)
    for name in ("trials", *(f"trials_to_{target}" for target in TARGETS)):
        value = row.get(name, -1)
        fits = is_integer(value, 0, budget) or (value is None and name != "trials")
        require(fits, field, f"have {name} of 0 to {budget}", value)
    require(isinstance(regrets, dict), field, "have regret by budget", regrets)
    for name, value in {"tuner_seconds": row.get("tuner_seconds"), **regrets}.items():
        number = isinstance(value, (int, float)) and 0 <= value < math.inf
        require(number, field, f"have {name} of at least 0", value)


def require(holds: Any, field: str, rule: str, value: Any = None) -> None:
    """Refuse a document that breaks a rule."""
    if not holds:
        raise ConfigError(f"must {rule}", field=field, value=value, remedy=_REMEDY)


def merge(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Several studies as one, its figures computed anew."""
    require_parts(parts)
    conditions = [{**part["conditions"], "command": part.get("command", "")} for part in parts]
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
