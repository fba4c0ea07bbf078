# SPDX-License-Identifier: Apache-2.0
"""The printed loops are those of the mapping."""

import math
import re

from hypothesis import given
from support.mappings import cases

from tilewright.tuner.mapping.exchange import loop_lines
from tilewright.tuner.mapping.mapping import Mapping
from tilewright.tuner.mapping.nest import LoopNest


@given(cases(even=True))
def test_trips_tiles_and_the_pe_tile_multiply_to_all_iterations(
    case: tuple[LoopNest, Mapping],
) -> None:
    nest, mapping = case
    notes = [line.rsplit("# ", 1)[1] for line in loop_lines(nest, mapping)]
    counts = [int(note.split()[0].replace(",", "")) for note in notes]
    assert math.prod(counts) == nest.macs


@given(cases())
def test_each_line_nests_in_the_one_before(case: tuple[LoopNest, Mapping]) -> None:
    lines = loop_lines(*case)
    for depth, line in enumerate(lines):
        assert re.match(rf" {{{2 * depth}}}\S", line)
    assert lines[-1].lstrip().startswith("multiply and add a tile of ")
    assert len({line.index("#") for line in lines}) == 1
