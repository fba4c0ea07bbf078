# SPDX-License-Identifier: Apache-2.0
"""The assertions of a system fire: each rule with a fault seeded in a copy of the RTL."""

import pytest
from support.programs.rtl import ROUGH
from support.programs.systems import reader
from support.randomness import fresh_rng

from tilewright.host.common.errors import DeviceError
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.machine.system_config import load_system
from tilewright.host.runtime.system_device import Submission
from tilewright.sim.multicore.device import VerilatorSystem
from tilewright.sim.programs.randprog import random_program
from tilewright.sim.verilator import build
from tilewright.sim.verilator.system_top import system_sources

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
