# SPDX-License-Identifier: Apache-2.0
"""The report of a study as one self-contained HTML file (no external loads)."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.errors import StoreError
from tilewright.host.common.whole_file import write_whole
from tilewright.tuner.report.figures import (
    bound_figure,
    layers_figure,
    pareto_figure,
    race_figure,
    stall_figure,
    utilisation_figure,
)
from tilewright.tuner.report.pareto import Point
from tilewright.tuner.report.summary import condition_lines, mismatch_lines, outcome_line
from tilewright.tuner.report.tables import config_table, failure_table, pareto_table, task_table
from tilewright.tuner.report.tuned_share import share_lines
from tilewright.tuner.study.results import StudyResult

_STYLE: Final = """
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:1180px;padding:0 1rem;
color:#1d2129;background:#fff}
h1{font-size:1.5rem;margin-bottom:.2rem}h2{font-size:1.1rem;margin-top:2.2rem}
p.outcome{font-size:1.05rem;font-weight:600}p.wrong{color:#b00020;font-weight:600}
ul.conditions{color:#555;font-size:.86rem;padding-left:1.1rem}
div.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:.86rem;width:100%}
th,td{padding:.3rem .55rem;border-bottom:1px solid #e3e5e8;text-align:left;vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
tr.total td{font-weight:600;border-top:2px solid #888}
p.note{color:#555;font-size:.86rem;margin-top:.2rem}
"""


@dataclass(frozen=True, kw_only=True)
class _Section:
    """A plot with its title, a line about it, and what stands below it."""

    title: str
    note: str
    figure: Any
    below: str = ""


def write_html(result: StudyResult, archive: Sequence[Point], path: Path) -> Path:
    """Write the report of a study.

    Args:
        result: worked out from the store.
        archive: networks that no other one beats (`pareto`); empty in per-layer mode.
        path: the file to write.

    Raises:
        StoreError: the file cannot be written.
    """
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        f"<title>{html.escape(result.study.name)}</title>",
        "<meta name='viewport' content='width=device-width,initial-scale=1'>",
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>{html.escape(result.study.name)}</h1>",
        f"<p class='outcome'>{html.escape(outcome_line(result))}</p>",
        *(f"<p class='wrong'>{html.escape(line)}</p>" for line in mismatch_lines(result)),
        *(
            f"<p class='wrong'>{html.escape(line)}</p>"
            for line in share_lines(result.settings)[1:]
            if line
        ),
        "<h2>Layers</h2>",
        task_table(result),
        "<h2>Hardware</h2>",
        config_table(result),
    ]
    for position, section in enumerate(_sections(result, archive)):
        parts.append(f"<h2>{section.title}</h2><p class='note'>{html.escape(section.note)}</p>")
        parts.append(
            section.figure.to_html(
                full_html=False,
                div_id=f"figure-{position}",
                include_plotlyjs=position == 0,
                config={"displayModeBar": False, "responsive": True},
            )
        )
        parts.append(section.below)
    parts += [
        "<h2>Trials without a valid measurement</h2>",
        failure_table(result),
        "<h2>Conditions</h2><ul class='conditions'>",
        *(f"<li>{html.escape(line)}</li>" for line in condition_lines(result)),
        "</ul></body></html>",
    ]
    try:
        write_whole(path, "\n".join(parts))
    except OSError as error:
        raise StoreError(
            f"the report cannot be written ({error.strerror})",
            field=str(path),
            remedy="name a writable file with --output",
        ) from error
    return path


def _sections(result: StudyResult, archive: Sequence[Point]) -> list[_Section]:
    found = [
        _Section(
            title="The search",
            note=_screening_note(result) + (_RACE_NOTE if result.shared else _SUM_NOTE),
            figure=race_figure(result),
        ),
        _Section(title="The search of each layer", note=_LAYERS_NOTE, figure=layers_figure(result)),
    ]
    if archive:
        found.append(
            _Section(
                title="Networks that no other one beats",
                note=_PARETO_NOTE,
                figure=pareto_figure(result, archive),
                below=pareto_table(result, archive),
            )
        )
    found += [
        _Section(
            title="Cycles of each layer against its bound",
            note=_BOUND_NOTE,
            figure=bound_figure(result),
        ),
        _Section(
            title="Utilisation of the MAC array",
            note=_UTILISATION_NOTE,
            figure=utilisation_figure(result),
        ),
        _Section(
            title="Where each unit's cycles go", note=_STALL_NOTE, figure=stall_figure(result)
        ),
    ]
    return found


def _screening_note(result: StudyResult) -> str:
    """Where the search was made, when it was not where its outcome was confirmed."""
    if result.screening is None:
        return ""
    search, fidelity = result.screening, result.settings["fidelity"]
    return (
        f"Searched on {search.settings['fidelity']} ({search.summary.count:,} measurements, study "
        f"{search.study.name}); what is marked was measured again on {fidelity}. "
    )


_RACE_NOTE: Final = (
    "A configuration has a network when every layer has a valid measurement on it; its line ends "
    "with the last measurement that it was given. A click on a name hides a line."
)
_SUM_NOTE: Final = (
    "The sum counts when every layer has a valid measurement, each on a configuration of its own."
)
_LAYERS_NOTE: Final = (
    "Best of all configurations, relative to the first valid measurement of the layer."
)
_PARETO_NOTE: Final = (
    "In cycles, energy (by counters, relative) and share of the board at once; networks inside the "
    "convex hull of a configuration are left out."
)
_BOUND_NOTE: Final = (
    "One occurrence of each layer. The bound is the larger of MAC cycles and compulsory traffic; "
    "no schedule on that configuration can be faster."
)
_UTILISATION_NOTE: Final = (
    "Issued: tile products a cycle, edge padding included. Useful: the layer's own "
    "multiply-accumulates over what the array could do in the measured cycles."
)
_STALL_NOTE: Final = (
    "From the on-chip counters of the best trial of each layer. A unit is in exactly one state a "
    "cycle, so each bar adds up to 100 %."
)
