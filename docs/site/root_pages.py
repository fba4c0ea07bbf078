# SPDX-License-Identifier: Apache-2.0
"""MkDocs hook: CONTRIBUTING, CHANGELOG and SECURITY of the repository as pages of the site."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")

_LINK: Final = re.compile(r"(!?\[[^\]]*\]\()([^)\s#:]+)(#[^)]*)?\)")


def linked(markdown: str, place: str) -> str:
    """A page with its links to files of the repository made to hold in the site.

    Links are written for a reader of the repository. Those between pages stay. One that leaves
    `docs/` leads to the page that the site makes of that file; of any other file the text is kept
    without a link, since the site has no copy of the sources. ``place`` is the page's file.
    """
    folder = posixpath.dirname(place)
    own = f"docs/{place}" if place in PAGES else place

    def mended(match: re.Match[str]) -> str:
        start, target, anchor = match[1], match[2], match[3] or ""
        path = posixpath.normpath(posixpath.join(folder, target))
        if path in PAGES:
            path = f"docs/{path}"
        elif not path.startswith("docs/"):
            exists = (ROOT / path).exists()
            return f"`{path}`" if exists else match[0]  # a broken link stays, and fails the build
        return f"{start}{posixpath.relpath(path, posixpath.dirname(own))}{anchor})"

    return _LINK.sub(mended, markdown)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages to the site."""
    from mkdocs.structure.files import File  # noqa: PLC0415  (also imported without MkDocs)

    for name in PAGES:
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Mend the links of every page."""
    path = page.file.src_uri
    return linked(markdown, path if path in PAGES else f"docs/{path}")
