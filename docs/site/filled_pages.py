# SPDX-License-Identifier: Apache-2.0
"""MkDocs hook: pages that have more in the site than in the repository.

Their sections change with every option, message or docstring, so the repository keeps their heads.
Behind a head and ``MARK`` stands what a reader of the repository can do; the site replaces it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from cli_page import cli_markdown
from errors_page import errors_markdown
from json_page import json_markdown
from notebooks import links_markdown

if TYPE_CHECKING:
    from mkdocs.structure.pages import Page

MARK: Final = "<!-- The site has sections in place of what follows. -->"

PUBLIC_NAMES: Final = """
::: tilewright
    options:
      show_root_heading: false
      show_root_toc_entry: false
      members_order: __all__
      filters: ["!^_"]

::: tilewright.environments
    options:
      show_root_toc_entry: true
      heading_level: 2
"""
"""What mkdocstrings replaces by the docstrings of the package."""

SECTIONS: Final[Mapping[str, Callable[[], str]]] = {
    "reference/cli.md": cli_markdown,
    "reference/errors.md": errors_markdown,
    "reference/json.md": json_markdown,
    "reference/python.md": lambda: PUBLIC_NAMES,
    "tutorials/index.md": links_markdown,
}
"""Pages, relative to `docs/`, and what writes their sections."""


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Put the sections behind the head; a page without the mark is a `ValueError`."""
    sections = SECTIONS.get(page.file.src_uri)
    if sections is None:
        return markdown
    head, mark, _instead = markdown.partition(MARK)
    if not mark:
        raise ValueError(f"{page.file.src_uri} must have the line {MARK!r}")
    return head + sections()
