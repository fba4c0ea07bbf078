# SPDX-License-Identifier: Apache-2.0
"""What a page of HTML is made of, as its own parser sees it."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "img", "link", "input"}
LOADS = ("src", "href", "xlink:href", "action", "data", "poster", "srcset")


@dataclass
class Structure:
    """Of a page."""

    title: str = ""
    ids: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    unclosed: list[str] = field(default_factory=list)
    charts_without_name: int = 0
    charts: int = 0
    tables: int = 0
    tables_without_caption: int = 0
    headings_without_scope: int = 0
    uneven_tables: int = 0
    h1: int = 0
    lang: str = ""


def structure_of(text: str) -> Structure:
    """The structure of a page."""
    parser = _Parser()
    parser.feed(text)
    parser.close()
    parser.found.unclosed += parser.open
    return parser.found


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found = Structure()
        self.open: list[str] = []
        self._caption = False
        self._widths: list[int] = []

    def handle_starttag(self, tag, attrs):
        found, values = self.found, dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        found.ids += [values["id"]] if "id" in values else []
        found.loads += [f"{tag} {k}" for k in values if k in LOADS]
        if tag == "html":
            found.lang = values.get("lang", "")
        elif tag == "h1":
            found.h1 += 1
        elif tag == "svg" and values.get("aria-hidden") != "true":
            found.charts += 1
            named = values.get("role") == "img" and values.get("aria-label")
            found.charts_without_name += not named
        elif tag == "table":
            found.tables += 1
            self._caption, self._widths = False, []
        elif tag == "caption":
            self._caption = True
        elif tag == "tr":
            self._widths.append(0)
        elif tag in ("td", "th"):
            self._widths[-1] += 1
            found.headings_without_scope += tag == "th" and "scope" not in values

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.found.unclosed.append(tag)
        if tag == "table":
            self.found.tables_without_caption += not self._caption
            self.found.uneven_tables += len(set(self._widths)) != 1

    def handle_data(self, data):
        if self.open[-1:] == ["title"]:
            self.found.title += data


def assert_well_made(text: str, *, limit: int = 1_000_000) -> Structure:
    """A page is small, closed, named, and loads nothing."""
    found = structure_of(text)
    assert len(text.encode()) < limit
    assert found.unclosed == []
    assert found.lang == "en"
    assert found.h1 == 1
    assert found.title
    assert found.loads == []
    assert "url(" not in text.replace("url(#clip-", "")
    assert "@import" not in text
    assert len(set(found.ids)) == len(found.ids)
    assert found.charts
    assert found.charts_without_name == 0
    assert found.tables
    assert found.tables_without_caption == 0
    assert found.headings_without_scope == 0
    assert found.uneven_tables == 0
    return found
