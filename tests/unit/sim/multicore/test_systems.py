# SPDX-License-Identifier: Apache-2.0
"""Systems of other shapes, by name, and their assertions."""

import numpy as np
import pytest
from support.programs.rtl import IDEAL, ROUGH
from support.programs.systems import MIXED, reader
from support.randomness import fresh_rng, where

from tilewright.host.common.errors import ConfigError, DeviceError
from tilewright.host.machine.board import load_board
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.machine.isa import Memory
from tilewright.host.machine.system_config import load_system
from tilewright.host.runtime.system_device import Submission
from tilewright.sim.devices import SYSTEM_DEVICES, WITH_DATA, open_system
from tilewright.sim.multicore.device import VerilatorSystem
from tilewright.sim.programs.randprog import random_program
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.verify.coverage_campaign import random_memory
from tilewright.sim.verilator import build
from tilewright.sim.verilator.device import VerilatorDevice
from tilewright.sim.verilator.system_top import system_sources, system_top
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


# -- The assertions of a system fire: each rule with a fault seeded in a copy of the RTL
TINY = load_hwconfig("tiny-4x4")

FAULTS = {
    "a write burst keeps the data channel to its last beat": (
        "tw_arbiter.sv",
        "port_wready_i && port_wlast_o),",
        "port_wready_i),",
        "WLAST|must finish within",  # the memory waits for beats that nobody sends
    ),
    "an offer stands until it is taken": (
        "tw_grant.sv",
        "offered_q <= valid_o && !ready_i;",
        "offered_q <= 1'b0;",
        "an offer was withdrawn",
    ),
    "data go to who asked": (
        "tw_arbiter.sv",
        "rvalid_o[m] = port_rvalid_i && port_rid_i == {Cores[m], 1'b0};",
        "rvalid_o[m] = port_rvalid_i && port_rid_i == {Cores[m] ^ 3'd1, 1'b0};",
        "RLAST|read data answer no request",
    ),
    "a scrub stays in its slot": (
        "tw_core_slot.sv",
        "assign arvalid_o    = core_arvalid && !scrub;",
        "assign arvalid_o    = core_arvalid;",
        "a scrub reaches the memory",
    ),
}
"""Rule: file, text that occurs once, what replaces it, part of the message."""


@pytest.mark.slow
@pytest.mark.parametrize("rule", FAULTS)
def test_a_seeded_fault_is_named(monkeypatch, tmp_path, rule):
    file, old, new, message = FAULTS[rule]

    def sources():
        return [seeded if path.name == file else path for path in system_sources()]

    (original,) = (path for path in system_sources() if path.name == file)
    text = original.read_text(encoding="utf-8")
    assert text.count(old) == 1
    seeded = tmp_path / file
    seeded.write_text(text.replace(old, new), encoding="utf-8")
    monkeypatch.setattr(build, "system_sources", sources)
    device = VerilatorSystem(load_system("dual-tiny"), ROUGH)
    rng = fresh_rng()
    loads = reader(TINY, 4)
    programs = [(loads, loads.image()), random_program(TINY, rng), random_program(TINY, rng)]
    given = [
        Submission(core=core, program=program, memory=image, scrub=core == 1)
        for program, image in programs
        for core in (0, 1)
    ]
    with pytest.raises(DeviceError, match=message):
        device.run(given, max_cycles=100_000)
    device.close()


# -- Simulated systems by name
def test_an_unknown_system_device_is_answered_with_the_nearest():
    with pytest.raises(ConfigError, match="did you mean timing"):
        open_system("timming", load_system("dual-tiny"), load_board("pynq-z2").memory)


def test_a_system_of_each_fidelity_counts_the_same():
    memory, program = load_board("pynq-z2").memory, reader(load_hwconfig("tiny-4x4"), 3)
    given = [Submission(core=core, program=program, memory=program.image()) for core in (0, 1)]
    found = []
    for name in SYSTEM_DEVICES:
        device = open_system(name, load_system("dual-tiny"), memory)
        assert device.fidelity == name
        assert device.fidelity.computes == (name in WITH_DATA)
        found.append(device.run(given))
        device.close()
    assert all(each.counters == found[0].counters for each in found)
    assert all(each.shares == found[0].shares for each in found)
