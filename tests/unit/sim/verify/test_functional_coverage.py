# SPDX-License-Identifier: Apache-2.0
"""Bins are hit by what they name, and by nothing else."""

import numpy as np
import pytest

from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.machine.isa import Memory, Opcode, Operand, Reduce, Unit, VectorOp
from tilewright.host.machine.registers import COUNTERS, ErrorCode, ErrorUnit, WaitState
from tilewright.host.machine.status import DeviceStatusError
from tilewright.sim.programs.directed import FAULTS
from tilewright.sim.programs.randprog import random_program
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.verify.coverage_points import Point
from tilewright.sim.verify.coverage_programs import directed, legal_steps, rare_programs
from tilewright.sim.verify.functional_coverage import BINS, FunctionalCoverage
from tilewright.sim.verilator.library import AxiResponseCode

TINY = load_hwconfig("tiny-4x4")


def hit_by(*steps):
    coverage = FunctionalCoverage()
    coverage.program(TINY, *directed(TINY, list(steps)))
    return set(coverage.hits)


def changed(name, **values):
    opcode, base = legal_steps(TINY)[name]
    return opcode, {**base, "pop": 0, "push": 0, **values}


def test_no_bin_is_listed_twice():
    for group, names in BINS.items():
        assert len(set(names)) == len(names), group


def test_an_unknown_bin_is_an_error():
    with pytest.raises(KeyError):
        FunctionalCoverage().hit("gemm", "no such bin")


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (changed("inp", pad_left=1), ("load", "INP: left")),
        (changed("inp", x_size=0, pad_left=1), ("load", "INP: padding only")),
        (changed("inp", y_size=2, y_stride=2), ("load", "INP: strided")),
        (changed("inp", y_size=2, y_stride=0), ("load", "repeated row")),
        (changed("wgt", z_size=2), ("load", "WGT: planes")),
        (changed("wgt", diagonal=1), ("load", "diagonal: inside a beat")),
        (changed("wgt", diagonal=1, y_size=2, y_stride=2), ("load", "diagonal: strided")),
        (changed("wgt", diagonal=1, pad_top=1), ("load", "diagonal: padded")),
        (changed("wgt", int4=1), ("load", "int4: contiguous")),
        (changed("wgt", int4=1, y_size=2, y_stride=2), ("load", "int4: strided")),
        (changed("wgt", int4=1, pad_left=1), ("load", "int4: padded")),
        (changed("store", x_size=2), ("store", "row")),
        (changed("alu", iter_inner=2), ("vector", "ADD: once, inner")),
        (
            changed("alu", iter_inner=3, src_inner=1, dst_inner=1, dst_base=1),
            ("vector", "reads what was written 1 before"),
        ),
        (changed("requant", imm=0x7F00), ("vector", "clip of ReLU")),
        (changed("gemm", push=0b1100), ("token", "GEMM: push several")),
    ],
)
def test_an_instruction_hits_its_bin_and_the_plain_one_does_not(step, expected):
    assert expected in hit_by(step)
    plain = [changed(name) for name in legal_steps(TINY)]
    assert expected not in hit_by(*plain)


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ({}, {"one block"}),
        ({"block_out": 8}, {"blocks below each other", "back to the first block"}),
        ({"block_in": 16}, {"blocks side by side"}),
    ],
)
def test_diagonals_are_told_apart_by_where_their_blocks_lie(blocks, expected):
    hw = TINY.with_(**blocks, wgt_bytes=8192)
    coverage = FunctionalCoverage()
    coverage.program(hw, *directed(hw, [changed("wgt", diagonal=1, phase=1, y_size=2)]))
    names = {"one block", "blocks below each other", "blocks side by side"}
    names.add("back to the first block")
    assert {name for name in names if ("load", f"diagonal: {name}") in coverage.hits} == expected


@pytest.mark.parametrize("distance", [1, 2, 3])
def test_an_accumulator_that_returns_after_a_number_of_products(distance):
    uops = np.zeros((distance, 8), dtype=np.uint8)
    uops.view("<u8")[:, 0] = [n << 34 for n in range(distance)]  # acc = 0, 1, 2
    load = changed("uop", x_size=distance)
    gemm = changed("gemm", uop_count=distance, iter_inner=2, overwrite=0)
    program, memory = directed(TINY, [load, gemm])
    program.write(memory, "uop", uops)
    coverage = FunctionalCoverage()
    coverage.program(TINY, program, memory)
    seen = [n for n in (1, 2, 3) if ("gemm", f"same accumulator at distance {n}") in coverage.hits]
    assert seen == [distance]


def test_bank_conflicts_are_pairs_of_units_that_share_a_bank():
    gemm, alu = changed("gemm"), changed("alu")
    expected = ("hazard", "GEMM then VECTOR in the same ACC bank")
    assert expected in hit_by(gemm, alu)
    elsewhere = (alu[0], {**alu[1], "acc_banks": 2})
    assert expected not in hit_by(gemm, elsewhere)


