# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.host.common.errors import ProgramError
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.isa import Instruction, Opcode
from tilewright.host.machine.program import REGION_ALIGNMENT, Program, Region, layout_regions

FINISH = Instruction(Opcode.FINISH, {}).encode()


def program(**changes):
    regions, total = layout_regions({"insn": 64, "uop": 16, "inp": 100})
    values = {
        "config_hash": HwConfig().config_hash,
        "instructions": FINISH * 2,
        "regions": regions,
        "constants": {"uop": bytes(range(16))},
        "memory_bytes": total,
    }
    return Program(**(values | changes))


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=4), st.integers(0, 20000), max_size=8))
def test_regions_are_aligned_disjoint_in_order_and_inside_the_memory(sizes):
    regions, total = layout_regions(sizes)
    assert list(regions) == list(sizes)
    end = 0
    for name, region in regions.items():
        assert region.offset % REGION_ALIGNMENT == 0
        assert region.offset >= end
        assert region.nbytes == sizes[name]
        end = region.offset + region.nbytes
    assert len({r.offset for r in regions.values()}) == len(regions)
    assert end <= total < end + 2 * REGION_ALIGNMENT


@settings(deadline=None)
@given(st.binary(max_size=100))
def test_what_is_written_to_a_region_is_read_back_and_nothing_else_changes(data):
    p = program()
    before = p.image()
    after = before.copy()
    p.write(after, "inp", np.frombuffer(data, np.uint8))
    assert p.read(after, "inp")[: len(data)].tobytes() == data
    start = p.regions["inp"].offset
    assert np.array_equal(np.delete(after, range(start, start + len(data))),
                          np.delete(before, range(start, start + len(data))))  # fmt: skip


def test_constants_longer_than_their_region_are_refused():
    with pytest.raises(ProgramError, match="uop"):
        program(constants={"uop": bytes(17)}).image()


def test_an_unknown_region_is_refused_with_the_known_ones():
    p = program()
    for call in (lambda: p.read(p.image(), "wgt"), lambda: p.write(p.image(), "wgt", p.image())):
        with pytest.raises(ProgramError, match="no such region") as caught:
            call()
        assert caught.value.remedy == "regions: insn, uop, inp"


@pytest.mark.parametrize(
    ("regions", "size", "text"),
    [
        ({"a": Region(offset=0, nbytes=8), "b": Region(offset=4, nbytes=4)}, 64, "overlap"),
        ({"a": Region(offset=0, nbytes=65)}, 64, "lie in"),
    ],
)
def test_regions_that_overlap_or_leave_the_memory_are_refused(regions, size, text) -> None:
    with pytest.raises(ProgramError, match=text):
        Program(config_hash=0, instructions=b"", regions=regions, constants={}, memory_bytes=size)
