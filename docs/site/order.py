# SPDX-License-Identifier: Apache-2.0
"""MkDocs hook: sections in the order in which a newcomer needs them, tutorials as their index says.

How-to pages stand in the order of the home page's table, by task. A page is in the navigation
because its file is in a folder; there is no list to forget it in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mkdocs.structure.nav import Navigation

HOME: Final = Path(__file__).resolve().parents[1] / "index.md"
INDEX: Final = HOME.parent / "tutorials" / "index.md"

ORDER: Final = (
    "Tilewright",
    "Tutorials",
    "How to",
    "Reference",
    "Explanation",
    "Results",
    "Glossary",
    "Contributing",
    "Security",
    "Changelog",
)
"""Titles of the first level."""


FOR_CONTRIBUTORS: Final = frozenset({
    "contributing.md", "results/coverage.md", "results/metaschedule.md", "results/mutation.md",
    "results/yosys-xilinx-dsp.md",
})  # fmt: skip
"""Pages that readers of the project's own code need."""


def on_nav(nav: Navigation, **_: object) -> Navigation:
    """Put the first level, tutorials and how-to pages in order, unknown titles last."""
    tutorials, home = (path.read_text(encoding="utf-8") for path in (INDEX, HOME))
    for item in nav.items:
        if item.title == "How To":
            item.title = "How to"
        if item.title == "Tutorials" and item.children:
            item.children.sort(key=lambda page: tutorials.find(f"({Path(_source(page)).name})"))
        if item.title == "How to" and item.children:
            item.children.sort(key=lambda page: home.find(f"({_source(page)})"))
    _gather(nav)
    nav.items.sort(key=_place)
    pages = list(_pages(nav.items))
    for page, before, after in zip(pages, [None, *pages], [*pages[1:], None], strict=False):
        page.previous_page, page.next_page = before, after
    return nav


def _gather(nav: Navigation) -> None:
    """Move the pages for contributors into a section of their own."""
    from mkdocs.structure.nav import Section  # noqa: PLC0415  (also imported without MkDocs)

    moved: list[Any] = []
    for items in (nav.items, *(item.children for item in nav.items if item.children)):
        for page in [each for each in items if _source(each) in FOR_CONTRIBUTORS]:
            items.remove(page)
            moved.append(page)
    section = Section("Contributing", moved)
    for page in moved:
        page.parent = section
    if moved:
        nav.items.append(section)


def _source(item: Any) -> str:
    """The file of a page below the documents; empty: it is a section."""
    file = getattr(item, "file", None)
    return "" if file is None else str(file.src_uri).replace("CONTRIBUTING.md", "contributing.md")


def _pages(items: Iterable[Any]) -> Iterator[Any]:
    """Pages in the order in which a reader meets them."""
    for item in items:
        if getattr(item, "children", None):
            yield from _pages(item.children)
        elif getattr(item, "is_page", False):
            yield item


def _place(item: Any) -> int:
    if getattr(item, "is_homepage", False):
        return -1
    title = item.title or item.file.src_uri.removesuffix(".md").capitalize()
    return ORDER.index(title) if title in ORDER else len(ORDER)