def test_counters_and_statuses_hit_dynamic_bins():
    coverage = FunctionalCoverage()
    coverage.counters({name: 0 for name, _ in COUNTERS} | {"gemm_token_load": 3})
    assert set(coverage.hits) == {("stall", "gemm: token_load")}
    error = DeviceStatusError(
        code=ErrorCode.AXI_READ, unit=ErrorUnit.LOAD, instruction=0, wait_states=(WaitState.BUSY,)
    )
    coverage.status(error, AxiResponseCode.DECERR)
    assert {("error", "LOAD: AXI_READ"), ("bus response", "LOAD: DECERR")} <= set(coverage.hits)
    assert ("wait state at an error", "load: BUSY") in coverage.hits


def test_a_reset_interrupts_only_a_unit_that_works_and_has_more_to_do():
    coverage = FunctionalCoverage()
    units = ("load", "gemm", "vector", "store")
    busy = {"load": 5, "gemm": 5, "vector": 0, "store": 5}
    done = {"load": 1, "gemm": 2, "vector": 0, "store": 0}
    counters = {f"{u}_busy": busy[u] for u in units} | {f"{u}_instructions": done[u] for u in units}
    coverage.reset(counters, dict.fromkeys(units, 2))
    assert {name.split()[0] for _, name in coverage.hits} == {"load", "store"}


def toggle(page, instance, what, count=1):
    return Point(
        file="x.sv", line=1, column=1, kind="toggle", what=what, lines=(1,), page=page,
        instance=instance, count=count,
    )  # fmt: skip


def test_structural_bins_follow_signals():
    coverage = FunctionalCoverage()
    top = "TOP.tilewright_top.u_core"
    coverage.points(
        [
            toggle("tw_core", top, "queue_full[1]:0->1"),
            toggle("tw_core", top, "queue_full[2]:0->1", count=0),
            toggle("tw_read__B40_O10", f"{top}.u_read", "in_flight_q[4]:0->1"),
            toggle("tw_store__C1", f"{top}.u_store", "tag_count[3]:0->1"),
        ]
    )
    assert {name for _, name in coverage.hits} == {"gemm queue full", "reads outstanding full"}
    coverage.points([toggle("tw_store__C1", f"{top}.u_store", "tag_count[4]:0->1")])
    assert ("full and empty", "writes outstanding full") in coverage.hits


def test_a_limit_that_is_no_power_of_two_is_not_read_from_one_bit():
    coverage = FunctionalCoverage()
    coverage.points([toggle("tw_read__O3", "TOP.tilewright_top.u_read", "in_flight_q[1]:0->1")])
    assert not coverage.hits


def test_random_programs_hit_most_static_bins():
    hw = TINY.with_(activation_table=1, row_unit=1, int4_weights=1)
    coverage = FunctionalCoverage()
    for seed in range(12):
        coverage.program(hw, *random_program(hw, np.random.default_rng(seed)))
    for group in ("load", "store", "gemm", "vector", "token"):
        assert coverage.share(group).percent > 75, group


# -- the directed programs that make errors -----------------------------------------------------


def test_every_unit_and_code_that_faults_name_is_a_bin():
    for name, _, code in FAULTS.values():
        opcode = legal_steps(TINY)[name][0]
        unit = Unit(list(Opcode).index(opcode))
        assert f"{unit.name}: {code.name}" in BINS["error"]
    assert all(memory.name in " ".join(BINS["load"]) for memory in set(Memory) - {Memory.OUT})
    assert all(op.name in " ".join(BINS["vector"]) for op in VectorOp)


def test_the_rare_programs_are_legal_and_hit_what_random_ones_may_miss():
    coverage, hw = (
        FunctionalCoverage(),
        load_hwconfig("tiny-4x4").with_(activation_table=1, row_unit=1, int4_weights=1),
    )
    for steps in rare_programs(hw):
        program, memory = directed(hw, steps)
        ReferenceDevice(hw).run(program, memory)
        coverage.program(hw, program, memory)
    missed = {f"{group}: {name}" for group, name in coverage.misses()}
    padded = ("INP", "WGT", "ACC", "UOP", "RES", "TABLE")
    wanted = {
        *(f"load: {memory}: padding only" for memory in padded),
        *(f"hazard: {memory}: padding over loaded data" for memory in padded),
        *(f"hazard: {memory}: data over padding" for memory in padded),
        *(f"vector: {op.name}: {o}, {i}" for op in VectorOp for o in ("once", "outer")
          for i in ("once", "inner")),
        *(f"vector: {op.name}: {operand.name}" for op in VectorOp for operand in Operand),
        *(f"vector: reduce: {kind.name}: {what}" for kind in Reduce if kind
          for what in ("one tile", "tiles", "some channels", "operand in ACC")),
        *(f"load: int4: {what}" for what in ("contiguous", "strided", "padded")),
        *(f"token: {user.name}: pop {other.name}" for user in Unit for other in Unit
          if user != other),
    }  # fmt: skip
    assert wanted <= {f"{group}: {name}" for group, names in BINS.items() for name in names}
    assert not wanted & missed
