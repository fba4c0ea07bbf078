# SPDX-License-Identifier: Apache-2.0
"""Figures and tables of studies, for notebooks and papers; they need the extra ``plot``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tilewright.host.common.errors import ConfigError
from tilewright.host.common.extras import needed
from tilewright.host.common.names import choices, counted
from tilewright.host.common.summaries import Summarised
from tilewright.tuner.report import plots
from tilewright.tuner.report.trial_table import COLUMNS, trial_rows
from tilewright.tuner.store.database import hidden
from tilewright.tuner.store.store import Store, values_from
from tilewright.tuner.study.results import StudyResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

Found = tuple[StudyResult, Path | str]
"""What a study found, and where its store is."""


class Figures:
    """Trials as a data frame, and figures as matplotlib's: into ``ax``, which is returned.

    Without ``ax`` a new figure is made; ``plot.figure.savefig("name.svg")`` writes it.
    """

    def __init__(self, groups: Mapping[str, Sequence[Found]]) -> None:
        self._found: Final = [each for group in groups.values() for each in group]
        self._groups: Final = {
            name: [result for result, _ in group] for name, group in groups.items()
        }

    def trials(self) -> DataFrame:
        """Every trial as a row; `docs/how-to/plot-a-study.md` explains the columns.

        Raises:
            StoreError: the store is gone.
            ToolError: pandas is not installed.
        """
        pandas = needed("pandas")
        rows: list[dict[str, Any]] = []
        for result, place in self._found:
            with values_from(hidden(place)), Store(place, must_exist=True, read_only=True) as store:
                rows += trial_rows(store, result)
        table: DataFrame = pandas.DataFrame.from_records(rows, columns=list(COLUMNS))
        return table

    def plot_convergence(self, ax: Axes | None = None) -> Axes:
        """Cycles of the best network so far against measurements, with the bound.

        Args:
            ax: axes to draw into; None: those of a new figure.

        Raises:
            ToolError: matplotlib is not installed.
        """
        return plots.plot_convergence(self._groups, ax)

    def plot_regret(self, ax: Axes | None = None, *, optimum: int | None = None) -> Axes:
        """How far the best network so far is above the optimum, in percent, against measurements.

        Args:
            ax: see `plot_convergence`.
            optimum: cycles of the network that are proven to be the fewest; None: the lowest bound,
                which is not above them.

        Raises:
            FigureError: a study found fewer cycles than ``optimum``.
            ToolError: matplotlib is not installed.
        """
        return plots.plot_regret(self._groups, ax, optimum=optimum)

    def plot_pareto(self, ax: Axes | None = None) -> Axes:
        """Energy against cycles of the networks that no other one beats in these and in area.

        Args:
            ax: see `plot_convergence`.

        Raises:
            FigureError: the study chose a configuration per layer.
            ToolError: matplotlib is not installed.
        """
        return plots.plot_pareto(self._groups, ax)


class Comparison(Figures, Summarised):
    """Studies side by side; `compare` makes it.

    Of a group of several studies figures show the median, and a band between the quartiles.

    Attributes:
        groups: labels to the names of the studies.

    Example:
        >>> import tempfile
        >>> import tilewright as tw
        >>> layer = tw.dense("fc", rows=4, features_in=64, features_out=16)
        >>> options = {"hw": "tiny-4x4", "budget": 4, "fidelity": "twin", "tuner": "random"}
        >>> with tempfile.TemporaryDirectory() as runs:
        ...     found = [tw.tune(layer, runs=runs, seed=seed, **options) for seed in range(2)]
        >>> tw.compare(found)
        <Comparison random: 2 studies>
    """

    def __init__(self, groups: Mapping[str, Sequence[Found]]) -> None:
        super().__init__(groups)
        self.groups: Final = {
            label: tuple(result.study.name for result in group)
            for label, group in self._groups.items()
        }

    def _told(self) -> Mapping[str, object]:
        return {
            label: f"{label}: {counted(len(names), 'study', 'studies')}"
            for label, names in self.groups.items()
        }


def grouped(studies: Sequence[Found], by: str) -> dict[str, list[Found]]:
    """Studies of one network under equal conditions, by a setting."""
    if not studies:
        raise ConfigError("must hold a study", field="studies", value=0, remedy="load some")
    first, groups = studies[0][0].settings, dict[str, list[Found]]()
    oracles: dict[str, str] = {}  # identities by fidelity
    for result, place in studies:
        settings = result.settings
        if by not in settings:
            raise ConfigError(
                "must be a setting of the studies",
                field="by", value=by, remedy=choices(by, settings),
            )  # fmt: skip
        for name in ("tasks", "memory"):
            if settings[name] != first[name]:
                raise ConfigError(
                    f"must have the {name} of {studies[0][0].study.name}",
                    field=f"study {result.study.name}",
                    remedy="compare studies of one network on one board",
                )
        searched = result.search.settings
        known = oracles.setdefault(searched["fidelity"], searched["oracle"])
        if known != searched["oracle"]:
            raise ConfigError(
                f"must be measured on the RTL of {studies[0][0].study.name}",
                field=f"study {result.study.name}",
                value=searched["oracle"],
                remedy="compare studies of one RTL; tune again after a change",
            )
        groups.setdefault(str(settings[by]), []).append((result, place))
    return groups
