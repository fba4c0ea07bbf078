# SPDX-License-Identifier: Apache-2.0
"""The page of a network's division."""

import itertools
import json

import numpy as np
import pytest
from support.documents.html_structure import structure_of
from support.networks.small_models import Model, imported
from support.randomness import fresh_rng
from support.search.analytic_oracle import run

from tilewright.host.common.errors import StoreError
from tilewright.host.compiler.pipeline import compile_network
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.workload import dense
from tilewright.sim.twin.network_timing import time_network
from tilewright.tuner.report.pareto import Point, pareto, pareto_lines
from tilewright.tuner.report.partition import (
    Block,
    PartitionPicture,
    blocks,
    partition_page,
    write_partition,
)
from tilewright.tuner.report.result_json import conditions_of, summary_of, task_rows
from tilewright.tuner.report.summary import share_lines
from tilewright.tuner.study.best_network import cost_of, stored_share
from tilewright.tuner.study.options import Mode

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


# -- the Pareto archive ---------------------------------------------------------------------------


def test_the_archive_holds_no_network_that_another_beats(tmp_path) -> None:
    result, _ = run(tmp_path, configs=4, budget=150)
    archive = pareto(result)
    assert archive[0].cycles == result.best_network
    assert not any(a.beats(b) for a, b in itertools.permutations(archive, 2))


def test_no_network_on_the_hull_is_missing(tmp_path) -> None:
    """Against brute force: the least weighted sum over every combination of measured trials."""
    result, _ = run(tmp_path, configs=1, budget=24)
    area = stored_share(result.configs[0], result.settings["board"])
    choices = [
        [cost_of(t, area) for t in result.trials if t.task == task.name and t.measurement.valid]
        for task in result.tasks
    ]
    counts = [task.count for task in result.tasks]
    networks = [
        (
            sum(c.cycles * n for c, n in zip(combination, counts, strict=True)),
            sum(c.energy * n for c, n in zip(combination, counts, strict=True)),
        )
        for combination in itertools.product(*choices)
    ]
    archive = pareto(result)
    assert min(p.cycles for p in archive) == min(cycles for cycles, _ in networks)
    assert min(p.energy for p in archive) == pytest.approx(min(energy for _, energy in networks))
    found = {(p.cycles, round(p.energy)) for p in archive}
    assert found <= {(cycles, round(energy)) for cycles, energy in networks}


def test_beats_needs_no_worse_anywhere_and_better_somewhere() -> None:
    def point(cycles: int, energy: float, area: float) -> Point:
        return Point(
            config="c", config_hash="0", cycles=cycles, energy=energy, area=area, schedules={}
        )

    assert point(1, 2, 3).beats(point(1, 2, 4))
    assert not point(1, 2, 3).beats(point(1, 2, 3))
    assert not point(1, 5, 3).beats(point(2, 2, 3))


def test_per_layer_results_have_no_archive(tmp_path) -> None:
    result, _ = run(tmp_path, mode=Mode.PER_LAYER)
    assert pareto(result) == []
    assert pareto_lines([]) == []


def test_the_rows_and_the_summary_say_what_was_found(tmp_path) -> None:
    result, _ = run(tmp_path)
    assert summary_of(result)["best_cycles"] == result.best_network
    rows = task_rows(result)
    assert sum(row["best_cycles"] * row["count"] for row in rows) == result.best_network
    assert conditions_of(result)["study"] == result.study.name
    json.dumps([rows, summary_of(result), conditions_of(result)], allow_nan=False)


# -- what a study leaves out is said, and loudly if it is much ------------------------------------

FC = dense("fc", 1, 30, 5)
CONV3D = "1 x Conv: its operand has 5 axes; 3 or 4 are offloaded (576 MACs)"


def lines(macs: int, *operators: str) -> tuple[str, str]:
    return share_lines(
        {"tasks": [FC.to_mapping()], "cpu_operators": list(operators), "cpu_macs": macs}
    )


def test_a_small_share_is_a_warning_with_figures() -> None:
    text, warning = lines(850, CONV3D)
    assert "1 layer of 1 shape, 150 MACs" in text
    assert CONV3D in text
    assert "only 15.0 % of the network's MACs are tuned, 85.0 % are left out" in warning


def test_a_large_share_is_none() -> None:
    text, warning = lines(10, "1 x MaxPool: pooling is not tuned")
    assert "MaxPool" in text
    assert not warning


def test_studies_from_before_the_count_have_no_warning() -> None:
    text, warning = share_lines({"tasks": [FC.to_mapping()], "cpu_operators": []})
    assert "not tuned" not in text
    assert not warning
