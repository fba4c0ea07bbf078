# SPDX-License-Identifier: Apache-2.0
"""Jobs on cores that share a bandwidth, in exact fractions and as plain as can be.

Written from docs/explanation/multicore-model.md, not from the code that it judges: shares are
poured one level at a time, and a regulated memory is played window by window.
"""

from collections.abc import Sequence
from fractions import Fraction

Shares = dict[int, Fraction]


def poured(limit: Fraction, needs: Shares, weights: Shares) -> Shares:
    """Raises the level of all shares together until each is full or nothing is left."""
    granted = dict.fromkeys(needs, Fraction(0))
    rising = set(needs)
    while rising and limit > 0:
        total = sum(weights[core] for core in rising)
        level = min(
            limit / total, *((needs[core] - granted[core]) / weights[core] for core in rising)
        )
        for core in rising:
            granted[core] += level * weights[core]
        limit -= level * total
        rising = {core for core in rising if granted[core] < needs[core]}
    return granted


def makespan(
    latency: Sequence[Sequence[int]],
    bandwidth: Sequence[Sequence[int]],
    limit: Fraction,
    core: Sequence[int],
    priority: Sequence[float],
    policy: str,
    window: Fraction | None = None,
    budgets: Sequence[Fraction] = (),
    weights: Sequence[Fraction] = (),
) -> Fraction:
    order = sorted(range(len(core)), key=lambda job: (priority[job], job))
    queues = {c: [job for job in order if core[job] == c] for c in set(core)}
    left = {job: Fraction(latency[job][core[job]]) for job in order}
    tokens, to_refill, time = list(budgets), window, Fraction(0)
    while running := {c: queue[0] for c, queue in queues.items() if queue}:
        needs = {c: Fraction(bandwidth[job][c]) for c, job in running.items()}
        if policy == "proportional":
            scale = min(Fraction(1), limit / sum(needs.values()))
            granted = {c: scale * need for c, need in needs.items()}
        elif policy == "priority":
            behind = {c: Fraction(len(order) - order.index(job)) for c, job in running.items()}
            granted = poured(limit, needs, behind)
        elif policy == "equal":
            granted = poured(limit, needs, dict.fromkeys(needs, Fraction(1)))
        else:
            may = {c: need for c, need in needs.items() if tokens[c] > 0}
            granted = dict.fromkeys(needs, Fraction(0))
            granted |= poured(limit, may, {c: weights[c] for c in may})
        events = [left[running[c]] * needs[c] / granted[c] for c in running if granted[c]]
        if window is not None:
            events += [tokens[c] / granted[c] for c in running if granted[c]]
            events.append(to_refill)
        cycles = min(events)
        time += cycles
        for c, job in running.items():
            left[job] -= cycles * granted[c] / needs[c]
            if window is not None:
                tokens[c] -= cycles * granted[c]
            if not left[job]:
                queues[c].pop(0)
        if window is not None:
            to_refill -= cycles
            if not to_refill:
                tokens, to_refill = list(budgets), window
    return time
