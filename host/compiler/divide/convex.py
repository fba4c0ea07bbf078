# SPDX-License-Identifier: Apache-2.0
"""Convex sets in a directed acyclic graph: none that a path leaves and enters again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(kw_only=True)
class _Group:
    """Nodes as bit masks."""

    members: int  # of the group
    before: int  # nodes on which a member depends, members among them
    behind: int  # nodes so far that depend on a member and are none

    def joined(self, other: _Group) -> _Group | None:
        """Both as one, or ``None`` if a path would leave it and enter again."""
        members = self.members | other.members
        before = self.before | other.before
        behind = (self.behind | other.behind) & ~members
        if before & behind:
            return None
        return _Group(members=members, before=before, behind=behind)


def convex_groups(sources: Sequence[Sequence[int]], members: Collection[int]) -> list[list[int]]:
    """Connected convex sets of nodes, each as large as greed makes it.

    In topological order each node joins the groups of the nodes that it reads, the latest first,
    where the union is convex.
    """
    allowed = frozenset(members)
    before: list[int] = []
    leader = list(range(len(sources)))
    groups: dict[int, _Group] = {}
    for node, reads in enumerate(sources):
        mask = 0
        for source in reads:
            mask |= before[source] | 1 << source
        before.append(mask)
        if node in allowed:
            group = _Group(members=1 << node, before=mask, behind=0)
            for source in sorted(reads, reverse=True):
                other = _leader(leader, source)
                joined = group.joined(groups[other]) if other in groups else None
                if joined is not None:
                    group = joined
                    leader[other] = node
                    del groups[other]
        for other_group in groups.values():
            if mask & other_group.members:
                other_group.behind |= 1 << node
        if node in allowed:
            groups[node] = group
    return [_bits(group.members) for group in groups.values()]


def _leader(leader: list[int], node: int) -> int:
    """The last node of a node's group, by way of which its members are linked."""
    while leader[node] != node:
        leader[node] = leader[leader[node]]
        node = leader[node]
    return node


def _bits(mask: int) -> list[int]:
    """Positions of the ones, ascending."""
    return [index for index, digit in enumerate(reversed(f"{mask:b}")) if digit == "1"]
