# SPDX-License-Identifier: Apache-2.0
"""`tilewright bench NAME`: studies, which a clone has beside the product.

No module of the product imports them: they are loaded when one of them is asked for.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import MutableMapping
from typing import Any, Final

import typer

from tilewright.cli.common.application import MEASURE, Group, app
from tilewright.cli.common.parse_errors import UsageError

_STUDIES: Final = "tilewright.bench"


class _Studies(Group):
    """The commands of the studies, once somebody asks for one."""

    _loaded: dict[str, Any] | None = None

    @property
    def commands(self) -> MutableMapping[str, Any]:  # an attribute in click
        """Every study by name."""
        if self._loaded is None:
            if importlib.util.find_spec(_STUDIES) is None:
                raise UsageError(
                    "is part of a clone, not of an installed package",
                    field="bench",
                    remedy="clone the repository and run it there",
                )
            for module in ("commands", "pages"):  # each adds its commands
                importlib.import_module(f"{_STUDIES}.{module}")
            found = importlib.import_module(f"{_STUDIES}.framework.commands")
            self._loaded = dict(typer.main.get_group(found.studies).commands)
        return self._loaded

    @commands.setter
    def commands(self, given: MutableMapping[str, Any]) -> None:
        """Every study by name; an installed package, which has none, gives a `UsageError`."""


bench_app = typer.Typer(
    cls=_Studies,
    no_args_is_help=True,
    help="Measure what the documents claim: speed, search, cycles, accuracy (a clone only).",
)
app.add_typer(bench_app, name="bench", rich_help_panel=MEASURE)


@bench_app.callback()
def _choose_study() -> None:
    """What stands before the studies."""
