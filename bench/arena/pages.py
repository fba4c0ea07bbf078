# SPDX-License-Identifier: Apache-2.0
"""`tilewright bench tuners-page`: the page of a study of tuners from its JSON files."""

# ruff: noqa: PLC0415  (imports inside functions keep `--help` fast)

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.bench.framework.commands import SEARCH, HtmlOption, studies
from tilewright.cli.arguments import replacing, require_places, require_readable
from tilewright.cli.json_output import read_document


@studies.command("tuners-page", rich_help_panel=SEARCH)
def tuners_page(
    parts: Annotated[
        list[Path], typer.Argument(metavar="JSON...", help="Files of 'tilewright bench tuners'.")
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="PAGE",
            help="Markdown to write; in a folder of its name, every table as a CSV file.",
        ),
    ],
    html: HtmlOption = None,
) -> None:
    """Write the page of a study of tuners, and its tables, from its JSON files."""
    from tilewright.bench.arena.document import write_document
    from tilewright.bench.arena.merge import merge
    from tilewright.bench.arena.plots import page
    from tilewright.host.common.whole_file import write_whole

    for path in parts:
        require_readable(path, "JSON")
    require_places({f"JSON ({path})": path for path in parts}, {"--output": output, "--html": html})
    study = merge([read_document(path) for path in parts])
    with replacing(output):
        write_document(study, output)
    if html is not None:
        with replacing(html):
            write_whole(html, page(study))
