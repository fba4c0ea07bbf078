# SPDX-License-Identifier: Apache-2.0
"""The twin as an oracle: the counters of the twin, whatever the batch and the threads."""

from dataclasses import replace

import numpy as np
import pytest

from tilewright.host.lowering import lower
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.zoo import load_network
from tilewright.sim.twin.device import Twin
from tilewright.tuner.measure.backends import identity_of
from tilewright.tuner.measure.measurement import Request, Status
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


def test_answers_do_not_depend_on_batches(oracle) -> None:
    wanted = requests(12)
    together = {p: a.cycles for p, a in oracle.measure(wanted)}
    alone = {p: dict(oracle.measure([r]))[0].cycles for p, r in enumerate(wanted)}
    assert together == alone


def test_a_limit_cuts_off_what_is_slower_and_nothing_else(oracle) -> None:
    one = requests(1)[0]
    cycles = dict(oracle.measure([one]))[0].cycles
    limits = [cycles - 1, cycles, cycles + 1]
    answers = dict(oracle.measure([replace(one, max_cycles=limit) for limit in limits]))
    assert answers[0].status is Status.TIMEOUT
    assert answers[0].cycles is None
    assert answers[1].cycles == answers[2].cycles == cycles


def test_a_schedule_that_does_not_lower_fails_with_its_rule(oracle) -> None:
    one = requests(1)[0]
    huge = replace(one.schedule, tile_h=10_000)
    answer = dict(oracle.measure([replace(one, schedule=huge)]))[0]
    assert answer.status is Status.FAILED
    assert "tile_h_extent" in answer.failure


def test_a_memory_that_the_twin_refuses_fails_every_trial(oracle) -> None:
    one = replace(requests(1)[0], memory=replace(MEMORY, stall_percent=10))
    answer = dict(oracle.measure([one]))[0]
    assert answer.status is Status.FAILED
    assert "ConfigError" in answer.failure


def test_its_identity_is_that_of_the_fidelity(oracle) -> None:
    assert (oracle.fidelity, oracle.identity) == ("twin", identity_of("twin"))
