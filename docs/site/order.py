# SPDX-License-Identifier: Apache-2.0
"""MkDocs hook: sections in the order in which a newcomer needs them, pages by their file names.

A page is in the navigation because its file is in a folder; there is no list to forget it in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mkdocs.structure.nav import Navigation

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
    """Put the first level in order; what has another title comes last."""
    for item in nav.items:
        if item.title == "How To":
            item.title = "How to"

    def place(item: object) -> int:
        if getattr(item, "is_homepage", False):
            return -1
        title = getattr(item, "title", None) or item.file.src_uri.removesuffix(".md").capitalize()  # type: ignore[attr-defined]
        return ORDER.index(title) if title in ORDER else len(ORDER)

    nav.items.sort(key=place)
    return nav
