# SPDX-License-Identifier: Apache-2.0
"""The protocol assertions fire on seeded AXI faults, as errors with their text."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from support.programs.rtl import ROUGH

from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.programs.randprog import random_program
from tilewright.sim.verilator import build
from tilewright.sim.verilator.device import VerilatorDevice
from tilewright.sim.verilator.library import SimulationError, Status

TINY = load_hwconfig("tiny-4x4")
MEMORY = replace(ROUGH, max_reads=16)
"""Every channel waits now and then: stability rules look only at channels that wait."""

FAULTS = {
    "address moves while it waits": (
        "tw_read.sv",
        "if (accept) begin\n      addr_q",
        "if (wanted) begin\n      addr_q",
        "the read address changed before ARREADY",
    ),
    "read burst over a page": (
        "tw_bursts.sv",
        "row_beat[PageBits-1:0], '1)",
        "page_t'(0), '1)",
        "burst crosses 4 KiB",
    ),
    "one read too many in flight": (
        "tw_read.sv",
        "in_flight_q < 5'(sizes.read_outstanding)",
        "in_flight_q <= 5'(sizes.read_outstanding)",
        "more read bursts in flight than ReadOutstanding",
    ),
    "an instruction for two units": (
        "tw_fetch.sv",
        "tw_pkg::OpLoad: push_o[tw_pkg::UnitLoad] = !full_i[tw_pkg::UnitLoad];",
        "tw_pkg::OpLoad: push_o = full_i[tw_pkg::UnitLoad] ? 4'd0 : 4'b1001;",
        "two at a time, or one that belongs to nothing",
    ),
    "valid in reset": (
        "tw_read.sv",
        "if (rst_i) begin\n      valid_q     <= 1'b0;",
        "if (rst_i) begin\n      valid_q     <= 1'b1;",
        "ARVALID is high in reset",
    ),
    "write address withdrawn": (
        "tw_store.sv",
        "else if (awready_i) aw_valid_q <= 1'b0;",
        "else aw_valid_q <= 1'b0;",
        "AWVALID fell before AWREADY",
    ),
    "last on the first beat": (
        "tw_store.sv",
        "last1_q   <= burst_end_beat;",
        "last1_q   <= beats_q == '0;",
        "WLAST is not on the last beat",
    ),
    "a read answered as a write": (
        "tw_regs.sv",
        "bvalid_q <= bvalid_q ? !bready_i : write;",
        "bvalid_q <= bvalid_q ? !bready_i : write || read;",
        "control port: a write response answers no write",
    ),
}


def run_faulty(tmp_path, monkeypatch, name):
    file, old, new, _ = FAULTS[name]
    shutil.copytree(build.MANIFEST.parent, tmp_path / "rtl")
    (source,) = (tmp_path / "rtl").rglob(file)
    text = source.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"the seed of {name!r} must match {file} once"
    source.write_text(text.replace(old, new), encoding="utf-8")
    manifest = tmp_path / "rtl" / build.MANIFEST.name
    monkeypatch.setattr(build, "STOCK", manifest)  # a variant keeps the checks of its ports alone
    device = VerilatorDevice(TINY, MEMORY, library=build.build_model(TINY, manifest=manifest))
    for seed in range(20):
        device.run(*random_program(TINY, np.random.default_rng(seed)), max_cycles=200_000)


@pytest.mark.parametrize(
    "name", [n if i == 0 else pytest.param(n, marks=pytest.mark.slow) for i, n in enumerate(FAULTS)]
)
def test_a_seeded_fault_is_reported_with_the_text_of_its_rule(tmp_path, monkeypatch, capfd, name):
    with pytest.raises(SimulationError, match=FAULTS[name][3]) as error:
        run_faulty(tmp_path, monkeypatch, name)
    assert error.value.status is Status.RTL_STOPPED
    assert "_protocol.sv:" in error.value.text or "_checks.sv:" in error.value.text
    assert capfd.readouterr() == ("", "")


def test_every_seeded_fault_has_its_place():
    for name, (file, old, _, _) in FAULTS.items():
        (source,) = build.MANIFEST.parent.rglob(file)
        text = source.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"the seed of {name!r} must match {file} once"
