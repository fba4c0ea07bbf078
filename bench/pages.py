# SPDX-License-Identifier: Apache-2.0
"""Commands that write pages and tables of kept studies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.bench.framework.commands import SEARCH, HtmlOption, studies
from tilewright.cli.common.application import say
from tilewright.cli.common.arguments import replacing, require_places, require_readable
from tilewright.cli.common.json_output import read_document
from tilewright.cli.common.parse_errors import UsageError


@studies.command("allocate-tables", rich_help_panel=SEARCH)
def allocate_tables(
    study: Annotated[
        Path, typer.Argument(metavar="JSON", help="File of 'tilewright bench allocate'.")
    ],
) -> None:
    """Print the tables of a comparison of allocators as Markdown."""
    from tilewright.bench.allocate.summary import tables

    require_readable(study, "JSON")
    document = read_document(study)
    if "summary" not in document:
        raise UsageError(
            "must be a file of 'bench allocate'",
            field="JSON",
            value=str(study),
            remedy="run 'tilewright bench allocate --json FILE' first",
        )
    say(tables(document))


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
    from tilewright.bench.arena.page_tables import write_document
    from tilewright.bench.arena.plots import page
    from tilewright.bench.arena.summary import merge
    from tilewright.host.common.whole_file import write_whole

    for path in parts:
        require_readable(path, "JSON")
    read, folder = {f"JSON ({path})": path for path in parts}, output.with_suffix("")
    require_places(read, {"--output": output, "--html": html}, {"the folder beside it": folder})
    study = merge([read_document(path) for path in parts])
    with replacing(output):
        write_document(study, output)
    if html is not None:
        with replacing(html):
            write_whole(html, page(study))


@studies.command("study-page", rich_help_panel=SEARCH)
def study_page(
    parts: Annotated[
        list[Path],
        typer.Argument(
            metavar="JSON...",
            help="Files of 'bench tuners' and 'bench intervals', or of 'bench mapping' or "
            "'bench multicore'.",
        ),
    ],
    page: Annotated[
        Path,
        typer.Option(
            "--page",
            metavar="PAGE",
            help="Markdown whose tables are made anew; the runs are written beside it as JSON.",
        ),
    ],
) -> None:
    """Write the tables of a study's page, and the runs that they are made from."""
    from tilewright.bench.arena.study_page import write_study
    from tilewright.bench.framework.tables import write_page
    from tilewright.bench.mapping.page import published as published_mapping
    from tilewright.bench.multicore.page import published as published_multicore

    for path in (*parts, page):
        require_readable(path, "JSON" if path != page else "--page")
    read = {f"JSON ({path})": path for path in parts}
    require_places(read, {"the runs beside --page": page.with_suffix(".json")}, {"--page": page})
    studies = [read_document(path) for path in parts]
    for of, published in (("mapping", published_mapping), ("multicore", published_multicore)):
        if f" bench {of} " in str(studies[0].get("command")):
            return write_page(page, *published(studies))
    return write_study(studies, page)
