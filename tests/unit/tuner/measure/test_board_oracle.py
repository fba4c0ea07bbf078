# SPDX-License-Identifier: Apache-2.0
"""Boards as the oracle: noise is averaged and told, and no board that fails costs a trial."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from support.boards.simulated import HIDDEN, KIND, HiddenBoard, oracle_of, pool_of

from tilewright.host.common.errors import ConfigError, DeviceError, EnvironmentFaultError
from tilewright.host.lowering import default_schedule
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import conv2d
from tilewright.host.runtime.agent.journal import Journal
from tilewright.sim.twin.device import Twin
from tilewright.tuner.measure.board_oracle import BoardOracle
from tilewright.tuner.measure.measurement import Request, Status
from tilewright.tuner.measure.oracle import LoweredTrial

TINY = load_hwconfig("tiny-4x4")
LAYER = conv2d("L", 6, 8, 8, 3, 1, 1)
SCHEDULES = [
    default_schedule(TINY, LAYER),
    Schedule(tile_h=2, tile_w=3, tile_ci=1, tile_co=1, oc_threading=2),
    Schedule(tile_h=1, tile_w=6, tile_ci=2, tile_co=2),
    Schedule(tile_h=3, tile_w=6, tile_ci=1, tile_co=1),
]


def requests(count: int = 4, **changes) -> list[Request]:
    base = Request(
        hw=TINY,
        workload=LAYER,
        schedule=SCHEDULES[0],
        memory=load_memory(KIND),
        max_cycles=1_000_000,
    )
    return [replace(base, schedule=SCHEDULES[n % 4], **changes) for n in range(count)]


def true_cycles(request: Request) -> int:
    return Twin(TINY, HIDDEN).counters(LoweredTrial.of(request).program).cycles


def test_boards_measure_bit_exact_what_their_own_memory_takes(tmp_path):
    wanted = requests()
    with oracle_of(tmp_path, one=HiddenBoard(), two=HiddenBoard()) as (oracle, told):
        answers = dict(oracle.measure(wanted))
        again = dict(oracle.measure(wanted))
    assert told == []
    for position, request in enumerate(wanted):
        answer = answers[position]
        assert answer.valid
        assert answer.output_checked
        assert answer.cycles == again[position].cycles == true_cycles(request)
        assert answer.runs.board in {"one", "two"}
        assert answer.runs.cycles == (answer.cycles,) * 3, "equal runs: three are enough"
        assert answer.relative_error == 0


def test_a_board_that_comes_back_joins_what_is_on_its_way(tmp_path, monkeypatch):
    one, two = HiddenBoard(), HiddenBoard()
    wanted = requests(30)
    growing, order = wanted[:2], []
    with oracle_of(tmp_path, one=one, two=two) as (oracle, told):
        one.broken = True
        for _, answer in oracle.measure(growing):
            order.append(answer.runs.board)
            growing += wanted[len(growing) : len(growing) + 1]
            if len(order) == 8 and one.runs:
                one.broken = False
                monkeypatch.setattr(oracle._boards[0], "retry_at", 0.0)
    assert len(order) == 30
    if one.runs:  # it had its turn, and failed
        assert set(order[:8]) == {"two"}
        assert told[-1] == "board one is back"


def test_a_noisy_board_is_asked_until_its_median_is_known(tmp_path):
    wanted = requests()
    with oracle_of(tmp_path, noisy=HiddenBoard(seed=7)) as (oracle, _):
        answers = dict(oracle.measure(wanted))
    for position, request in enumerate(wanted):
        answer, truth = answers[position], true_cycles(request)
        runs = answer.runs
        assert len(runs.cycles) > 3
        assert answer.cycles in runs.cycles
        assert answer.cycles == answer.counters["cycles"]
        assert answer.relative_error <= runs.half_interval / answer.cycles
        assert abs(answer.cycles - truth) <= 3 * runs.half_interval
    assert any(answer.relative_error > 0 for answer in answers.values())
    assert any(answer.runs.outliers for answer in answers.values())


def test_a_liar_is_refused_and_found_out_by_the_others(tmp_path):
    liar, honest = HiddenBoard(), HiddenBoard()
    liar.lies = True
    honest.hold = threading.Event()
    with oracle_of(tmp_path, liar=liar, honest=honest) as (oracle, told):
        threading.Thread(target=lambda: (liar.started.wait(20), honest.hold.set())).start()
        answers = dict(oracle.measure(requests()))
        more = dict(oracle.measure(requests()))
    assert all(answer.valid for answer in answers.values())
    assert {a.runs.board for a in (*answers.values(), *more.values())} == {"honest"}
    assert "board liar: a result of L is refused" in told[0]
    assert "elements differ from the golden model" in told[0]
    assert told[1] == ("board liar gets no more trials: it computed L wrongly, and honest did not")
    assert len(told) == 2
    assert liar.runs == 1


def test_boards_that_agree_on_a_wrong_result_show_a_defect_of_what_runs(tmp_path):
    one, two = HiddenBoard(), HiddenBoard()
    one.lies = two.lies = True
    with oracle_of(tmp_path, one=one, two=two) as (oracle, _):
        answers = dict(oracle.measure(requests()))
        assert {answer.status for answer in answers.values()} == {Status.MISMATCH}
        assert all("board one: " in answer.failure for answer in answers.values())
        assert all("board two: " in answer.failure for answer in answers.values())
        one.lies = two.lies = False
        assert all(answer.valid for _, answer in oracle.measure(requests()))


def test_a_lone_board_that_lies_ends_the_measuring(tmp_path):
    liar = HiddenBoard()
    liar.lies = True
    with oracle_of(tmp_path, liar=liar) as (oracle, told):
        with pytest.raises(EnvironmentFaultError, match="no board is left for 4 trials"):
            list(oracle.measure(requests()))
        with pytest.raises(EnvironmentFaultError, match="computed something else"):
            list(oracle.measure(requests()))
    assert "is refused" in told[0]


def test_without_a_board_measuring_ends_after_what_was_measured(tmp_path, monkeypatch):
    only = HiddenBoard()
    with oracle_of(tmp_path, only=only) as (oracle, told):
        course = oracle.measure(requests())
        first = next(course)
        only.broken = True
        found = [first]
        with pytest.raises(EnvironmentFaultError, match=r"the same command goes on from here"):
            found.extend(course)
        assert all(answer.valid for _, answer in found)
        only.broken = False
        with pytest.raises(EnvironmentFaultError):
            list(oracle.measure(requests()))  # not at once
        monkeypatch.setattr(oracle._boards[0], "retry_at", 0.0)
        assert len(list(oracle.measure(requests()))) == 4
    assert told[-1] == "board only is back"


def cut(oracle: BoardOracle) -> None:
    """Break the connection to the only board."""
    oracle._boards[0].device._channel._socket.shutdown(socket.SHUT_RDWR)


def test_the_result_of_a_run_whose_connection_broke_comes_from_the_journal(tmp_path):
    board = HiddenBoard()
    board.hold = threading.Event()
    with oracle_of(tmp_path, journal=Journal(tmp_path / "journal"), one=board) as (oracle, told):

        def break_it() -> None:
            assert board.started.wait(20)
            cut(oracle)
            board.hold.set()

        with ThreadPoolExecutor(1) as threads:
            threads.submit(break_it)
            [(_, answer)] = oracle.measure(requests(1))
    assert answer.valid
    assert told == [], "the board was not given up"
    assert board.runs == len(answer.runs.cycles) == 3, "no run was run again"


def test_a_schedule_that_is_not_legal_fails_without_a_run(tmp_path):
    board = HiddenBoard()
    wrong = Schedule(tile_h=6, tile_w=6, tile_ci=2, tile_co=2, h_threading=2, oc_threading=2)
    with oracle_of(tmp_path, one=board) as (oracle, _):
        [(_, answer)] = oracle.measure([replace(requests(1)[0], schedule=wrong)])
        [(_, late)] = oracle.measure([replace(requests(1)[0], max_cycles=10)])
    assert answer.status is Status.FAILED
    assert late.status is Status.TIMEOUT


def test_the_identity_is_that_of_the_bitstream_and_the_kind_of_board(tmp_path):
    def identity(digest: str, kind: str) -> str:
        with pool_of(tmp_path, kind=kind, digest=digest, one=HiddenBoard()) as pool:
            oracle = BoardOracle(pool, board=kind, configs=[TINY])
            oracle.close()
        return oracle.identity

    names = {identity("d1", "a"), identity("d2", "a"), identity("d1", "b")}
    assert len(names) == 3
    assert identity("d1", "a") in names
    assert all(name.startswith("board-") for name in names)


def test_a_pool_that_does_not_fit_the_study_is_refused(tmp_path):
    with pool_of(tmp_path, one=HiddenBoard(), two=HiddenBoard()) as pool:
        with pytest.raises(ConfigError, match=r"board one.*every board of the pool must be a zcu"):
            BoardOracle(pool, board="zcu104", configs=[TINY])
        with pytest.raises(ConfigError, match=r"board one.*bitstream of configuration"):
            BoardOracle(pool, board=KIND, configs=[load_hwconfig("edge-8x8")])
        with pytest.raises(ConfigError, match=r"board one.*the same bitstream"):
            BoardOracle(
                pool, board=KIND, configs=[TINY], digests={f"{TINY.config_hash:08x}": "other"}
            )


def test_boards_that_do_not_answer_are_left_out_or_end_the_study(tmp_path):
    told: list[str] = []
    with pool_of(tmp_path, one=HiddenBoard()) as [one]:
        away = replace(one, name="away", agent="127.0.0.1:9")
        oracle = BoardOracle([away, one], board=KIND, configs=[TINY], tell=told.append)
        assert len(list(oracle.measure(requests()))) == 4
        oracle.close()
        with pytest.raises(DeviceError, match=r"away: no board of the pool answers"):
            BoardOracle([away], board=KIND, configs=[TINY])
    assert len(told) == 1
    assert "board away is left out: " in told[0]
