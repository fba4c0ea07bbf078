# SPDX-License-Identifier: Apache-2.0
"""MkDocs hook: scripts of the site. One is what Material's offline mode takes from the network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ELSEWHERE: Final = "https://unpkg.com/iframe-worker/shim"
SCRIPT: Final = "assets/javascripts/file_worker.js"
COPY: Final = "assets/javascripts/copy.js"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the scripts to the site."""
    from mkdocs.structure.files import File  # noqa: PLC0415  (also imported without MkDocs)

    for place in (SCRIPT, COPY):
        text = Path(__file__).with_name(Path(place).name).read_text(encoding="utf-8")
        files.append(File.generated(config, place, content=text))
    return files


def on_post_page(output: str, page: Page, **_: object) -> str:
    """Take the script from the site."""
    return output.replace(ELSEWHERE, "../" * page.url.count("/") + SCRIPT)


def on_post_template(output_content: str, **_: object) -> str:
    """The same in pages that are not of the documents (404)."""
    return output_content.replace(ELSEWHERE, f"/{SCRIPT}")
