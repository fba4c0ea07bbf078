# SPDX-License-Identifier: Apache-2.0
"""Studies on boards: configurations from bitstreams, grouped and priced, beside the twin."""

import time
from contextlib import ExitStack

import pytest
from support.boards.agents import TINY, serving
from support.boards.simulated import KIND, HiddenBoard, write_bitstream, write_pool

import tilewright as tw
from tilewright.host.common.errors import TilewrightError
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.runtime.bitstreams import ReconfigurableDevice, read_bitstreams
from tilewright.tuner.measure.board_oracle import BoardOracle
from tilewright.tuner.report.boards import board_lines, board_table, comparison_lines
from tilewright.tuner.report.summary import condition_lines
from tilewright.tuner.store.store import Store
from tilewright.tuner.study.results import load_result

EDGE = load_hwconfig("edge-8x8")
LAYERS = [tw.conv2d("A", 6, 16, 16, kernel=3, pad=1, stride=1)]


def boards(stack: ExitStack, folder, count: int = 2):
    """A pool of boards that load the bitstreams of a folder."""
    built = folder / "built"
    built.mkdir()
    for hw in (TINY, EDGE):
        write_bitstream(built, hw, clock_mhz=80.0)
    addresses = {}
    for number in range(count):
        device = ReconfigurableDevice(
            read_bitstreams(built),
            f"{TINY.config_hash:08x}",
            lambda each, seed=number: HiddenBoard(each.hw, seed=seed),
        )
        addresses[f"b{number}"] = stack.enter_context(serving(device, board=KIND))
    return write_pool(folder, **addresses), built


def test_configurations_come_from_bitstreams_whose_loading_is_priced(tmp_path, monkeypatch):
    switches = []
    take = BoardOracle._choose

    def chosen(oracle, board, open_):
        trial = take(oracle, board, open_)
        switches.append((board.name, f"{trial.request.hw.config_hash:08x}"))
        return trial

    monkeypatch.setattr(BoardOracle, "_choose", chosen)
    with ExitStack() as stack:
        pool, built = boards(stack, tmp_path)
        study = tw.tune(
            LAYERS[0], budget=16, fidelity="board", screen=False, boards=pool, bitstreams=built,
            base="tiny-4x4", runs=tmp_path / "runs", name="s",
        )  # fmt: skip
    assert study.hw.name == "edge-8x8", "four times the multipliers"
    with Store(tmp_path / "runs" / "studies.sqlite", read_only=True) as store:
        result = load_result(store, "s")
    assert result.clock_mhz == 80, "that of the bitstreams"
    assert {config.hw["name"] for config in result.configs} == {"tiny-4x4", "edge-8x8"}
    loads = [runs for runs in result.board_runs if runs.reconfigure_seconds]
    assert 1 <= len(loads) <= 2, "each board loaded the other configuration once at most"
    assert len(switches) == len(result.board_runs) == 16
    lines = board_lines(result)
    assert lines[0].startswith("boards: b0 ")
    assert f"bitstreams loaded {len(loads)} times" in lines[-1]
    best = result.tasks[0].best.measurement
    assert best.runs.twin_cycles not in {0, best.cycles}
    assert f"{best.runs.twin_cycles:,} on the twin" in comparison_lines(result)[0]
    assert f"{best.cycles:,}" in board_table(result)


def test_an_asynchronous_study_gives_a_quick_board_more_to_do(tmp_path):
    class Slow(HiddenBoard):
        def about_to_run(self) -> None:
            time.sleep(0.1)

    with (
        serving(Slow(), board=KIND, digest="d") as slow,
        serving(HiddenBoard(), board=KIND, digest="d") as quick,
    ):
        pool = write_pool(tmp_path, slow=slow, quick=quick)
        study = tw.tune(
            LAYERS[0], hw="tiny-4x4", budget=16, fidelity="board", boards=pool, asynchronous=2,
            runs=tmp_path / "runs",
        )  # fmt: skip
    with Store(tmp_path / "runs" / "studies.sqlite", read_only=True) as store:
        result = load_result(store, study.name)
    told = [runs.board for runs in result.board_runs]
    assert len(told) == 16
    assert told.count("quick") > 2 * told.count("slow") > 0, "neither waits for the other"
    assert "2 trials on their way at once" in "\n".join(condition_lines(result))


