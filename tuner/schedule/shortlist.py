# SPDX-License-Identifier: Apache-2.0
"""Which configurations are worth measuring: a board's geometries ranked before any measurement.

Scratchpad depths do not shape time (configurations that differ in nothing else are one *timing
class*), so each class is represented once, by the depths under which the network is predicted to
take the fewest cycles. Without a prediction, depths grow in turn and classes are ranked by their
bound.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import TilewrightError
from tilewright.host.machine.area import Area
from tilewright.host.machine.board import Board
from tilewright.host.machine.hwconfig import (
    TIMING_PARAMETERS,
    HwConfig,
    load_hwconfig,
    named_configs,
)
from tilewright.tuner.schedule.network_prior import NetworkPrior
from tilewright.tuner.schedule.rules import Rules
from tilewright.tuner.schedule.spaces import HardwareSpace
from tilewright.tuner.search.space import Index

GROWTH_ORDER: Final = (
    "acc_bytes",
    "inp_bytes",
    "wgt_bytes",
    "out_bytes",
    "param_bytes",
    "res_bytes",
)
"""Buffers in the order in which spare block RAM is given to them, one doubling each in turn."""

SCOUTED: Final = 6
"""Classes whose depths are compared by the prediction: those of the lowest bounds."""

DEPTHS_PER_CLASS: Final = 3
"""Choices of depths of a class that may be measured."""


def timing_class(hw: HwConfig) -> tuple[int, ...]:
    """What a configuration's cycle counts depend on."""
    return tuple(getattr(hw, name) for name in TIMING_PARAMETERS)


def shortlist(
    board: Board,
    base: HwConfig,
    rules: Rules,
    network_bound: Callable[[HwConfig], int],
    count: int,
    *,
    predict: NetworkPrior | None = None,
    weight: Callable[[HwConfig], float] = lambda _: 1.0,
    built: Sequence[HwConfig] = (),
) -> list[HwConfig]:
    """Up to ``count`` configurations, the base first, then the most promising ones.

    With a prediction, the named configurations that fit the board stand in line with the classes
    around the base, each with the depths that suit the network best, and the base's own class is
    among them; classes that cannot beat a predicted network by their bound are left out.
    Without one, ties go to the geometry that is nearest to a square.
    """

    def value_bound(hw: HwConfig) -> float:
        return network_bound(hw) * weight(hw)

    if count == 1:
        return [base]
    if built:
        judge = predict or network_bound
        others = [
            hw for hw in built if hw.config_hash != base.config_hash and rules.fits(hw, board).ok
        ]
        others.sort(key=lambda hw: (judge(hw) * weight(hw), hw.config_hash))
        return [base, *others][:count]
    if predict is None:
        return [base, *_by_bound(board, base, rules, value_bound)][:count]
    return [base, *_by_prediction(board, base, rules, value_bound, predict, weight)][:count]


def _by_bound(
    board: Board, base: HwConfig, rules: Rules, network_bound: Callable[[HwConfig], float]
) -> Iterator[HwConfig]:
    space = HardwareSpace(board, base, rules)
    ranked = []
    for hw in _smallest_of_each_geometry(space):
        key = (hw.block_in, hw.block_out, hw.axi_data_bits)
        if key == (base.block_in, base.block_out, base.axi_data_bits):
            continue
        skew = max(hw.block_in, hw.block_out) // min(hw.block_in, hw.block_out)
        ranked.append((network_bound(hw), skew, key, hw))
    for _, _, _, hw in sorted(ranked, key=lambda entry: entry[:3]):
        yield space.decode(_grown(space, space.encode(hw)))


def _by_prediction(
    board: Board,
    base: HwConfig,
    rules: Rules,
    network_bound: Callable[[HwConfig], float],
    predict: NetworkPrior,
    weight: Callable[[HwConfig], float],
) -> list[HwConfig]:
    starts = [
        (network_bound(hw), timing_class(hw), space, hw)
        for space, hw in class_starts(board, base, rules)
    ]
    starts.sort(key=lambda entry: entry[:2])
    found: list[tuple[float, HwConfig]] = []
    goal = predict(base) * weight(base)
    for bound, _, space, smallest in starts[:SCOUTED]:
        if bound >= goal:
            break
        depths = largest_depths(space, rules)
        known = any(hw.config_hash == smallest.config_hash for hw in depths)
        if weight(smallest) != 1.0 and not known:  # area counts: small buffers may be worth more
            depths.append(smallest)
        predicted = [
            cycles * weight(hw)
            for cycles, hw in zip(predict.of_depths(depths), depths, strict=True)
        ]
        ranked = sorted(zip(predicted, depths, strict=True), key=lambda e: (e[0], e[1].config_hash))
        found += [entry for entry in ranked[:DEPTHS_PER_CLASS] if math.isfinite(entry[0])]
        goal = min(goal, *predicted)
    found.sort(key=lambda entry: (entry[0], entry[1].config_hash))
    return [hw for _, hw in found if hw.parameters() != base.parameters()]


