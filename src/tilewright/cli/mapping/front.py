# SPDX-License-Identifier: Apache-2.0
"""`tilewright map --pareto`: the proven compromises of latency and energy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.cli.common.progress import progress
from tilewright.cli.mapping.views import print_fronts
from tilewright.tuner.mapping.front import Front, pareto_front

if TYPE_CHECKING:
    from tilewright.cli.common.json_output import JsonTarget
    from tilewright.tuner.mapping.architecture import Architecture
    from tilewright.tuner.mapping.fixed import Fixed
    from tilewright.tuner.mapping.nest import LoopNest
    from tilewright.tuner.mapping.options import MapOptions


def map_fronts(
    nests: list[LoopNest],
    arch: Architecture,
    fixed: Fixed,
    settings: MapOptions,
    conditions: dict[str, Any],
    json: JsonTarget | None,
) -> None:
    """The front of one nest after another; what was found before an end is told first."""
    fronts: list[Front] = []
    end: BaseException | None = None
    try:
        with progress("", total=len(nests), quiet=json is not None) as steps:
            for done, nest in enumerate(nests):
                steps.at(nest.name, done, len(nests))
                fronts.append(
                    pareto_front(
                        nest, arch, fixed=fixed, seconds=settings.seconds, gap=settings.gap or 0.0
                    )
                )
                if fronts[-1].stopped:
                    raise KeyboardInterrupt
    except (KeyboardInterrupt, Exception) as error:
        end = error
    if fronts:
        print_fronts(fronts, arch)
        if json is not None:
            json.write(
                [row for front in fronts for row in front.to_rows()],
                conditions,
                summary={
                    "certified": len(fronts) == len(nests) and all(f.certified for f in fronts),
                    "mappings": sum(len(front.points) for front in fronts),
                },
            )
    if end is not None:
        raise end
