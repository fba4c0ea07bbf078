# SPDX-License-Identifier: Apache-2.0
"""Directed programs for what random ones meet seldom."""

from __future__ import annotations

from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.isa import Memory, Operand, Reduce, Unit, VectorOp
from tilewright.host.machine.program import Program
from tilewright.host.runtime.device import Bytes
from tilewright.sim.programs.directed import Step, build, changed
from tilewright.sim.programs.directed import legal_steps as one_of_each


def directed(hw: HwConfig, steps: list[Step], *, finish: bool = True) -> tuple[Program, Bytes]:
    """A program of steps, and its image: the data are zeros."""
    program = build(hw, *steps, finish=finish)
    return program, program.image()


def legal_steps(hw: HwConfig) -> dict[str, Step]:
    """As `sim.programs.directed` has them, on banks of any size: ACC has one tile."""
    steps = one_of_each(hw)
    return {**steps, "acc": changed(steps["acc"], sram_base=0)}


def rare_programs(hw: HwConfig) -> list[list[Step]]:
    """Programs for what random ones meet seldom, each legal after the other.

    Padding under and over data of every memory, every loop of every VECTOR operation and operand,
    what options have, and each unit waiting for a token of each other one.
    """
    lookups = [_lookups(hw)] if hw.activation_table else []
    rows = [_rows(hw)] if hw.row_unit else []
    packed = [_packed_weights(hw)] if hw.int4_weights else []
    return [_padding(hw), _vector_loops(hw), *lookups, *rows, *packed, *_token_waits(hw)]


def _padding(hw: HwConfig) -> list[Step]:
    steps = legal_steps(hw)
    names = ["uop", "inp", "wgt", "acc", "res"]
    if hw.activation_table:
        steps["table"] = _table_load(hw)
        names.append("table")
    program = []
    for name in names:
        step = changed(steps[name], push=0)
        if name == "acc":
            step = changed(step, acc_banks=15)  # a bank may hold a single tile
        data, padding = changed(step, x_size=2), changed(step, x_size=0, pad_left=1, pad_right=1)
        # The run of padding alone fills the places of instructions in flight behind the data.
        program += [data, *[padding] * 12, data]
    return program


def _table_load(hw: HwConfig, **values: int) -> Step:
    return changed(legal_steps(hw)["inp"], memory=Memory.TABLE, **values)


def _lookups(hw: HwConfig) -> list[Step]:
    """A table is loaded whole, used, changed in a row, and used again."""
    steps = legal_steps(hw)
    used = changed(steps["requant"], lookup=1, pop=1 << Unit.LOAD, push=1 << Unit.LOAD)
    token = 1 << Unit.VECTOR
    return [
        steps["acc"],
        steps["param"],
        _table_load(hw, x_size=hw.table_depth, push=token),
        used,
        _table_load(hw, sram_base=hw.table_depth - 1, pop=token, push=token),
        changed(used, iter_inner=3, push=0),
    ]


def _rows(hw: HwConfig) -> list[Step]:
    """Every reduction, of whole rows and of some channels, with and without an operand in ACC."""
    alu = changed(legal_steps(hw)["alu"], pop=0, acc_banks=15)
    steps = [changed(alu, op=VectorOp.MOV, iter_inner=2, dst_inner=1)]
    for kind in Reduce:
        for hold in (0, 1):
            for lanes in (0, 1, hw.block_out) if kind else (0,):
                row = changed(alu, reduce=kind, hold=hold, lanes=lanes, dst_base=1)
                steps += [
                    changed(row, iter_outer=outer, iter_inner=inner)
                    for outer, inner in ((1, 1), (3, 1), (3, 3))
                ]
    return steps


def _packed_weights(hw: HwConfig) -> list[Step]:
    """Weights of 4 bits: contiguous, strided, with padding, and none but padding."""
    packed = changed(legal_steps(hw)["wgt"], int4=1)
    changes: tuple[dict[str, int], ...] = (
        {"x_size": 4},
        {"y_size": 2, "y_stride": 3},
        {"pad_left": 1, "pad_bottom": 1},
        {"x_size": 0, "pad_right": 2},
    )
    return [changed(packed, **change) for change in changes]


def _vector_loops(hw: HwConfig) -> list[Step]:
    steps = legal_steps(hw)
    program = [steps["acc"], steps["param"], changed(steps["res"], push=1 << Unit.VECTOR)]
    pop = 1 << Unit.LOAD
    for op in VectorOp:
        if op > VectorOp.REQUANT and not hw.row_unit:
            continue
        name = "requant" if op == VectorOp.REQUANT else "alu"
        for operand in Operand:
            for outer, inner in ((1, 1), (1, 3), (3, 1), (3, 3)):
                step = changed(steps[name], iter_outer=outer, iter_inner=inner, operand=operand)
                program.append(changed(step, op=op, pop=pop, push=0))
                pop = 0
    return program


def _token_waits(hw: HwConfig) -> list[list[Step]]:
    """One program a pair of units: the first works for long, the second waits for it."""
    names = {Unit.LOAD: "inp", Unit.GEMM: "gemm", Unit.VECTOR: "alu", Unit.STORE: "store"}
    steps = legal_steps(hw)
    found = []
    for producer in Unit:
        for consumer in Unit:
            if producer == consumer:
                continue
            first = changed(steps[names[producer]], pop=0, push=1 << consumer)
            if "iter_outer" in first[1]:
                first = changed(first, iter_outer=200)
            second = changed(steps[names[consumer]], pop=1 << producer, push=0)
            found.append([*steps.values(), first, second])
    return found


def slow_units(hw: HwConfig) -> list[Step]:
    """The units work one after another, each for hundreds of cycles when memory is slow."""
    steps = legal_steps(hw)
    for name in ("gemm", "alu"):
        steps[name] = changed(steps[name], iter_outer=500)
    tiles = min(100, hw.out_depth)
    steps["requant"] = changed(steps["requant"], iter_outer=tiles, dst_outer=1)
    steps["store"] = changed(steps["store"], x_size=tiles)
    return list(steps.values())
