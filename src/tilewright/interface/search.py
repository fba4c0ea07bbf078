# SPDX-License-Identifier: Apache-2.0
"""Search without a study: the space of a layer's schedules, and tuners to `ask` and `tell`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from tilewright.host.machine.board import Board, MemoryModel, load_memory
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.network.workload import Workload
from tilewright.interface.layers import load_layer
from tilewright.interface.typed import typed
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.schedule.spaces import ScheduleSpace
from tilewright.tuner.search.registry import TUNERS
from tilewright.tuner.search.space import Space
from tilewright.tuner.search.tuner import Offer, Tuner, TunerError

P = TypeVar("P")


@typed
def schedule_space(
    workload: Workload | str, hw: HwConfig | str | Path = "pynq-16x16", *, kind: str = "full"
) -> ScheduleSpace:
    """The legal schedules of a layer on a configuration, as the space that a tuner searches.

    An index has one integer per knob: the position of the knob's value. ``space.knobs`` are the
    choices, ``space.decode(index)`` is the `Schedule`, ``space.encode(schedule)`` its index,
    ``space.valid(index)`` whether it is legal, ``space.enumerate()`` all legal indices.

    Args:
        workload: the layer, or its name (see `simulate`).
        hw: configuration, or the name or YAML file of one.
        kind: ``full``: any tile sizes, loop orders and fusions; ``vta``: VTA's divisor tiles.

    Raises:
        ConfigError: no such configuration.
        SpaceError: no such kind.
        WorkloadError: there is no such layer.

    Example:
        >>> import tilewright as tw
        >>> layer = tw.conv2d("example", 14, 16, 16, kernel=3, pad=1, stride=1)
        >>> space = tw.schedule_space(layer, "tiny-4x4", kind="vta")
        >>> space.raw_size, sum(1 for _ in space.enumerate())
        (576, 473)
        >>> space.valid(space.encode(tw.default_schedule(space.hw, layer)))
        True
    """
    config = load_hwconfig(hw)
    return ScheduleSpace(load_layer(workload, config), config, host_rules(), kind)


@typed
def make_tuner(
    tuner: str | type[Tuner[Any]],
    space: Space[P],
    *,
    seed: int = 0,
    memory: MemoryModel | Board | str | Path | None = None,
    **options: Any,
) -> Tuner[P]:
    """A tuner over a space: ``ask(n)`` proposes, ``tell(results)`` teaches.

    Equal seeds, asks and results give equal proposals.

    Args:
        tuner: a name (``tilewright tuners`` lists them), ``package.module:Class``,
            ``path/to/file.py:Class``, or a subclass of `Tuner`. Options of its class may follow a
            name: ``tilewright:descend=false``.
        space: where it searches, such as a `schedule_space`.
        seed: of every random choice; at least 0.
        memory: gives a tuner that takes a prior the closed-form cycles of a `schedule_space` on
            this memory (see `simulate` for its names): a grey-box search. None: no prior.
        options: further arguments of the tuner's class, such as ``initial``: indices to propose
            first.

    Raises:
        TunerError: no tuner of that name, a package that it needs is not installed, or ``memory``
            for a space that no closed form is known of.

    Example:
        >>> import tilewright as tw
        >>> layer = tw.conv2d("example", 14, 16, 16, kernel=3, pad=1, stride=1)
        >>> space = tw.schedule_space(layer, "tiny-4x4")
        >>> tuner = tw.make_tuner("coordinate", space, seed=1)
        >>> for candidate in tuner.ask(4):
        ...     cycles = tw.simulate(layer, candidate.point, hw=space.hw, fidelity="twin").cycles
        ...     tuner.tell([tw.Result(index=candidate.index, value=cycles)])
        >>> tuner.asked
        4
    """
    prior = None
    if memory is not None:
        if not isinstance(space, ScheduleSpace):
            raise TunerError(
                "the closed form is known of schedule spaces alone",
                field="memory",
                remedy="leave memory out, or hand your own function over as prior",
            )
        prior = host_rules().prior(space.hw, space.workload, load_memory(memory))
    if seed < 0:
        raise TunerError(
            "must be at least 0", field="seed", value=seed, remedy="give another integer"
        )
    kind = TUNERS.load(tuner) if isinstance(tuner, str) else TUNERS.accept(tuner)
    if Offer.PRIOR in kind.takes:
        options[Offer.PRIOR] = prior
    return TUNERS.make(tuner, space, seed=seed, **options)


def tuner_name(tuner: str | type[Tuner[Any]]) -> str:
    """The name that a study stores: ``module:Class`` of a class that is found again by it."""
    if isinstance(tuner, type):
        named = f"{tuner.__module__}:{tuner.__qualname__}"
        if "." in tuner.__qualname__:
            raise TunerError(
                "a tuner's class must stand at the top level of its module",
                field="tuner",
                value=named,
                remedy="move it out of the function or class that defines it",
            )
        TUNERS.check(named)
        return named
    return tuner
