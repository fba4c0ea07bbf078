# SPDX-License-Identifier: Apache-2.0
"""The best mapping of a nest, with a proof: `best_mapping`.

`native/exact.h` searches by branch and bound. Every cost rises with every count of every loop, so
the least counts of a set of choices bound its cost from below. docs/explanation/exact-mapper.md
tells why nothing is missed.
"""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

import numpy as np

from tilewright.host.common.errors import ConfigError
from tilewright.tuner.mapping.architecture import Architecture
from tilewright.tuner.mapping.cost import (
    CostModel,
    Objective,
    Resident,
    c_architecture,
    c_nest,
    mapping_library,
    require_priced,
)
from tilewright.tuner.mapping.fixed import FREE, Fixed
from tilewright.tuner.mapping.mapping import COLUMNS, Batch, Mapping, mapping_of
from tilewright.tuner.mapping.nest import LoopNest

FIRST_NODES: Final = 2_000
FEWEST_NODES: Final = 100
"""Bounds computed before Python looks at the clock: at first, and at least."""

STEP_SECONDS: Final = 0.05
"""Aim for one step. A bound takes 100 ns to milliseconds: long loops have many choices to list."""

LISTED: Final = 4096
"""Sets of at most so many choices for a loop are listed and compared; larger ones are split. It
changes the time of a search and nothing else."""

_OBJECTIVES: Final = tuple(Objective)
"""The order of `Objective` in native/orders.h."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where a search stands."""

    value: float  # cost of the best mapping found; infinite: none yet
    bound: float  # no mapping costs less
    nodes: int  # bounds computed
    open: int  # nodes that are neither split nor ruled out

    @property
    def gap(self) -> float:
        """What a better mapping could save at most, as a share of ``value``."""
        return gap_of(self.value, self.bound)

    def within(self, gap: float) -> bool:
        """Whether no mapping saves more than this share; as native/exact.h decides it."""
        return math.isfinite(self.value) and self.bound >= self.value * (1 - gap)


def gap_of(value: float, bound: float) -> float:
    """What could be saved of ``value`` at most, as a share; all, as long as there is no value."""
    if not math.isfinite(value):
        return 1.0
    return 1 - bound / value if bound < value else 0.0


Listener = Callable[[Progress], None]


@dataclass(frozen=True, kw_only=True)
class Certified(Progress):
    """The best mapping found, and how good a mapping can be at most."""

    mapping: Mapping  # the mapping
    cost: dict[str, float]  # by the names of `MEASURES`
    seconds: float  # processor time of the search
    stopped: bool = False  # Ctrl-C ended the search

    @property
    def optimal(self) -> bool:
        """No mapping costs less: proven."""
        return self.bound >= self.value


class _CProgress(ctypes.Structure):
    """`Progress` of native/exact.h."""

    _fields_ = (
        ("best", ctypes.c_double),
        ("bound", ctypes.c_double),
        ("nodes", ctypes.c_int64),
        ("open", ctypes.c_int64),
        ("done", ctypes.c_int32),
    )


class ExactSearch:
    """A search that is run step by step; it depends on its arguments alone.

    Args:
        fixed: what every mapping has.
        resident: see `CostModel`.
        value_limit: mappings that cost as much or more are not looked for.
        front_gap: look for the front of latency and energy instead; a mapping is left out if one
            there is worse by at most this share in both.

    Attributes:
        done: the best mapping is proven, or it is proven that there is none.
    """

    def __init__(
        self,
        nest: LoopNest,
        arch: Architecture,
        objective: Objective,
        *,
        fixed: Fixed = FREE,
        resident: Collection[Resident] = (),
        area_limit: float = math.inf,
        value_limit: float = math.inf,
        listed: int = LISTED,
        front_gap: float | None = None,
    ) -> None:
        self._library: Final = mapping_library()
        self._state = _CProgress(math.inf, 0.0, 0, 0, 0)
        self._row: Final[Batch] = np.zeros(len(COLUMNS), dtype=np.int32)
        self._search: Final = self._library.tw_mapping_exact_new(
            ctypes.byref(c_nest(nest, resident)),
            ctypes.byref(c_architecture(fixed.within(arch))),
            _OBJECTIVES.index(objective) if front_gap is None else len(_OBJECTIVES),
            area_limit,
            listed,
            ctypes.byref(fixed.native()),
            front_gap or 0.0,
            value_limit,
        )

    def __del__(self) -> None:
        """Free the native search."""
        if hasattr(self, "_search"):
            self._library.tw_mapping_exact_free(self._search)

    def step(self, nodes: int = 200_000, gap: float = 0.0) -> Progress:
        """Compute about so many bounds more; stops early within a relative ``gap``."""
        self._library.tw_mapping_exact_run(
            self._search, nodes, gap, ctypes.byref(self._state), self._row.ctypes.data
        )
        return self.progress

    @property
    def progress(self) -> Progress:
        """Where the search stands."""
        state = self._state
        return Progress(value=state.best, bound=state.bound, nodes=state.nodes, open=state.open)

    @property
    def done(self) -> bool:
        """Whether nothing is left to prove."""
        return bool(self._state.done)

    def front(self) -> Batch:
        """Mappings of the front by now, fewest cycles first, shape ``[n, len(COLUMNS)]``."""
        count = self._library.tw_mapping_exact_front(self._search, None, 0)
        rows = np.zeros((count, len(COLUMNS)), dtype=np.int32)
        self._library.tw_mapping_exact_front(self._search, rows.ctypes.data, count)
        return rows

    @property
    def found(self) -> bool:
        """Whether there is a mapping by now."""
        front = self._library.tw_mapping_exact_front(self._search, None, 0)
        return math.isfinite(self._state.best) or front > 0

    @property
    def mapping(self) -> Mapping | None:
        """The best mapping found."""
        return mapping_of(self._row) if math.isfinite(self._state.best) else None


