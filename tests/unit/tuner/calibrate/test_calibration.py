# SPDX-License-Identifier: Apache-2.0
"""Calibration finds the hidden memory timing of noisy boards, and says how well."""

from dataclasses import replace

import pytest
from support.boards.simulated import HIDDEN, KIND, HiddenBoard, pool_of

from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.workload import conv2d, dense
from tilewright.sim.twin.device import Twin
from tilewright.tuner.calibrate import board_calibration
from tilewright.tuner.measure.measurement import Request
from tilewright.tuner.measure.oracle import LoweredTrial
from tilewright.tuner.schedule.rules import host_rules

TINY = load_hwconfig("tiny-4x4")
BOARD = load_board(KIND)
LAYERS = (
    conv2d("A", 8, 8, 8, 3, 1, 1),
    conv2d("B", 6, 16, 8, 3, 1, 1),
    dense("C", 4, 128, 32),
    conv2d("D", 8, 8, 16, 1, 0, 1),
)
RULES = host_rules()


def counted(memory, layers=LAYERS) -> list[board_calibration.CountedRun]:
    """What a board without noise counts."""
    twin = Twin(TINY, memory)
    runs = []
    for place, layer in enumerate(layers):
        for schedule in board_calibration.probe_schedules(layer, TINY, RULES, 5, (0, place)):
            program = LoweredTrial.of(
                Request(hw=TINY, workload=layer, schedule=schedule, memory=memory, max_cycles=10**9)
            ).program
            values = twin.counters(program).values
            runs.append(
                board_calibration.CountedRun(
                    label=layer.name,
                    board="b",
                    program=program,
                    counters={name: values[name] for name in board_calibration.COMPARED},
                )
            )
    return runs


@pytest.mark.parametrize(
    "hidden",
    [
        HIDDEN,
        replace(BOARD.memory, read_latency=60, write_latency=12),
        replace(BOARD.memory, read_bytes_per_cycle=3.0, write_bytes_per_cycle=5.0),
    ],
)
def test_a_hidden_timing_is_found_where_nothing_is_noisy(hidden):
    fit = board_calibration.fit_memory(TINY, BOARD.memory, counted(hidden))
    assert fit.after < 0.006
    assert fit.after < fit.before / 8
    assert abs(fit.memory.read_latency - hidden.read_latency) <= 1
    assert abs(fit.memory.write_latency - hidden.write_latency) <= 2
    for memory in (fit.memory, hidden):
        assert memory.max_reads == BOARD.memory.max_reads

    def reads(memory) -> float:
        """Bytes per cycle of the read direction alone, as far as the bus lets them."""
        return min(8.0, memory.read_bytes_per_cycle, memory.shared_bytes_per_cycle)

    assert reads(fit.memory) == pytest.approx(reads(hidden), rel=0.02)


@pytest.mark.slow
def test_two_noisy_boards_calibrate_a_model_that_predicts_other_layers(tmp_path):
    with pool_of(tmp_path, one=HiddenBoard(seed=11), two=HiddenBoard(seed=12)) as pool:
        found = board_calibration.calibrate(
            pool, BOARD, TINY, LAYERS, rules=RULES, command="the test", schedules=4, seed=1
        )
    memory = found.fit.memory
    assert abs(memory.read_latency - HIDDEN.read_latency) <= 3
    assert abs(memory.write_latency - HIDDEN.write_latency) <= 6
    assert memory.shared_bytes_per_cycle == pytest.approx(6.0, rel=0.1)
    assert found.held_after < found.held_before / 4
    assert found.held_after < 0.02
    assert {(row.layer, row.board) for row in found.layers if row.held_out} == {
        (layer, board) for layer in "BD" for board in ("one", "two")
    }
    path = tmp_path / "board.yaml"
    path.write_text(board_calibration.board_yaml(found.board))
    again = load_board(path)
    assert again == found.board
    assert again.name == KIND, "its agents serve it under this name"
    assert again.memory == memory
    sources = again.sources
    assert "fitted to one, two on " in sources["memory.read_latency"]
    assert "the test; mean error of cycles on layers held out" in sources["calibration"]
    assert sources["calibration.B on two"].startswith("held out, model over board ")
    assert "max_reads" in "".join(sources), "what was not fitted keeps its source"


def test_layers_that_cannot_be_used_are_refused(tmp_path):
    with pool_of(tmp_path, one=HiddenBoard(memory=BOARD.memory)) as pool:
        with pytest.raises(board_calibration.CalibrationError, match="at least two layers"):
            board_calibration.calibrate(pool, BOARD, TINY, LAYERS[:1], rules=RULES, command="")
        with pytest.raises(board_calibration.CalibrationError, match="may be right already"):
            board_calibration.calibrate(
                pool, BOARD, TINY, LAYERS[:2], rules=RULES, command="", schedules=2
            )
