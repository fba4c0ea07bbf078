# SPDX-License-Identifier: Apache-2.0
"""PPO: one agent that moves every knob, with the heads, masks, reward and sampling of DCOC.

Source: Schulman et al., "Proximal Policy Optimization Algorithms", 2017; as a tuner's explorer:
CHAMELEON (Ahn et al., ICLR 2020). The one difference to DCOC is that a single network, with one
probability ratio, decides on all knobs.
"""

from __future__ import annotations

from typing import Any, TypeVar

from tilewright.tuner.search.learning.dcoc import DcocTuner
from tilewright.tuner.search.learning.policy import Agent, View, single_agent
from tilewright.tuner.search.space import Space

P = TypeVar("P")


class PpoTuner(DcocTuner[P]):
    """A single agent; arguments as `DcocTuner` (``view`` has no effect)."""

    @classmethod
    def agents(cls, space: Space[Any], view: View) -> tuple[Agent, ...]:
        """One agent that owns and sees every knob."""
        del view
        return single_agent(space)
