# SPDX-License-Identifier: Apache-2.0
"""Pictures of a learning mapper: correlation of knobs, their tree, and how the mapping changed.

The first two take what the clustered mapper leaves in ``Trace.notes["clustering"]``.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.tuner.report.drawing.marks import (
    LETTER,
    Chart,
    drawing,
    element,
    label,
    series_colour,
)
from tilewright.tuner.report.drawing.scales import Axis, spanning
from tilewright.tuner.report.drawing.xy_chart import Series, XYChart, heights, numbered


@dataclass(frozen=True, kw_only=True)
class HeatMap(Chart):
    """How strongly each of some things goes with each other one."""

    alt: str  # what it shows, for who cannot see it
    names: Sequence[str]  # of the things, in the order of rows and columns
    # one row per thing, each number from 0 (nothing) to 1 (full colour)
    values: Sequence[Sequence[float]]

    def svg(self, width: int, _key: str = "") -> str:
        """The map, ``width`` pixels wide."""
        room = 8 + LETTER * max((len(name) for name in self.names), default=1)
        cell = min(30.0, (width - room - 4) / max(1, len(self.names)))
        parts = []
        for row, name in enumerate(self.names):
            middle = room + (row + 0.5) * cell
            parts.append(label(room - 6, middle + 4, name, anchor="end"))
            parts.append(
                element("text", html.escape(name), transform=f"translate({middle + 4:.1f} "
                        f"{room - 6:.1f}) rotate(-90)")
            )  # fmt: skip
            for column, other in enumerate(self.names):
                value = self.values[row][column]
                parts.append(
                    element(
                        "rect", x=room + column * cell, y=room + row * cell, width=cell - 1,
                        height=cell - 1, class_="bar c0", fill_opacity=max(0.0, min(1.0, value)),
                        data_tip=f"{name}, {other}: {value:.2f}",
                    )
                )  # fmt: skip
        height = room + cell * len(self.names) + 4
        return drawing(parts, width, height, self.alt)


def correlation_map(clustering: Mapping[str, Any]) -> HeatMap:
    """The correlation of every two knobs; neighbours in the tree stand beside each other."""
    order = _leaves(clustering)
    values = clustering["correlation"]
    return HeatMap(
        alt="Correlation between the mapping parameters of the best samples",
        names=[clustering["knobs"][k] for k in order],
        values=[[values[row][column] for column in order] for row in order],
    )


def dendrogram(clustering: Mapping[str, Any], roles: Mapping[str, Sequence[str]]) -> XYChart:
    """The tree of the knobs, with a colour per role where a branch lies within one."""
    knobs, order = clustering["knobs"], _leaves(clustering)
    owner = {knob: name for name, own in roles.items() for knob in own}
    # Of each node of the tree: its height on the page, its distance, and whose knobs it holds.
    nodes: list[tuple[float, float, frozenset[str]]] = [
        (float(order.index(k)), 0.0, frozenset((owner[knob],))) for k, knob in enumerate(knobs)
    ]
    series = []
    for one, other, distance, _ in clustering["tree"]:
        low, high = nodes[int(one)], nodes[int(other)]
        owners = low[2] | high[2]
        name = next(iter(owners)) if len(owners) == 1 else "between agents"
        colour = series_colour(list(roles).index(name)) if len(owners) == 1 else "ink"
        series.append(
            Series(
                name=name,
                x=[low[1], distance, distance, high[1]],
                y=[low[0], low[0], high[0], high[0]],
                colour=colour,
            )
        )
        nodes.append(((low[0] + high[0]) / 2, distance, owners))
    return XYChart(
        alt="Tree of the mapping parameters by how they correlate in the best samples",
        x=Axis(title="height", low=0.0, high=max((t[2] for t in clustering["tree"]), default=1.0)),
        y=Axis(
            title="",
            low=-0.5,
            high=len(knobs) - 0.5,
            ticks=tuple(float(place) for place in range(len(knobs))),
            text=lambda place: knobs[order[int(place)]],
        ),
        series=sorted(series, key=lambda each: each.name),  # the legend's order
        height=60 + 20 * len(knobs),
    )


def trajectories(
    samples: Sequence[int], mappings: Sequence[Mapping[str, Any]], budget: int
) -> list[tuple[str, XYChart]]:
    """Tiles and PEs of the best mapping so far, by samples: a panel per level, and one for PEs."""
    along = [*samples, budget]
    panels = []
    for title, numbers in (
        ("cluster tiles", [dict(m["outer"]["tile"]) for m in mappings]),
        ("PE tiles", [dict(m["inner"]["tile"]) for m in mappings]),
        (
            "clusters and PEs",
            [{"clusters": m["clusters"], "PEs of a cluster": m["cluster_size"]} for m in mappings],
        ),
    ):
        series = numbered(
            {
                name: (along, [float(m[name]) for m in (*numbers, numbers[-1])])
                for name in numbers[0]
            },
            step=True,
        )
        chart = XYChart(
            alt=f"{title} of the best mapping by samples",
            x=spanning("samples", along, log=True),
            y=spanning("iterations" if "tile" in title else "number", heights(series), log=True),
            series=series,
            height=260,
        )  # fmt: skip
        panels.append((title, chart))
    return panels


def _leaves(clustering: Mapping[str, Any]) -> list[int]:
    """Numbers of the knobs in the order in which no branches of the tree cross."""
    if len(clustering["knobs"]) < 2:
        return list(range(len(clustering["knobs"])))
    from scipy.cluster.hierarchy import leaves_list  # noqa: PLC0415  (an optional package)

    found: list[int] = leaves_list(clustering["tree"]).tolist()
    return found
