# SPDX-License-Identifier: Apache-2.0
"""The energy model counts each event once, and no run takes less than its least."""

import sys
import types
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.host.lowering import default_schedule, lower
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.machine.registers import COUNTERS
from tilewright.host.network.workload import conv2d
from tilewright.sim.twin.device import Twin
from tilewright.tuner.measure import energy


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
