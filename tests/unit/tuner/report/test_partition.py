# SPDX-License-Identifier: Apache-2.0
"""The page of a network's division."""

import numpy as np
import pytest
from support.html_structure import structure_of
from support.randomness import fresh_rng
from support.small_models import Model, imported

from tilewright.host.common.errors import StoreError
from tilewright.host.compiler.pipeline import compile_network
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.twin.network_timing import time_network
from tilewright.tuner.report.partition import (
    Block,
    PartitionPicture,
    blocks,
    partition_page,
    write_partition,
)

HW, BOARD = load_hwconfig("tiny-4x4"), load_board("pynq-z2")


def test_a_page_shows_every_block_and_every_operator(tmp_path) -> None:
    model = Model(fresh_rng())
    x = model.add("Conv", model.input(1, 4, 6, 6), model.weights(4, 4, 1, 1))
    y = model.add("Tanh", model.add("Sigmoid", x))
    y = model.add("Add", model.add("Conv", y, model.weights(4, 4, 1, 1)), x)
    network = imported(model.proto(y), name="<forked>")
    compiled = compile_network(network, HW, BOARD, offload_all=True).network
    timing = time_network(compiled, BOARD.memory)
    found = blocks(compiled, BOARD, timing)
    assert [block.where for block in found] == ["accelerator", "cpu", "accelerator"]
    assert found[1].title == "CPU: Sigmoid, Tanh"
    page = partition_page(compiled, network.qdq, BOARD, timing)
    for name in [n for block in found for n in block.operators]:
        assert name in page
    assert "<forked>" not in page
    assert 'class="line ink"' in page  # the shortcut over the CPU
    structure = structure_of(page)
    assert structure.unclosed == structure.loads == []
    assert structure.charts_without_name == structure.uneven_tables == 0
    write_partition(page, tmp_path / "net.html")
    with pytest.raises(StoreError, match="cannot be written"):
        write_partition(page, tmp_path)


def test_lines_of_one_lane_do_not_overlap() -> None:
    block = Block(where="cpu", title="x" * 99, operators=(), seconds=0.0, tip="")
    edges = [(0, 2), (0, 3), (2, 5), (3, 4), (1, 6)]
    picture = PartitionPicture(alt="", blocks=[block] * 7, edges=edges)
    lanes: dict[int, int] = {}
    for lane, first, last in picture._lanes():
        assert last > first + 1
        assert lanes.get(lane, 0) <= first
        lanes[lane] = last
    assert sorted(lanes) == [0, 1, 2]
    assert picture.svg(358).count("...") == 7
    assert np.all([PartitionPicture(alt="", blocks=[], edges=[]).svg(358)])
