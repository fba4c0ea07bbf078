# SPDX-License-Identifier: Apache-2.0
"""The twin as an oracle: the counters of the twin, whatever the batch and the threads."""

import statistics
import sys
import types
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.randomness import generator
from support.search.analytic_oracle import measured_one_by_one

from tilewright.host.lowering import default_schedule, lower
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.machine.registers import COUNTERS
from tilewright.host.network.workload import conv2d
from tilewright.host.network.zoo import load_network
from tilewright.sim.twin.device import Twin
from tilewright.tuner.measure import energy
from tilewright.tuner.measure.backends import identity_of
from tilewright.tuner.measure.board_trial import MOST_RUNS, NARROW, summarise
from tilewright.tuner.measure.measurement import Request
from tilewright.tuner.measure.twin_oracle import TwinOracle
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.schedule.spaces import ScheduleSpace

MEMORY = load_memory("pynq-z2")
CONFIGS = [load_hwconfig("pynq-16x16"), load_hwconfig("edge-8x8")]


@pytest.fixture
def oracle():
    made = TwinOracle(2)
    yield made
    made.close()


def requests(count: int) -> list[Request]:
    network = load_network("vta-resnet18")
    rng = np.random.default_rng(3)
    found = []
    while len(found) < count:
        hw = CONFIGS[len(found) % 2]
        task = network[("C7", "C10", "C4")[len(found) % 3]]
        space = ScheduleSpace(task, hw, host_rules(), "full")
        index = space.sample(rng)
        assert index is not None
        found.append(
            Request(hw=hw, workload=task, schedule=space.decode(index), memory=MEMORY,
                    max_cycles=10**9)
        )  # fmt: skip
    return found


def test_answers_with_the_counters_of_the_twin(oracle) -> None:
    wanted = requests(30)
    answers = dict(oracle.measure(wanted))
    assert sorted(answers) == list(range(30))
    for position, request in enumerate(wanted):
        program = lower(request.hw, request.workload, request.schedule).program
        expected = Twin(request.hw, MEMORY).counters(program).values
        answer = answers[position]
        assert answer.counters == dict(expected)
        assert answer.cycles == expected["cycles"]
        assert (answer.fidelity, answer.valid, answer.output_checked) == ("twin", True, False)


def test_takes_more_while_it_answers(oracle) -> None:
    wanted = requests(40)
    answers = measured_one_by_one(oracle, wanted, 5)
    assert [a.cycles for a in answers] == [dict(oracle.measure([r]))[0].cycles for r in wanted]


def test_its_identity_is_that_of_the_fidelity(oracle) -> None:
    assert (oracle.fidelity, oracle.identity) == ("twin", identity_of("twin"))


# -- the energy model counts each event once, and no run takes less than its least ----------------


def counters(**given_counters: int) -> dict[str, int]:
    return {name: 0 for name, _ in COUNTERS} | given_counters


@pytest.mark.parametrize(
    ("event", "picojoules"),
    [
        ("cycles", energy.STATIC_CYCLE_PJ),
        # 2 x 8 inputs, 8 x 16 weights, 2 x 16 accumulators of 4 bytes read and written
        ("macs_tiles", 0.3 * 2 * 8 * 16 + 2.5 * (16 + 128 + 2 * 128)),
        # 2 x 16 accumulators of 4 bytes read, 2 x 16 bytes written
        ("vector_tiles", 2.5 * (128 + 32)),
        ("bytes_read", 162.5 + 2.5),
        ("bytes_written", 162.5 + 2.5),
        ("gemm_busy", 0.0),
    ],
)
def test_an_event_costs_what_it_moves_and_computes(event: str, picojoules: float) -> None:
    hw = HwConfig(batch=2, block_in=8, block_out=16, vector_lanes=8)
    assert energy.energy_pj(hw, counters(**{event: 3})) == pytest.approx(3 * picojoules)


@settings(max_examples=8, deadline=None)
@given(
    size=st.sampled_from([4, 7, 8]),
    channels=st.sampled_from([3, 16, 24]),
    kernel=st.sampled_from([1, 3]),
    stride=st.sampled_from([1, 2]),
)
def test_no_run_takes_less_than_the_least_energy(
    size: int, channels: int, kernel: int, stride: int
) -> None:
    task = conv2d("t", size, channels, 16, kernel, kernel // 2, stride)
    hw, memory = load_hwconfig("pynq-16x16"), load_memory("ideal")
    run = Twin(hw, memory).counters(lower(hw, task, default_schedule(hw, task)).program)
    assert energy.energy_pj(hw, run.values) >= energy.least_energy_pj(task) > 0


class Own(energy.EnergyModel):
    """A user's model that does what a test says."""

    static_cycle_pj = 0.0
    gives: Any = 5.0

    def energy_pj(self, hw, counters):
        if self.gives is KeyError:
            raise KeyError("nope")
        return self.gives

    def least_energy_pj(self, task):
        return self.gives


@pytest.mark.parametrize(
    ("gives", "wrong"),
    [
        (None, "must be a positive and finite number"), ("a", "must be a positive and finite"),
        (0.0, "not 0.0"), (float("nan"), "not nan"), (KeyError, "failed with KeyError: 'nope'"),
    ],
)  # fmt: skip
def test_a_users_energy_model_that_gives_no_number_is_an_error(monkeypatch, gives, wrong) -> None:
    module = types.ModuleType("energy_of_mine")
    monkeypatch.setattr(module, "Own", Own, raising=False)
    monkeypatch.setitem(sys.modules, "energy_of_mine", module)
    model = energy.load_energy("energy_of_mine:Own")
    assert model.energy_pj(HwConfig(), counters()) == 5.0
    monkeypatch.setattr(Own, "gives", gives)
    with pytest.raises(energy.EnergyError, match=wrong):
        model.energy_pj(HwConfig(), counters())
    monkeypatch.setattr(Own, "static_cycle_pj", "a")
    with pytest.raises(energy.EnergyError, match="static_cycle_pj"):
        energy.load_energy("energy_of_mine:Own")


# -- repeated runs --------------------------------------------------------------------------------


def test_equal_runs_are_enough_after_three():
    assert not summarise([500]).enough
    assert not summarise([500, 500]).enough
    three = summarise([500, 500, 500])
    assert three.enough
    assert (three.median, three.standard_error, three.outliers) == (500, 0.0, ())


def test_a_run_beside_which_something_else_happened_does_not_count():
    found = summarise([1000, 1004, 996, 1002, 1800, 998])
    assert found.outliers == (1800,)
    assert found.kept == (1000, 1004, 996, 1002, 998)
    assert found.median == 1000


def test_a_board_that_never_settles_is_asked_no_more_than_so_often():
    assert not summarise([100, 900] * 9).enough
    assert summarise([100, 900] * (MOST_RUNS // 2)).enough


@pytest.mark.parametrize("spread", [0.002, 0.01, 0.05])
def test_the_interval_holds_the_truth_about_as_often_as_it_says(spread):
    rng = generator(f"repeats {spread}")
    held, counts = [], []
    for _ in range(2000):
        runs: list[int] = []
        while True:
            runs.append(int(rng.normal(100_000, 100_000 * spread)))
            found = summarise(runs)
            if found.enough:
                break
        held.append(abs(statistics.median(found.kept) - 100_000) <= found.half_interval)
        counts.append(len(runs))
        assert found.half_interval <= NARROW * found.median or len(runs) == MOST_RUNS
    assert statistics.mean(held) > 0.85  # stopping when it looks narrow costs some of 95 %
    assert counts[0] >= 3
