# SPDX-License-Identifier: Apache-2.0
"""`tw_grant` against its description in Python, cycle by cycle."""

from __future__ import annotations

import pytest
from builds import open_unit, packed
from support.randomness import fresh_rng, where

CYCLES = 8000


class Grants:
    """Turns by weight, tokens by budget, an offer that stands until it is taken."""

    def __init__(self, masters: int) -> None:
        self.masters = masters
        self.tokens = [0] * masters
        self.turn = self.left = 0
        self.standing: int | None = None

    def open(self, budget: list[int]) -> list[bool]:
        return [not budget[m] or self.tokens[m] > 0 for m in range(self.masters)]

    def offer(self, asks: list[bool], budget: list[int], room: bool) -> int | None:
        """Who is offered to the port in this cycle."""
        if self.standing is not None:
            return self.standing
        wants = [a and o for a, o in zip(asks, self.open(budget), strict=True)]
        if not room or not any(wants):
            return None
        if self.left and wants[self.turn]:
            return self.turn
        order = [(self.turn + step) % self.masters for step in range(1, self.masters + 1)]
        return next(m for m in order if wants[m])

    def step(
        self, owner: int | None, taken: bool, beats: list[int], weight: list[int],
        budget: list[int], refill: bool,
    ) -> None:  # fmt: skip
        for m in range(self.masters):
            if refill:
                self.tokens[m] = budget[m] + min(self.tokens[m], 0)
            if taken and m == owner:
                self.tokens[m] -= beats[m]
            if not budget[m]:
                self.tokens[m] = 0
        self.standing = owner if owner is not None and not taken else None
        if taken and owner is not None:
            self.left = (self.left if owner == self.turn and self.left else weight[owner] or 1) - 1
            self.turn = owner


@pytest.mark.parametrize("masters", [1, 3])
def test_bursts_go_by_turns_and_tokens(masters):
    rng = fresh_rng()
    sim, model = open_unit("tw_grant", reset=2, Masters=masters), Grants(masters)
    io = sim.io
    weight, budget = [1] * masters, [0] * masters
    asks, beats = [False] * masters, [1] * masters
    seen = {"throttled": 0, "stood without tokens": 0}
    busy = 0.5
    for cycle in range(CYCLES):
        if cycle % 90 == 0:  # the host
            weight = [int(w) for w in rng.integers(0, 16, masters)]
            budget = [int(b) for b in rng.choice([0, 0, 1, 20, 60], masters)]
            busy = float(rng.choice([0.05, 0.5, 0.95]))
        for m in range(masters):
            if not asks[m] and rng.random() < busy:
                asks[m], beats[m] = True, int(rng.integers(1, 17))
        refill, room, ready = cycle % 40 == 0, rng.random() < 0.8, rng.random() < 0.3
        io.weight_i, io.budget_i = packed(weight, 4), packed(budget, 16)
        io.request_i, io.len_i = packed(asks, 1), packed((b - 1 for b in beats), 8)
        io.refill_i, io.room_i, io.ready_i = int(refill), int(room), int(ready)
        sim.settle()
        owner, may = model.offer(asks, budget, room), model.open(budget)
        waits = [asks[m] and m != owner for m in range(masters)]
        facts = where(cycle=cycle, weight=weight, budget=budget)
        assert io.valid_o == (owner is not None), facts
        if owner is not None:
            assert io.owner_o == owner, facts
            seen["stood without tokens"] += not may[owner]
        assert io.grant_o == (1 << owner if owner is not None and ready else 0), facts
        assert io.waited_o == packed((w and o for w, o in zip(waits, may, strict=True)), 1), facts
        throttled = [w and not o for w, o in zip(waits, may, strict=True)]
        assert io.throttled_o == packed(throttled, 1), facts
        seen["throttled"] += any(throttled)
        sim.clock.tick()
        model.step(owner, ready, beats, weight, budget, refill)
        if owner is not None and ready:
            asks[owner] = False
    sim.close()
    assert all(seen.values()), f"{seen}: {where()}"
