# SPDX-License-Identifier: Apache-2.0
"""Figures of studies for a paper, drawn by matplotlib: convergence, regret, Pareto front.

The charts of a page (`figures`) need no library, and follow the page's theme. These follow the
reader's own style and go into the reader's own axes. Both draw the same curves.

Each function takes groups of results: a label and the studies behind it. Of a group of several
studies, such as seeds of one tuner, the median is drawn with a band between the quartiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import TilewrightError
from tilewright.host.common.extras import needed
from tilewright.host.common.whole_file import MARK, prepare_place, refuse_foreign
from tilewright.tuner.report.figures import SHOWN_RATIO, thinned
from tilewright.tuner.report.pareto import pareto
from tilewright.tuner.study.results import StudyResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Groups = Mapping[str, Sequence[StudyResult]]
Floats = npt.NDArray[np.float64]

FORMATS: Final = {".svg": "Title", ".png": "Software", ".pdf": "Creator"}
"""Endings of figures, and what holds the mark in each."""

_FLOOR: Final = 0.01
"""Percent: no regret is drawn lower."""

_DASHES: Final = ("solid", (0, (6, 2)), "dashdot", "dotted")
"""Of curves, so that they differ in print, too."""


class FigureError(TilewrightError):
    """A figure that cannot be drawn of what was found."""


def plot_convergence(groups: Groups, ax: Axes | None = None) -> Axes:
    """Cycles of the best network so far against measurements."""
    axes = _axes(ax)
    best = np.inf
    for number, (label, results) in enumerate(groups.items()):
        x, curves = _curves(results)
        best = min(best, curves.min())
        _draw(axes, number, label, x, curves)
    bounds = {result.bound_network for results in groups.values() for result in results}
    if len(bounds) == 1:
        axes.axhline(bounds.pop() or 0, color="gray", linestyle=":", label="bound")
    axes.set_ylim(top=min(axes.get_ylim()[1], SHOWN_RATIO * best))
    axes.yaxis.set_major_formatter("{x:,.0f}")
    return _finished(axes, "measurements", "cycles of the network")


def plot_regret(groups: Groups, ax: Axes | None = None, *, optimum: int | None = None) -> Axes:
    """What the best network so far takes more than the optimum, against measurements."""
    axes = _axes(ax)
    every = [result for results in groups.values() for result in results]
    known = [each.bound_network for each in every if each.bound_network is not None]
    least = optimum if optimum is not None else min(known)
    drawn = {}
    for label, results in groups.items():
        x, curves = _curves(results)
        drawn[label] = x, 100 * (curves / least - 1)
    lowest = min(curves.min() for _, curves in drawn.values())
    if least <= 0 or lowest < 0:
        raise FigureError(
            "must not be above what a study found",
            field="optimum",
            value=optimum,
            remedy="give the cycles of the network that are proven to be the fewest",
        )
    above = [float(curves[curves > 0].min()) for _, curves in drawn.values() if curves.any()]
    floor = max(_FLOOR, 0.5 * min(above, default=_FLOOR))
    for number, (label, (x, curves)) in enumerate(drawn.items()):
        _draw(axes, number, label, x, np.maximum(curves, floor))
    axes.set_yscale("log")
    axes.set_ylim(bottom=floor)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(needed("matplotlib.ticker").LogFormatter())
    against = "bound" if optimum is None else "proven optimum"
    return _finished(axes, "measurements", f"above the {against} (%)")


def plot_pareto(groups: Groups, ax: Axes | None = None) -> Axes:
    """Energy against cycles of the networks of the Pareto front, relative to the fastest one."""
    fronts = {
        label: [point for result in results for point in pareto(result.search)]
        for label, results in groups.items()
    }
    points = sorted((p for front in fronts.values() for p in front), key=lambda p: p.cycles)
    if not points:
        raise FigureError(
            "a study per layer has no networks on one configuration to compare",
            field=", ".join(groups),
            remedy="tune with mode='shared'",
        )
    joined = ""
    if sum(map(len, groups.values())) == 1:
        joined = "--"
        areas = {p.config: f"{p.config}, {p.area:.0%} of the board" for p in points}
        fronts = {areas[name]: [p for p in points if p.config == name] for name in areas}
    axes = _axes(ax)
    for label, front in fronts.items():
        front.sort(key=lambda p: (p.cycles, p.energy))
        axes.plot(
            [p.cycles for p in front],
            [p.energy / points[0].energy for p in front],
            marker="o", linestyle=joined, linewidth=0.8, label=label,
        )  # fmt: skip
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.xaxis.set_major_locator(needed("matplotlib.ticker").MaxNLocator(5))
    far = [p for p in points if p.cycles > SHOWN_RATIO * points[0].cycles]
    if far:
        near = max(p.cycles for p in points if p not in far)
        span = max(near - points[0].cycles, points[0].cycles / 20)
        axes.set_xlim(points[0].cycles - 0.08 * span, near + 0.16 * span)
        text = f"{len(far)} more, up to {far[-1].cycles:,} cycles, not shown"
        axes.annotate(text, (0.99, 0.99), xycoords="axes fraction", ha="right", va="top", size=8)
    return _finished(axes, "cycles of the network", "energy (relative)")


KINDS: Final = {"convergence": plot_convergence, "regret": plot_regret, "pareto": plot_pareto}
"""Every figure by its name on the command line."""


def save_plot(kind: str, groups: Groups, path: Path) -> None:
    """Draw a figure into a file, as the ending says, with nothing on a screen."""
    mark = FORMATS.get(path.suffix)
    if mark is None:
        raise FigureError(
            f"must end in {', '.join(FORMATS)}",
            field="--plot",
            value=path,
            remedy="name another file",
        )
    figure = needed("matplotlib.figure").Figure(layout="constrained")
    KINDS[kind](groups, figure.subplots())
    prepare_place(path)
    refuse_foreign(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={mark: MARK}, dpi=200)


def _axes(ax: Axes | None) -> Axes:
    """The axes to draw into; None: those of a new figure."""
    made: Any = needed("matplotlib.pyplot").subplots(layout="constrained")[1] if ax is None else ax
    axes: Axes = made
    return axes


def _finished(axes: Axes, x: str, y: str) -> Axes:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    return axes


def _curves(results: Sequence[StudyResult]) -> tuple[Floats, Floats]:
    """Measurements, and of each study the cycles of its best network then.

    They begin where every study has a network, and end where the first study does.
    """
    found = []
    for result in results:
        points = thinned(result.search.network_curve())
        if not points:
            raise FigureError(
                "has no complete network yet", field=result.study.name, remedy="resume it"
            )
        steps = np.array(points, dtype=np.float64).T
        found.append((steps[0], steps[1], float(result.search.summary.count)))
    first, end = max(x[0] for x, _, _ in found), min(end for _, _, end in found)
    ends = [np.array([first, max(first, end)])]
    x = np.unique(np.concatenate([*(x for x, _, _ in found), *ends]))
    x = x[(first <= x) & (x <= max(first, end))]
    return x, np.array([y[np.searchsorted(own, x, side="right") - 1] for own, y, _ in found])


def _draw(axes: Axes, number: int, label: str, x: Floats, curves: Floats) -> None:
    """A step line of the median, with a band between the quartiles of several studies."""
    several = len(curves) > 1
    name = f"{label} (median of {len(curves)})" if several else label
    median, dashes = np.median(curves, axis=0), _DASHES[number % len(_DASHES)]
    (line,) = axes.step(x, median, where="post", label=name, linestyle=dashes)
    if several:
        low, high = np.percentile(curves, (25, 75), axis=0)
        axes.fill_between(x, low, high, step="post", alpha=0.2, color=line.get_color(), linewidth=0)
