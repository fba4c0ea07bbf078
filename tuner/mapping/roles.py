# SPDX-License-Identifier: Apache-2.0
"""Roles: which agent decides on which mapping parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.host.common.errors import ConfigError

Roles = Mapping[str, Sequence[str]]
"""Names of agents, with the names of the knobs that each decides on."""


def owned_knobs(knobs: Sequence[str], roles: Roles | None) -> dict[str, list[int]]:
    """Places of the knobs of each agent."""
    if roles is None:
        return {knob: [place] for place, knob in enumerate(knobs)}
    lists = isinstance(roles, Mapping) and all(isinstance(v, Sequence) for v in roles.values())
    named = [knob for own in roles.values() for knob in own] if lists else []
    if sorted(map(str, named)) != sorted(knobs) or not all(roles.values()):
        raise ConfigError(
            "must give every knob to one agent, and every agent a knob",
            field="roles",
            value=roles,
            remedy=f"knobs: {', '.join(knobs)}",
        )
    return {agent: [knobs.index(knob) for knob in own] for agent, own in roles.items()}
