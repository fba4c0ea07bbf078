# SPDX-License-Identifier: Apache-2.0
"""A mapping from a file: ours, Timeloop's or ZigZag's (`exchange` writes all three).

What another tool's file says must be the whole of a mapping of ours: written again, it has the same
factors. Anything that the model does not have is refused by its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from math import prod
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.errors import ConfigError, errors_in
from tilewright.host.common.plain_values import is_integer, plain_integer
from tilewright.host.common.yaml_files import read_yaml
from tilewright.tuner.mapping.cost import CostModel, Objective
from tilewright.tuner.mapping.exchange import MEMORIES, TIMELOOP_NAMES, factors_of, zigzag_names
from tilewright.tuner.mapping.mapping import Level, Mapping, mapping_from
from tilewright.tuner.mapping.nest import DIMENSIONS, LoopNest

Cuts = dict[str, tuple[int, int, int, int, int]]
"""Factors of each loop, outermost first, as `exchange.Factors.all`."""


@dataclass(frozen=True, kw_only=True)
class Stated:
    """A mapping that a file states."""

    mapping: Mapping
    form: str  # tilewright, timeloop or zigzag
    facts: dict[str, Any] = field(default_factory=dict)  # what our files tell besides


def read_mapping(path: Path, model: CostModel, objective: Objective = Objective.EDP) -> Stated:
    """The mapping of a layer that a file states; its form is recognised.

    A file of ZigZag does not say which memory holds which loops, unless `zigzag_yaml` wrote it: of
    all ways the legal one is taken whose ``objective`` is least.

    Raises:
        ConfigError: the file states no mapping, one of another layer, or what no mapping has.
    """
    document, text = read_yaml(path, "a mapping")
    with errors_in(str(path)):
        if isinstance(document, list):
            return Stated(mapping=_zigzag(document, text, model, objective), form="zigzag")
        if isinstance(document, dict) and isinstance(document.get("mapping"), list):
            return Stated(mapping=_timeloop(document["mapping"], model), form="timeloop")
        facts = document if isinstance(document, dict) and "mapping" in document else {}
        mapping = mapping_from(facts.get("mapping", document))
        _require_layer(facts, model.nest)
        return Stated(mapping=mapping, form="tilewright", facts=facts)


def _require_layer(facts: dict[str, Any], nest: LoopNest) -> None:
    own = nest.to_row()
    for name in ("kind", "sizes", "strides"):
        if name in facts and facts[name] != own[name]:
            raise ConfigError(
                f"must be that of {nest.name} ({own[name]})",
                field=name,
                value=facts[name],
                remedy="name the layer that the mapping was made for",
            )


def _cannot(what: str, value: object, remedy: str = "") -> ConfigError:
    return ConfigError(f"cannot be expressed: {what}", field="mapping", value=value, remedy=remedy)


def _mapping(
    model: CostModel, cuts: Cuts, orders: tuple[str, str], preferred: tuple[str, str]
) -> Mapping:
    """The mapping that makes these factors; ``preferred``: parallel loops where one unit works."""
    nest, arch = model.nest, model.arch
    levels, units = [], []
    for place, unit, allowed, loop, order in (
        (1, "clusters", arch.outer_parallel, preferred[0], orders[0]),
        (3, "PEs of a cluster", arch.inner_parallel, preferred[1], orders[1]),
    ):
        wide = [d for d in DIMENSIONS if cuts[d][place] > 1]
        if len(wide) > 1:
            raise _cannot(f"{unit} share one loop", f"{' and '.join(wide)} are spatial")
        shared = (*wide, *(d for d in loop + allowed if d in allowed))[0]
        units.append(cuts[shared][place])
        inside = (prod(cuts[d][place + 1 :]) for d in DIMENSIONS)
        k, c, y, x, r, s = map(min, nest.sizes, inside)
        levels.append(Level(tile=(k, c, y, x, r, s), order=order, parallel=shared))
    found = Mapping(outer=levels[0], inner=levels[1], clusters=units[0], cluster_size=units[1])
    for (d, own), size in zip(factors_of(nest, found).items(), nest.sizes, strict=True):
        if own.all != cuts[d]:
            raise _other_layer(nest, d, size, cuts[d])
    return found


def _other_layer(nest: LoopNest, loop: str, size: int, factors: tuple[int, ...]) -> ConfigError:
    return ConfigError(
        f"must make the {size} iterations of {nest.name}, with work in every step",
        field=f"mapping ({loop})",
        value=" x ".join(map(str, factors)),
        remedy="name the layer that the mapping was made for",
    )


# -- Timeloop -------------------------------------------------------------------------------

_PLACES: Final = {
    ("DRAM", "temporal"): 0,
    ("L2", "spatial"): 1,
    ("Cluster", "temporal"): 2,
    ("Cluster", "spatial"): 3,
    ("L1", "temporal"): 4,
}
_LOOPS: Final = {theirs: ours for ours, theirs in TIMELOOP_NAMES.items()}


def _timeloop(directives: list[Any], model: CostModel) -> Mapping:
    factors = {d: [1] * len(_PLACES) for d in DIMENSIONS}
    last = {d: [0] * len(_PLACES) for d in DIMENSIONS}  # the last index of each factor
    orders = ["".join(DIMENSIONS)] * len(_PLACES)
    for directive in directives:
        if not isinstance(directive, dict):
            raise ConfigError("must be a list of directives", field="mapping", value=directive)
        target, kind = directive.get("target"), directive.get("type")
        at = f"{target} {kind}"
        if kind in ("bypass", "dataspace", "datatype"):
            if directive.get("bypass") and target != "Cluster":
                raise _cannot("L2 and L1 hold every tensor", f"{at}: {directive['bypass']}")
            continue
        place = _PLACES.get((str(target), str(kind)))
        for name, factor, rest in _timeloop_factors(directive.get("factors", ""), at):
            if name not in _LOOPS or place is None:
                if factor == 1:
                    continue
                rule = (
                    "a nest has the loops K C Q P S R"
                    if place is not None
                    else ("loops are temporal at DRAM, Cluster and L1, spatial at L2 and Cluster")
                )
                raise _cannot(rule, f"{at}: {name}={factor}")
            factors[_LOOPS[name]][place] = factor
            last[_LOOPS[name]][place] = rest - 1
        if place is not None:
            orders[place] = _timeloop_order(directive.get("permutation", ""), at)
    cuts = {d: (f[0], f[1], f[2], f[3], f[4]) for d, f in factors.items()}
    for (d, cut), size in zip(cuts.items(), model.nest.sizes, strict=True):
        end = 0
        for factor, digit in zip(cut, last[d], strict=True):
            end = end * factor + digit
        if end + 1 != size:
            raise _other_layer(model.nest, d, size, cut)
    return _mapping(model, cuts, (orders[0], orders[2]), (orders[1], orders[3]))


def _timeloop_factors(stated: object, at: str) -> Iterator[tuple[str, int, int]]:
    """Loop, factor and the last factor of ``K=3,1 C=8``, or of a list of such texts."""
    text = " ".join(map(str, stated)) if isinstance(stated, list) else str(stated)
    for word in text.split():
        match = re.fullmatch(r"([A-Z])=?([1-9]\d{0,6})(?:,([1-9]\d{0,6}))?", word)
        if match is None:
            raise ConfigError(
                "a factor must be LOOP=FACTOR or LOOP=FACTOR,LAST", field=at, value=word
            )
        yield match[1], int(match[2]), int(match[3] or match[2])


def _timeloop_order(stated: object, at: str) -> str:
    """Our order, outermost first; a loop that is left out turns around the others."""
    text = "".join(map(str, stated)) if isinstance(stated, list) else str(stated)
    letters = re.sub(r"[\s,]", "", text)
    loops = [_LOOPS[name] for name in letters if name in _LOOPS]
    if len(set(loops)) != len(loops) or set(letters) - {*_LOOPS, "N"}:
        raise ConfigError(
            "must name some of N K C Q P S R, once each", field=f"{at}: permutation", value=stated
        )
    return "".join([d for d in DIMENSIONS if d not in loops] + loops[::-1])


# -- ZigZag ---------------------------------------------------------------------------------

MOST_TURNS: Final = 64
"""Loops of a file: all ways to give them to three memories are tried."""


def _zigzag(entries: list[Any], text: str, model: CostModel, objective: Objective) -> Mapping:
    nest = model.nest
    entry = _zigzag_entry(entries, nest)
    ours = {theirs: d for d, theirs in zigzag_names(nest.kind).items()}

    def loops(stated: object, at: str) -> list[tuple[str, int]]:
        found = []
        for pair in stated if isinstance(stated, list) else [stated]:
            parts = pair if isinstance(pair, list) else re.split(r" *, *", str(pair))
            name, value = str(parts[0]) if parts else "", parts[-1] if parts else None
            factor = plain_integer(value)
            if len(parts) != 2 or not is_integer(factor, 1):
                raise ConfigError("must be LOOP and FACTOR", field=at, value=pair)
            if name in ours:
                found.append((ours[name], factor))
            elif factor > 1:
                raise _cannot(f"a {nest.kind} nest has the loops {' '.join(ours)}", f"{at}: {pair}")
        return found

    spatial = entry.get("spatial_mapping")
    if not isinstance(spatial, dict) or set(spatial) - {"D1", "D2"}:
        raise _cannot("an array has the dimensions D1 (clusters) and D2 (PEs)", spatial)
    shared = [loops(spatial.get(side, []), side) for side in ("D1", "D2")]
    turns = loops(entry.get("temporal_ordering", []), "temporal_ordering")
    if len(turns) > MOST_TURNS:
        raise ConfigError(
            f"must have at most {MOST_TURNS} loops", field="temporal_ordering", value=len(turns)
        )
    marked = _marked_ends(text, len(turns)) if len(entries) == 1 else []
    found: list[tuple[float, Mapping]] = []
    problem: ConfigError | None = None
    for first, second in marked or combinations_with_replacement(range(len(turns) + 1), 2):
        parts = (turns[:first], turns[first:second], turns[second:])
        try:
            mapping = _zigzag_mapping(model, shared, parts)
        except ConfigError as error:
            problem = problem or error
            continue
        if marked:
            return mapping
        value = float(model.costs(mapping.row()[None]).of(objective)[0])
        found.append((value, mapping))
    if not found:
        assert problem is not None
        raise problem
    return min(found, key=lambda pair: pair[0])[1]


def _zigzag_entry(entries: list[Any], nest: LoopNest) -> dict[str, Any]:
    """The entry of a layer, or the default one."""
    named = {str(each.get("name")): each for each in entries if isinstance(each, dict)}
    entry = named.get(nest.name, named.get("default"))
    if entry is None:
        raise ConfigError(
            f"must have an entry of {nest.name}, or one called default",
            field="name",
            value=", ".join(named),
        )
    return dict(entry)


def _marked_ends(text: str, count: int) -> list[tuple[int, int]]:
    """Where the loops of L1 and L2 end, if each step is marked with its memory."""
    known = "|".join(MEMORIES)
    marks = re.findall(rf"(?m)^ *- *\[ *\w+ *, *\d+ *\] *# ({known})$", text)
    if len(marks) != count or sorted(marks, key=MEMORIES.index) != marks:
        return []
    return [(marks.count(MEMORIES[0]), count - marks.count(MEMORIES[2]))]


def _zigzag_mapping(
    model: CostModel,
    shared: list[list[tuple[str, int]]],
    turns: tuple[list[tuple[str, int]], ...],
) -> Mapping:
    """``shared``: loops of D1 and D2; ``turns``: loops of L1, L2 and DRAM, innermost first."""
    factors = {d: [1, 1, 1, 1, 1] for d in DIMENSIONS}
    orders = []
    for place, loops in ((1, shared[0]), (3, shared[1]), (4, turns[0])):
        for d, factor in loops:
            factors[d][place] *= factor
    for place, loops in ((0, turns[2]), (2, turns[1])):
        order = ""
        for d, factor in loops:
            if d in order[:-1] and d != order[-1]:
                raise _cannot("a loop turns once at a level", f"{d} turns around others twice")
            order += "" if order.endswith(d) else d
            factors[d][place] *= factor
        rest = "".join(d for d in DIMENSIONS if d not in order)
        orders.append(rest + order[::-1])
    cuts = {d: (f[0], f[1], f[2], f[3], f[4]) for d, f in factors.items()}
    first = ("".join(d for d, _ in shared[0]), "".join(d for d, _ in shared[1]))
    return _mapping(model, cuts, (orders[0], orders[1]), first)