def best_mapping(
    nest: LoopNest,
    arch: Architecture,
    objective: Objective = Objective.EDP,
    *,
    fixed: Fixed = FREE,
    seconds: float | None = None,
    gap: float = 0.0,
    listener: Listener | None = None,
) -> Certified:
    """The mapping that costs least, proven; of those of equal area the one of least latency.

    Of the mappings that have what is ``fixed``.

    Ctrl-C ends the search, not the program: the result is then the best mapping found so far.

    Example:
        >>> from tilewright.tuner.mapping.architecture import load_architecture
        >>> nest = LoopNest(name="fc", sizes=(64, 256, 1, 1, 1, 1))
        >>> found = best_mapping(nest, load_architecture("flexible-256"), Objective.LATENCY)
        >>> found.optimal, found.value == found.cost["cycles"]
        (True, True)
    """
    for name, limit, most in (("seconds", seconds or 0.0, math.inf), ("gap", gap, 1.0)):
        if not 0 <= limit <= most:
            raise ConfigError(
                "must be a number that is not negative" + (", at most 1" if name == "gap" else ""),
                field=name,
                value=limit,
            )
    require_priced(arch, objective)
    fixed.require_possible(nest, arch)
    started = time.thread_time()
    search = ExactSearch(nest, arch, objective, fixed=fixed)
    stopped = run_search(search, started, seconds, gap, listener)
    found, mapping = search.progress, search.mapping
    if mapping is None:
        raise nothing_fits(arch, fixed)
    if objective is Objective.AREA and not stopped:
        fast = ExactSearch(nest, arch, Objective.LATENCY, fixed=fixed, area_limit=found.value)
        try:
            stopped = run_search(fast, started, seconds, gap, None)
        except KeyboardInterrupt:  # of the least area there is one already
            stopped = True
        mapping = fast.mapping or mapping
    return Certified(
        value=found.value,
        bound=found.bound,
        nodes=found.nodes,
        open=found.open,
        mapping=mapping,
        cost=CostModel(nest, arch).cost(mapping),
        seconds=time.thread_time() - started,
        stopped=stopped,
    )


def run_search(
    search: ExactSearch,
    started: float,
    seconds: float | None,
    gap: float,
    listener: Listener | None,
) -> bool:
    """Run a search to its end; whether Ctrl-C was that end."""
    nodes = FIRST_NODES
    try:
        while not search.done:
            before = time.thread_time()
            progress = search.step(nodes, gap)
            now = time.thread_time()
            if listener is not None:
                listener(progress)
            late = seconds is not None and now - started >= seconds
            if progress.within(gap) or (late and search.found and progress.bound):
                break
            faster = STEP_SECONDS / max(now - before, 1e-6)
            nodes = max(FEWEST_NODES, int(nodes * min(faster, 2)))
    except KeyboardInterrupt:
        if not search.found:
            raise
        return True
    return False


def nothing_fits(arch: Architecture, fixed: Fixed = FREE) -> ConfigError:
    """No mapping is legal: of those with what is fixed, or at all."""
    what = "a mapping with what is fixed" if fixed else "one multiply-accumulate's operands"
    smaller = "fix less or smaller tiles, or " if fixed else ""
    return ConfigError(
        f"the buffers hold not even {what}",
        field="l1_bytes, l2_bytes",
        value=f"{arch.l1_bytes}, {arch.l2_bytes}",
        remedy=f"{smaller}give larger buffers, or 0 for as large as needed, in {arch.name}",
    )


def with_best_orders(model: CostModel, objective: Objective, batch: Batch) -> Batch:
    """Mappings with the loop orders that cost least, their tiles kept; shape as ``batch``.

    A mapping that is not legal stays as it is.
    """
    rows = np.array(batch, dtype=np.int32)
    rules = model.costs(rows).rules
    legal = np.ascontiguousarray(rows[rules == 0])
    mapping_library().tw_mapping_order(
        ctypes.byref(c_nest(model.nest)),
        ctypes.byref(c_architecture(model.arch)),
        _OBJECTIVES.index(objective),
        legal.ctypes.data,
        len(legal),
    )
    rows[rules == 0] = legal
    return rows
