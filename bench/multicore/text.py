# SPDX-License-Identifier: Apache-2.0
"""The summary of a study of group mappers as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def markdown(summary: Mapping[str, Any]) -> str:
    """Tables for a page or a terminal: every method, then where ours stands."""
    return "\n".join(_lines(summary))


def _lines(summary: Mapping[str, Any]) -> Iterator[str]:
    gaps, early = summary["gap_to_bound_pct"], summary["gap_to_bound_pct_at_100"]
    ratios, seconds = summary["geomean_vs_magma"], summary["core_seconds_per_run"]
    speed, count = summary["evaluations_per_s"], summary["instances"]
    yield f"{count} instances; {speed:,} mappings per second on one core; intervals of 95 %."
    yield ""
    head = ("method", "throughput against MAGMA", "gap to the bound, %", "after 100 samples, %")
    yield f"| {' | '.join(head)} | core seconds |"
    yield "|---|---|---|---|---|"
    for method in sorted(gaps, key=lambda name: gaps[name]["value"]):
        ratio = _shown(ratios[method], ".3f") if method in ratios else "-"
        cells = (ratio, _shown(gaps[method], ".2f"), format(early[method]["value"], ".1f"))
        yield f"| `{method}` | {' | '.join(cells)} | {seconds[method]:.2f} |"
    if summary["ours_compared"]:
        best, all_ = summary["ours_best_or_tied"], summary["ours_compared"]
        defeat, tight = summary["ours_worst_defeat_pct"], summary["tight_instances"]
        yield ""
        yield f"`tilewright` is the best or ties in {best} of {all_} instances."
        yield f"Elsewhere it is at most {defeat:.3g} % worse than the best other method."
        yield f"In {tight} instances some method is within 3 % of the bound."
        gap = summary["ours_worst_gap_where_tight_pct"]
        yield f"There, `tilewright` is at most {gap:.3g} % above the bound."


def _shown(interval: Mapping[str, float], form: str) -> str:
    value, low, high = (format(interval[name], form) for name in ("value", "low", "high"))
    return f"{value} [{low}, {high}]"
