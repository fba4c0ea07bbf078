# SPDX-License-Identifier: Apache-2.0
"""IPPO: DCOC's three agents, each with a critic of its own, none of them sees the others' knobs.

Source: de Witt et al., "Is Independent Learning All You Need in the StarCraft Multi-Agent
Challenge?", 2020. What it lacks against DCOC is the central critic alone: agents, moves, masks,
reward, surrogate and sampling are the same.
"""

from __future__ import annotations

from typing import TypeVar

from tilewright.tuner.search.learning.dcoc import DcocTuner

P = TypeVar("P")


class IppoTuner(DcocTuner[P]):
    """Three agents that learn independently; arguments as `DcocTuner`."""

    independent = True
