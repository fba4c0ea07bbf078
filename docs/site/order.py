# SPDX-License-Identifier: Apache-2.0
"""MkDocs hook: sections in the order in which a newcomer needs them, tutorials as their index says.

A page is in the navigation because its file is in a folder; there is no list to forget it in.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mkdocs.structure.nav import Navigation

INDEX: Final = Path(__file__).resolve().parents[1] / "tutorials" / "index.md"

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


def on_nav(nav: Navigation, **_: object) -> Navigation:
    """Put the first level and the tutorials in order; what has another title comes last."""
    index = INDEX.read_text(encoding="utf-8")
    for item in nav.items:
        if item.title == "How To":
            item.title = "How to"
        if item.title == "Tutorials" and item.children:
            item.children.sort(key=lambda page: index.find(f"({Path(page.file.src_uri).name})"))
    nav.items.sort(key=_place)
    return nav


def _place(item: Any) -> int:
    if getattr(item, "is_homepage", False):
        return -1
    title = item.title or item.file.src_uri.removesuffix(".md").capitalize()
    return ORDER.index(title) if title in ORDER else len(ORDER)
