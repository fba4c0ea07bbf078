# SPDX-License-Identifier: Apache-2.0
"""`tilewright map --evaluate`: what the mapping of a file costs, and what the best one would."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tilewright.cli.common.application import say
from tilewright.cli.common.parse_errors import UsageError
from tilewright.host.common.errors import errors_in
from tilewright.tuner.mapping.architecture import (
    Architecture,
    load_architecture,
    named_architectures,
)
from tilewright.tuner.mapping.cost import CostModel, Objective
from tilewright.tuner.mapping.find import Finder, Found, judge
from tilewright.tuner.mapping.reading import Stated, read_mapping

if TYPE_CHECKING:
    from tilewright.tuner.mapping.exact import Listener
    from tilewright.tuner.mapping.fixed import Fixed
    from tilewright.tuner.mapping.nest import LoopNest
    from tilewright.tuner.mapping.options import MapOptions

SECONDS: Final = 10.0
"""Of the search for the best mapping, unless ``--seconds`` says another limit."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """A mapping of a file, and what it is judged by."""

    path: Path
    stated: Stated
    arch: Architecture
    objective: str

    def finder(self, settings: MapOptions, fixed: Fixed) -> Finder:
        """Judges the mapping."""
        seconds = SECONDS if settings.seconds is None else settings.seconds

        def find(nest: LoopNest, listener: Listener | None = None) -> Found:
            with errors_in(str(self.path)):
                return judge(
                    nest, self.arch, self.stated.mapping, Objective(self.objective), fixed=fixed,
                    seconds=seconds, gap=settings.gap or 0.0, listener=listener,
                )  # fmt: skip

        return find

    def row(self, found: Found) -> dict[str, Any]:
        """The row of a JSON document."""
        best, facts = found.best, self.stated.facts
        assert best is not None
        return {
            **found.to_row(),
            "format": self.stated.form,
            "best_value": best.value,
            "best_mapping": best.mapping.as_dict(),
            "stated_cost": facts.get("cost") if isinstance(facts.get("cost"), dict) else None,
        }

    def tell_other_cost(self, found: Found) -> None:
        """Say so if the file states another cost on the same architecture."""
        facts = self.stated.facts
        stated = facts.get("cost")
        if facts.get("architecture") == self.arch.name and isinstance(stated, dict):
            other = [name for name, value in found.cost.items() if stated.get(name) != value]
            if other:
                say(f"{self.path} states another cost: {', '.join(other)}", err=True)


def read_evaluation(
    path: Path,
    nests: list[LoopNest],
    arch: Architecture,
    objective: str,
    given: tuple[bool, bool],
) -> Evaluation:
    """Read the mapping of the one layer; ``given``: the user named architecture, objective."""
    if len(nests) != 1:
        raise UsageError(
            "judges a mapping of one layer",
            field="--evaluate",
            value=f"{len(nests)} layers",
            remedy="name the layer, as in resnet18:C2",
        )
    with errors_in("--evaluate"):
        stated = read_mapping(path, CostModel(nests[0], arch), Objective(objective))
    own, aim = stated.facts.get("architecture"), stated.facts.get("objective")
    if not given[0] and own is not None and own != arch.name:
        if own not in named_architectures():
            raise UsageError(
                "was made for an architecture that has no name here",
                field=f"--evaluate: {path}",
                value=own,
                remedy="name its file with --hardware",
            )
        arch = load_architecture(str(own))
    if not given[1] and aim is not None:
        if not isinstance(aim, str) or aim not in tuple(Objective):
            raise UsageError(
                "names no objective",
                field=f"--evaluate: {path}: objective",
                value=aim,
                remedy=f"write one of {', '.join(Objective)}, or give --objective",
            )
        objective = aim
    return Evaluation(path=path, stated=stated, arch=arch, objective=objective)
