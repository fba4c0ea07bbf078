# SPDX-License-Identifier: Apache-2.0
"""Which configurations are worth a build: the board's geometries ranked by their network bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tilewright.host.board import Board
from tilewright.host.errors import TilewrightError
from tilewright.host.hwconfig import HwConfig
from tilewright.tuner.rules import Rules
from tilewright.tuner.space import Index
from tilewright.tuner.spaces import HardwareSpace

GROWTH_ORDER: Final = (
    "acc_bytes",
    "inp_bytes",
    "wgt_bytes",
    "out_bytes",
    "param_bytes",
    "res_bytes",
)
"""Buffers in the order in which spare block RAM is given to them, one doubling each in turn."""


def shortlist(
    board: Board,
    base: HwConfig,
    rules: Rules,
    network_bound: Callable[[HwConfig], int],
    count: int,
) -> list[HwConfig]:
    """Up to ``count`` configurations, the base first, then others by ascending network bound.

    Buffer depths do not change the bound, so each (block_in, block_out, bus) is represented once:
    with as many vector lanes as the tile and the board allow and with the buffers grown in turn
    while the whole still fits. Ties go to the geometry that is nearest to a square.

    Args:
        board: budget and port.
        base: always the first.
        rules: area rules.
        network_bound: lower bound of the network's cycles on a configuration.
        count: configurations wanted, the base included.
    """
    chosen = [base]
    if count == 1:
        return chosen
    space = HardwareSpace(board, base, rules)
    ranked = []
    for hw in _smallest_of_each_geometry(space):
        key = (hw.block_in, hw.block_out, hw.axi_data_bits)
        if key == (base.block_in, base.block_out, base.axi_data_bits):
            continue
        skew = max(hw.block_in, hw.block_out) // min(hw.block_in, hw.block_out)
        ranked.append((network_bound(hw), skew, key, hw))
    for _, _, _, hw in sorted(ranked, key=lambda entry: entry[:3]):
        if len(chosen) == count:
            break
        chosen.append(space.decode(_grown(space, space.encode(hw))))
    return chosen


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
    growing = [names.index(name) for name in GROWTH_ORDER]
    while growing:
        for knob in list(growing):
            larger = (*index[:knob], index[knob] + 1, *index[knob + 1 :])
            if larger[knob] < len(space.knobs[knob]) and space.valid(larger):
                index = larger
            else:
                growing.remove(knob)
    return index