def class_starts(
    board: Board, base: HwConfig, rules: Rules
) -> list[tuple[HardwareSpace, HwConfig]]:
    """One small configuration of every timing class on offer, with the space of its depths.

    The classes are the geometries of the hardware space around the base, with as many vector
    lanes as fit, and those of the named configurations that fit the board.
    """
    found: dict[tuple[int, ...], tuple[HardwareSpace, HwConfig]] = {}
    around = HardwareSpace(board, base, rules)
    named = [hw for hw in map(load_hwconfig, named_configs()) if rules.fits(hw, board).ok]
    for hw in [base, *_smallest_of_each_geometry(around), *named]:
        key = timing_class(hw)
        if key in found:
            continue
        buffers = {k.name: k.values for k in around.knobs if k.name in GROWTH_ORDER}
        for name in GROWTH_ORDER:
            buffers[name] = tuple(sorted({*buffers[name], getattr(hw, name)}))
        space = HardwareSpace(board, hw, rules, buffers)
        if space.valid(space.encode(hw)):
            found[key] = (space, hw)
    return list(found.values())


def largest_depths(space: HardwareSpace, rules: Rules) -> list[HwConfig]:
    """The valid configurations of a space of depths that no other valid one dominates."""
    kept: list[Index] = []
    for index in _affordable(space, rules):
        dominated = any(all(a <= b for a, b in zip(index, k, strict=True)) for k in kept)
        if not dominated and space.valid(index):
            kept.append(index)
    return [space.decode(index) for index in kept]


def _affordable(space: HardwareSpace, rules: Rules) -> list[Index]:
    """Indices that may fit the board, the largest first.

    Each buffer costs what it costs whatever the others are, so resources are summed up from
    configurations that differ from the base in one buffer. Rounding to whole block RAMs makes a
    sum at most half a block RAM a buffer too large: what is left out does not fit.
    """
    base = _amounts(rules.estimate(space.base))
    budget = np.array([space.board.lut, space.board.ff, space.board.bram36, space.board.dsp])
    total = base.reshape(4, *[1] * len(space.knobs))
    for axis, knob in enumerate(space.knobs):
        extra = np.full((4, len(knob)), np.inf)
        for position, value in enumerate(knob.values):
            with contextlib.suppress(TilewrightError):  # a depth that no configuration may have
                hw = space.base.with_(**{knob.name: value})
                extra[:, position] = _amounts(rules.estimate(hw)) - base
        total = total + extra.reshape(4, *[-1 if k == axis else 1 for k in range(len(space.knobs))])
    slack = 1.0 + len(space.knobs)
    found = np.argwhere((total <= (budget + slack).reshape(4, *[1] * len(space.knobs))).all(axis=0))
    indices = [tuple(row) for row in found.tolist()]
    return sorted(indices, key=lambda index: (-sum(index), index))


def _amounts(area: Area) -> npt.NDArray[np.float64]:
    return np.array([area.lut, area.ff, area.bram36, area.dsp], dtype=np.float64)


def _smallest_of_each_geometry(space: HardwareSpace) -> Sequence[HwConfig]:
    """For each geometry and bus, the first fit: most vector lanes, smallest legal buffers."""
    values = {knob.name: knob.values for knob in space.knobs}
    found = []
    for block_in in values["block_in"]:
        for block_out in values["block_out"]:
            for bits in values["axi_data_bits"]:
                for lanes in reversed(values["vector_lanes"]):
                    hw = _smallest(space, block_in, block_out, bits, lanes)
                    if hw is not None:
                        found.append(hw)
                        break
    return found


def _smallest(
    space: HardwareSpace, block_in: int, block_out: int, bits: int, lanes: int
) -> HwConfig | None:
    """The smallest common scale of the buffers at which the geometry is legal and fits."""
    buffers = {k.name: k.values for k in space.knobs if k.name in GROWTH_ORDER}
    for scale in range(max(len(v) for v in buffers.values())):
        values = {name: v[min(scale, len(v) - 1)] for name, v in buffers.items()}
        values |= {
            "block_in": block_in,
            "block_out": block_out,
            "axi_data_bits": bits,
            "vector_lanes": lanes,
        }
        index = space.index_of(values)
        if space.valid(index):
            return space.decode(index)
        if not _constructible(space, index):
            continue
        return None
    return None


def _constructible(space: HardwareSpace, index: Index) -> bool:
    try:
        space.decode(index)
    except TilewrightError:
        return False
    return True


def _grown(space: HardwareSpace, index: Index) -> Index:
    """Double one buffer after another while the configuration stays valid."""
    names = [knob.name for knob in space.knobs]
    growing = [names.index(name) for name in GROWTH_ORDER if name in names]
    while growing:
        for knob in list(growing):
            larger = (*index[:knob], index[knob] + 1, *index[knob + 1 :])
            if larger[knob] < len(space.knobs[knob]) and space.valid(larger):
                index = larger
            else:
                growing.remove(knob)
    return index
