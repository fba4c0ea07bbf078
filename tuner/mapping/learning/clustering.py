# SPDX-License-Identifier: Apache-2.0
"""Roles by correlation: knobs that good mappings choose together are decided by one agent.

Source: Krishnan et al., "Multi-Agent Reinforcement Learning for Sample-Efficient Deep Neural
Network Mapping", arXiv 2507.16249, algorithm 1: sample mappings with some policy, keep the best
share, correlate their parameters, cluster, and cut the tree at a height or a number of agents.

A parameter is a block of columns: a tile or a number of PEs is its logarithm; a parallel loop is
one indicator per loop; an order is the place of each loop. Two blocks are as close as their RV
coefficient (Escoufier, 1973), whose root is the size of Pearson's correlation for single columns.

`Linkage.AVERAGE` merges by the distance 1 - correlation, so no merge is above 1. `Linkage.WARD`
merges by the distance between rows of the matrix of correlations: two knobs are close when they
correlate alike with all others. Two knobs that correlate with nothing are sqrt(2) apart there, and
blocks of alike knobs further, the more the larger they are. So cuts at 0.5 and at 2.5 are both
possible, as the paper has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy.cluster.hierarchy import cut_tree, fcluster, linkage
from scipy.spatial.distance import squareform

from tilewright.host.common.errors import ConfigError
from tilewright.host.common.str_enum import StrEnum
from tilewright.tuner.mapping.mapping import Batch
from tilewright.tuner.mapping.nest import DIMENSIONS
from tilewright.tuner.mapping.roles import Roles
from tilewright.tuner.mapping.space import LEVELS, MappingSpace

Reals = npt.NDArray[np.float64]

KEPT: Final = 0.15
"""Share of the samples that are correlated: the best."""


class Linkage(StrEnum):
    """What two branches are merged by."""

    AVERAGE = "average"
    """The mean of 1 - correlation over their pairs of knobs."""
    WARD = "ward"
    """The growth of the variance of the rows of correlations (Ward, 1963)."""


@dataclass(frozen=True, kw_only=True)
class Clustering:
    """How knobs belong together."""

    knobs: tuple[str, ...]  # names of those that have a choice
    idle: tuple[str, ...]  # names of those of one value, which nobody has to decide on
    correlation: Reals  # shape ``[knobs, knobs]``, from 0 to 1
    tree: Reals  # SciPy's linkage matrix, shape ``[knobs - 1, 4]``

    def roles(self, agents: int, cut: float | None = None) -> Roles:
        """A role per branch of the tree, cut at a height or, where none is given, into ``agents``.

        Of branches at equal heights, those that were merged last are parted first.
        """
        if agents < 1:
            raise ConfigError("must be at least 1", field="agents", value=agents)
        if len(self.knobs) < 2:
            return {"agent 1": (*self.knobs, *self.idle)}
        if cut is None:
            branches = cut_tree(self.tree, min(agents, len(self.knobs)))[:, 0]
        else:
            branches = fcluster(self.tree, cut, criterion="distance")
        found: dict[int, list[str]] = {}
        for knob, branch in zip(self.knobs, branches.tolist(), strict=True):
            found.setdefault(branch, []).append(knob)
        roles = {f"agent {n}": own for n, own in enumerate(found.values(), 1)}
        roles["agent 1"] += self.idle
        return roles

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for the notes of a trace."""
        return {
            "knobs": list(self.knobs),
            "idle": list(self.idle),
            "correlation": self.correlation.round(4).tolist(),
            "tree": self.tree.round(4).tolist(),
        }


def cluster(
    space: MappingSpace,
    rows: Batch,
    costs: Reals,
    *,
    kept: float = KEPT,
    by: Linkage = Linkage.WARD,
) -> Clustering:
    """Cluster a space's knobs by what the best samples, a share of ``kept``, have in common."""
    order = np.argsort(costs, kind="stable")[: int(np.ceil(kept * np.isfinite(costs).sum()))]
    if len(order) < 2:
        raise ConfigError(
            "must keep at least 2 legal samples", field="rows", value=len(order),
            remedy="sample more",
        )  # fmt: skip
    names = [knob.name for knob in space.knobs]
    free = [len(knob) > 1 for knob in space.knobs]
    blocks = [block for block, one in zip(_blocks(rows[order]), free, strict=True) if one]
    correlation = np.array([[_association(a, b) for b in blocks] for a in blocks])
    np.fill_diagonal(correlation, 1.0)
    return Clustering(
        knobs=tuple(name for name, one in zip(names, free, strict=True) if one),
        idle=tuple(name for name, one in zip(names, free, strict=True) if not one),
        correlation=correlation,
        tree=tree_of(correlation, by) if len(blocks) > 1 else np.zeros((0, 4)),
    )


def tree_of(correlation: Reals, by: Linkage) -> Reals:
    """SciPy's linkage matrix of knobs by their correlations, shape ``[knobs, knobs]``."""
    if by is Linkage.WARD:
        found: Reals = linkage(correlation, method="ward")
    else:
        found = linkage(squareform(np.maximum(1 - correlation, 0), checks=False), method="average")
    return found


def _blocks(rows: Batch) -> Sequence[Reals]:
    """Standardised columns of each knob, in the order of the space."""
    loops = np.arange(len(DIMENSIONS))
    columns = [
        *(np.log(tile)[:, None] for level in LEVELS for tile in rows[:, level.tile].T),
        *(np.argsort(rows[:, level.order], axis=1) for level in LEVELS),
        *(rows[:, level.parallel, None] == loops for level in LEVELS),
        *(np.log(rows[:, level.units, None]) for level in LEVELS),
    ]
    return [_standardised(each.astype(np.float64)) for each in columns]


def _standardised(columns: Reals) -> Reals:
    """Mean 0, variance 1; a column that never changes is 0."""
    spread = columns.std(axis=0)
    found: Reals = (columns - columns.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return found


def _association(one: Reals, other: Reals) -> float:
    """The root of the RV coefficient; 0 where a block never changes."""
    across = np.square(one.T @ other).sum()
    within = np.square(one.T @ one).sum() * np.square(other.T @ other).sum()
    return float((across / np.sqrt(within)) ** 0.5) if within > 0 else 0.0
