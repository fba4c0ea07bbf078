# SPDX-License-Identifier: Apache-2.0
"""Figures and tables as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence


def or_more(value: float | None) -> str:
    """A censored median."""
    return "more" if value is None else f"{value:.0f}"


def times(reference: float | None, value: float | None, budget: float) -> str:
    """How many times smaller a value is than a reference; a bound where that is censored."""
    if value is None:
        return "-"
    return f"> {budget / value:.1f}" if reference is None else f"{reference / value:.1f}"


def price(value: float | None) -> str:
    """A break-even price, in seconds."""
    if value is None:
        return "never"
    return "always" if value == 0 else f"{value:.3g}"


def signed(value: float | None) -> str:
    """A percentage with its sign."""
    return "-" if value is None else f"{value:+.1f}"


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
