# SPDX-License-Identifier: Apache-2.0
"""Systems of other shapes: cores of different parameters, ports of different widths."""

import numpy as np
import pytest
from support.programs.rtl import IDEAL, ROUGH
from support.programs.systems import MIXED
from support.randomness import fresh_rng, where

from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.isa import Memory
from tilewright.host.runtime.system_device import Submission
from tilewright.sim.multicore.device import VerilatorSystem
from tilewright.sim.programs.randprog import random_program
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.verify.coverage_campaign import random_memory
from tilewright.sim.verilator.device import VerilatorDevice
from tilewright.sim.verilator.system_top import system_top
from tilewright.testing.residue import dirt, peek


def test_the_top_has_every_core_and_every_port():
    text = system_top(MIXED)
    assert text.count("tw_core_slot #(") == 4
    assert text.count("tw_arbiter #(") == 3
    assert "input  logic [31:0] m_axi_2_rdata" in text
    assert f"32'h{MIXED.config_hash:08x}" in text


@pytest.mark.slow
@pytest.mark.parametrize("memory", [IDEAL, ROUGH], ids=lambda memory: memory.name)
def test_cores_of_different_parameters_on_different_ports_give_their_results(memory):
    rng = fresh_rng()
    system = VerilatorSystem(MIXED, memory, initial_seed=int(rng.integers(1, 2**31)))
    for _ in range(4):
        cores = [0, 1, 2, 3, *rng.integers(0, 4, 6).tolist()]
        given = [
            Submission(core=core, program=program, memory=image, scrub=bool(rng.random() < 0.3))
            for core in cores
            for program, image in [random_program(MIXED.cores[core].hw, rng)]
        ]
        late = {core: int(rng.integers(0, 2000)) for core in range(4) if rng.random() < 0.5}
        found = system.run(given, start_after=late)
        for each, result in zip(given, found.results, strict=True):
            hw = MIXED.cores[each.core].hw
            assert result.error is None, where(late=late)
            wanted = ReferenceDevice(hw).run(each.program, each.memory).memory
            assert np.array_equal(result.memory, wanted), where(core=each.core, late=late)
    system.close()


@pytest.mark.slow
def test_a_scrub_clears_the_table_of_a_core_that_has_one():
    hw = MIXED.cores[2].hw
    dirty, spy = dirt(hw), peek(hw, Memory.TABLE)
    system = VerilatorSystem(MIXED, IDEAL)
    seen = []
    for clears in (False, True):
        given = [
            Submission(core=2, program=program, memory=program.image(), scrub=scrub)
            for program, scrub in ((dirty, False), (spy, clears))
        ]
        found = system.run(given).results
        assert [result.error for result in found] == [None, None]
        seen.append(bool(spy.read(found[1].memory, "result").any()))
    assert seen == [True, False]
    system.close()


@pytest.mark.slow
def test_timing_counts_what_rtl_counts():
    """On random memories with stalls, programs, starts and shares."""
    rng = fresh_rng()
    memory = random_memory(rng)
    rtl, timing = (
        VerilatorSystem(MIXED, memory, fidelity=fidelity)
        for fidelity in (Fidelity.RTL, Fidelity.TIMING)
    )
    for _ in range(20):
        given = [
            Submission(core=core, program=program, memory=image, scrub=bool(rng.random() < 0.2))
            for core in range(4)
            for program, image in [random_program(MIXED.cores[core].hw, rng)]
        ]
        late = {core: int(rng.integers(0, 2000)) for core in range(4) if rng.random() < 0.5}
        share = {
            "weight": int(rng.integers(1, 16)),
            "read_budget": int(rng.integers(0, 3)) * 300,
            "write_budget": int(rng.integers(0, 3)) * 300,
        }
        found = []
        for device in (rtl, timing):
            device.set_share(0, **share)
            device.set_limits(reads=1 + share["weight"], writes=2)
            result = device.run(given, start_after=late)
            runs = [(each.begin, each.cycles, each.error) for each in result.results]
            found.append((runs, result.counters, result.shares))
        assert found[0] == found[1], where(memory=memory, late=late, share=share)
    rtl.close()
    timing.close()


@pytest.mark.slow
def test_any_core_of_them_alone_takes_the_cycles_that_it_takes_without_a_system():
    rng = fresh_rng()
    system = VerilatorSystem(MIXED, IDEAL)
    for core, shape in enumerate(MIXED.cores):
        program, image = random_program(shape.hw, rng)
        found = system.run([Submission(core=core, program=program, memory=image)])
        alone = VerilatorDevice(shape.hw, IDEAL)
        assert found.counters[core] == alone.run(program, image).counters
        alone.close()
    system.close()