def test_a_study_on_boards_shares_nothing_with_one_on_the_twin(tmp_path):
    common = {
        "hw": "tiny-4x4", "budget": 6, "runs": tmp_path / "runs", "tuner": "random", "seed": 1,
    }  # fmt: skip
    with serving(HiddenBoard(), board=KIND, digest="d") as address:
        pool = write_pool(tmp_path, one=address)
        twin = tw.tune(LAYERS[0], fidelity="twin", name="t", **common)
        board = tw.tune(LAYERS[0], fidelity="board", boards=pool, screen=False, name="b", **common)
        again = tw.tune(LAYERS[0], fidelity="board", boards=pool, screen=False, name="b2", **common)
    assert board.cycles != twin.cycles
    with Store(tmp_path / "runs" / "studies.sqlite", read_only=True) as store:

        def cached(name):
            return [t.measurement.cached for t in store.trials(store.study(name).id)]

        assert not any(cached("b"))
        assert all(cached("b2")), "the same bitstream on the same kind of board"
    assert again.cycles == board.cycles


def test_a_screened_study_is_confirmed_on_boards_that_count_otherwise(tmp_path):
    with serving(HiddenBoard(), board=KIND, digest="d") as address:
        pool = write_pool(tmp_path, one=address)
        study = tw.tune(
            LAYERS[0], hw="tiny-4x4", budget=8, fidelity="board", boards=pool, screen=True,
            runs=tmp_path / "runs",
        )  # fmt: skip
    with Store(tmp_path / "runs" / "studies.sqlite", read_only=True) as store:
        result = load_result(store, study.name)
    best = result.tasks[0].best.measurement
    assert (result.screening.settings["fidelity"], best.fidelity) == ("twin", "board")
    assert best.runs.twin_cycles == result.screening.tasks[0].best_cycles != best.cycles


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fidelity": "board", "hw": "tiny-4x4"}, "boards: a pool of boards is given exactly"),
        ({"fidelity": "twin", "hw": "tiny-4x4", "boards": "POOL"}, "a pool of boards is given"),
        (
            {"fidelity": "board", "hw": "tiny-4x4", "boards": "POOL", "workers": 2},
            "workers: is for what this machine simulates; each board is one by itself",
        ),
        ({"fidelity": "twin", "hw": "tiny-4x4", "base": "edge-8x8"}, "base: is where a search of"),
        ({"fidelity": "board", "boards": "POOL"}, "a board holds one configuration.*--bitstreams"),
        ({"fidelity": "rtl", "bitstreams": "BUILT"}, "only boards load bitstreams"),
        ({"fidelity": "board", "bitstreams": "POOL", "boards": "POOL"}, "must be a folder"),
        (
            {"fidelity": "board", "bitstreams": "BUILT", "boards": "POOL", "base": "zu-32x32"},
            "base.*no bitstream of that configuration.*edge-8x8",
        ),
        (
            {"fidelity": "board", "bitstreams": "MIXED", "boards": "POOL"},
            "bitstreams: the bitstreams of a study must have one clock",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(tmp_path, options, message):
    places = {"POOL": write_pool(tmp_path, one="127.0.0.1:9"), "BUILT": tmp_path / "built"}
    places["MIXED"] = tmp_path / "mixed"
    for name, clock in (("BUILT", 100.0), ("MIXED", 80.0)):
        places[name].mkdir()
        write_bitstream(places[name], TINY)
        write_bitstream(places[name], EDGE, clock_mhz=clock)
    given = {key: places.get(value, value) for key, value in options.items()}
    with pytest.raises(TilewrightError, match=message):
        tw.tune(LAYERS[0], runs=tmp_path / "runs", budget=4, **given)
