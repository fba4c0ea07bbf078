# SPDX-License-Identifier: Apache-2.0
"""A whole page: one HTML file that loads nothing from outside."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tilewright.host.common.errors import StoreError
from tilewright.host.common.printable import printable_document
from tilewright.host.common.whole_file import MARK, write_whole
from tilewright.tuner.report.drawing.marks import Chart, css_variables, element

WIDE: Final = 920
"""Pixels that a chart is drawn with for a screen."""

NARROW: Final = 358
"""And for a phone: what a page of 390 pixels has inside."""

PANEL: Final = 210
"""And where many stand side by side."""

HALF: Final = 410
"""And where two stand side by side on a screen."""

_FOLDER: Final = Path(__file__).parent


def figure(chart: Chart, key: str) -> str:
    """A chart, drawn for screens and for phones, with its legend."""
    note = getattr(chart, "note", "")
    parts = [
        paragraph(note, "note") if note else "",  # in the page's text, which wraps on a phone
        element("div", chart.svg(WIDE, f"{key}-w"), class_="wide"),
        element("div", chart.svg(NARROW, f"{key}-n"), class_="narrow"),
        _legend(chart.legend()),
        _data(chart),
    ]
    return element("figure", "".join(parts), id=f"figure-{key}")


def panels(charts: Sequence[tuple[str, Chart]], key: str, *, width: int = PANEL) -> str:
    """Small charts side by side under their titles, with one legend for all."""
    entries: dict[str, str] = {}
    parts = []
    for number, (title, chart) in enumerate(charts):
        entries |= dict(chart.legend())
        inner = element("h3", html.escape(title)) + chart.svg(width, f"{key}-{number}")
        parts.append(element("div", inner + _data(chart), class_="panel"))
    kind = "panels few" if width > PANEL else "panels"
    inner = element("div", "".join(parts), class_=kind) + _legend(list(entries.items()))
    return element("figure", inner, id=f"figure-{key}")


def _data(chart: Chart) -> str:
    data = chart.hover_data().replace("<", "\\u003c")  # no name of a series ends the script
    return f'<script type="application/json">{data}</script>' if data else ""


def _legend(entries: Sequence[tuple[str, str]]) -> str:
    if not entries:
        return ""
    buttons = "".join(
        f'<button type="button" aria-pressed="true" data-toggle="{html.escape(name)}">'
        f"{picture}{html.escape(name)}</button>"
        for name, picture in entries
    )
    return element("div", buttons, class_="legend", role="group", aria_label="shown in the chart")


def heading(text: str, more: str = "") -> str:
    """The title of a page, and a smaller line below it."""
    small = element("small", html.escape(more)) if more else ""
    return element("h1", html.escape(text) + small)


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph of plain text."""
    return element("p", html.escape(text), class_=kind)


def section(title: str, *parts: str) -> str:
    """A section of a page; empty parts are left out."""
    return element("section", element("h2", html.escape(title)) + "".join(filter(None, parts)))


def folded(title: str, inner: str) -> str:
    """Something that opens on demand."""
    return element("details", element("summary", html.escape(title)) + inner)


def bullets(lines: Iterable[str], kind: str = "") -> str:
    """A list of plain text."""
    inner = "".join(element("li", html.escape(line)) for line in lines)
    return element("ul", inner, class_=kind)


def tiles(entries: Iterable[tuple[str, str, str]]) -> str:
    """Key figures: name, figure, and a remark below it."""
    inner = "".join(
        element(
            "div",
            element("dt", html.escape(name))
            + element(
                "dd",
                html.escape(value) + element("small", html.escape(remark)),
                class_="long" if len(value) > 10 else "",
            ),
        )
        for name, value, remark in entries
    )
    return element("dl", inner, class_="tiles")


def definitions(entries: Iterable[tuple[str, str]]) -> str:
    """Words with what they mean."""
    inner = "".join(
        element("dt", html.escape(word)) + element("dd", html.escape(meaning))
        for word, meaning in entries
    )
    return element("dl", inner, class_="words")


def copied(text: str, name: str) -> str:
    """Text to copy, with a button that does it."""
    button = element("button", "Copy", type="button", class_="copy", aria_label=f"copy {name}")
    code = element("pre", element("code", html.escape(text)), tabindex=0, aria_label=name)
    return element("div", button + code, class_="copied")


def preformatted(text: str, name: str) -> str:
    """Text as it is, in a box that scrolls; ``name`` is read aloud."""
    return element("pre", html.escape(text), tabindex=0, aria_label=name, class_="box")


def write(page: str, path: Path, option: str) -> Path:
    """Write a page, whole or not at all; the option that names it stands in what fails."""
    try:
        write_whole(path, page)
    except OSError as error:
        raise StoreError(
            f"the report cannot be written ({error.strerror})",
            field=str(path),
            remedy=f"name a writable file with {option}",
        ) from error
    return path


def document(title: str, *parts: str) -> str:
    """The page."""
    style = css_variables() + (_FOLDER / "page.css").read_text(encoding="utf-8")
    script = (_FOLDER / "page.js").read_text(encoding="utf-8")
    page = "\n".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f'<meta name="generator" content="{MARK}">',
            f"<title>{html.escape(title)}</title>",
            f"<style>{style}</style></head><body><main>",
            *filter(None, parts),
            f"</main><script>{script}</script></body></html>",
            "",
        )
    )
    return printable_document(page)
