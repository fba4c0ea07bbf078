# SPDX-License-Identifier: Apache-2.0
"""MkDocs hook: the one script that Material's offline mode takes from the network, from here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ELSEWHERE: Final = "https://unpkg.com/iframe-worker/shim"
SCRIPT: Final = "assets/javascripts/file_worker.js"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the script to the site."""
    from mkdocs.structure.files import File  # noqa: PLC0415  (also imported without MkDocs)

    text = Path(__file__).with_name("file_worker.js").read_text(encoding="utf-8")
    files.append(File.generated(config, SCRIPT, content=text))
    return files


def on_post_page(output: str, page: Page, **_: object) -> str:
    """Take the script from the site."""
    return output.replace(ELSEWHERE, "../" * page.url.count("/") + SCRIPT)


def on_post_template(output_content: str, **_: object) -> str:
    """The same in pages that are not of the documents (404)."""
    return output_content.replace(ELSEWHERE, f"/{SCRIPT}")
