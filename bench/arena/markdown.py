# SPDX-License-Identifier: Apache-2.0
"""Figures and tables as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence


def or_more(value: float | None) -> str:
    """A censored median."""
    return "more" if value is None else f"{value:.0f}"


def median_interval(value: float | None, interval: Mapping[str, float], budget: float) -> str:
    """A censored median with its interval; bounds above the budget were not reached."""
    ends = [or_more(None if interval[k] > budget else interval[k]) for k in ("low", "high")]
    if value is None:
        return "more" if ends[0] == "more" else f"more ({ends[0]} to more)"
    return f"{or_more(value)} ({ends[0]} to {ends[1]})"


def ratio_interval(interval: Mapping[str, float] | None) -> str:
    """A ratio with its interval."""
    if interval is None:
        return "-"
    sign = "> " if interval.get("bound") else ""
    return sign + "{value:.2f} ({low:.2f} to {high:.2f})".format(**interval)


def price(value: float | None) -> str:
    """A break-even price, in seconds."""
    if value is None:
        return "never"
    return "always" if value == 0 else f"{value:.3g}"


def signed(value: float | None) -> str:
    """A percentage with its sign."""
    return "-" if value is None else f"{round(value, 1) + 0.0:+.1f}"  # no -0.0


def percent_interval(interval: Mapping[str, float] | None) -> str:
    """An estimate with its interval, both in percent."""
    if interval is None:
        return "-"
    value, low, high = (100 * interval[k] for k in ("value", "low", "high"))
    return f"{value:.2f} ({low:.2f} to {high:.2f})"


def bullets(lines: Iterable[str]) -> str:
    """A list."""
    return "\n".join(f"- {line}" for line in lines)


def table(header: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """A table: the first column to the left, the others to the right."""
    lines = [header, ["---", *["--:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)
