# SPDX-License-Identifier: Apache-2.0
"""Small programs of chosen instructions, and the ways to break them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.isa import Instruction, Memory, Opcode, Unit, VectorOp, encode_uop
from tilewright.host.machine.program import Program, layout_regions
from tilewright.host.machine.registers import ErrorCode

Step = tuple[Opcode, dict[str, int]]
Change = Callable[[HwConfig], dict[str, int]]

DATA: Final = 4096
"""Offset of the region ``data`` of `build`."""
_DATA_BYTES: Final = 65536


def build(hw: HwConfig, *steps: Step, finish: bool = True) -> Program:
    """A program over regions ``uop`` (one micro-op, all zero), ``data`` and ``insn``, in order."""
    stream = b"".join(Instruction(opcode, values).encode() for opcode, values in steps)
    return of_stream(hw, stream, finish=finish)


def of_stream(hw: HwConfig, stream: bytes, *, finish: bool = True) -> Program:
    """As `build`, of encoded instructions."""
    if finish:
        stream += Instruction(Opcode.FINISH, {}).encode()
    regions, total = layout_regions({"uop": 64, "data": _DATA_BYTES, "insn": len(stream)})
    uop = encode_uop(inp=0, wgt=0, acc=0, first=True).to_bytes(8, "little")
    return Program(
        config_hash=hw.config_hash,
        instructions=stream,
        regions=regions,
        constants={"uop": uop * 8},
        memory_bytes=total,
    )


def changed(step: Step, **values: int) -> Step:
    """An instruction with other values of some fields."""
    return step[0], step[1] | values


def legal_steps(hw: HwConfig) -> dict[str, Step]:
    """One legal instruction of each kind; in this order they are a sequential program."""
    one = {"x_size": 1, "y_size": 1, "z_size": 1}
    load = {**one, "dram_offset": DATA}
    loop = {"iter_outer": 1, "iter_inner": 1, "acc_banks": 1}
    gemm = {**loop, "overwrite": 1, "uop_count": 1, "pop": 1 << Unit.LOAD, "push": 1 << Unit.VECTOR}
    requant = {**loop, "op": VectorOp.REQUANT, "imm": 0x7F80, "push": 1 << Unit.STORE}
    zeros = DATA + _DATA_BYTES - hw.param_tile_bytes  # the last bytes of the region: a legal shift
    return {
        "uop": (Opcode.LOAD, {**one, "memory": Memory.UOP}),
        "inp": (Opcode.LOAD, {**load, "memory": Memory.INP}),
        "wgt": (Opcode.LOAD, {**load, "memory": Memory.WGT}),
        "acc": (Opcode.LOAD, {**load, "memory": Memory.ACC, "acc_banks": 1, "sram_base": 1}),
        "param": (Opcode.LOAD, {**one, "memory": Memory.PARAM, "dram_offset": zeros}),
        "res": (Opcode.LOAD, {**load, "memory": Memory.RES, "push": 1 << Unit.GEMM}),
        "gemm": (Opcode.GEMM, gemm),
        "alu": (Opcode.VECTOR, {**loop, "op": VectorOp.ADD, "imm": 3, "pop": 1 << Unit.GEMM}),
        "requant": (Opcode.VECTOR, requant),
        "store": (Opcode.STORE, {**load, "pop": 1 << Unit.VECTOR}),
    }


_BY_CODE: Final[dict[ErrorCode, dict[str, tuple[str, Change]]]] = {
    ErrorCode.ILLEGAL_FIELD: {
        "load-into-out": ("inp", lambda _: {"memory": Memory.OUT}),
        "load-into-none": ("inp", lambda hw: {"memory": 7, "diagonal": hw.activation_table}),
        "load-no-column": ("inp", lambda _: {"x_size": 0}),
        "load-no-plane": ("inp", lambda _: {"z_size": 0}),
        "load-pad-param": ("param", lambda _: {"pad_left": 1}),
        "load-diagonal-inp": ("inp", lambda _: {"diagonal": 1}),
        "load-diagonal-acc": ("acc", lambda _: {"diagonal": 1}),
        "load-int4-inp": ("inp", lambda _: {"int4": 1}),
        "load-int4-diagonal": ("wgt", lambda _: {"int4": 1, "diagonal": 1}),
        "load-int4-none": ("wgt", lambda hw: {"int4": 1, "diagonal": int(hw.int4_weights > 0)}),
        "load-pop-self": ("inp", lambda _: {"pop": 1}),
        "load-push-self": ("inp", lambda _: {"push": 1}),
        "store-no-column": ("store", lambda _: {"x_size": 0}),
        "store-no-row": ("store", lambda _: {"y_size": 0}),
        "store-no-plane": ("store", lambda _: {"z_size": 0}),
        "store-pop-self": ("store", lambda _: {"pop": 8}),
        "store-push-self": ("store", lambda _: {"push": 8}),
        "gemm-no-uop": ("gemm", lambda _: {"uop_count": 0}),
        "gemm-no-outer": ("gemm", lambda _: {"iter_outer": 0}),
        "gemm-no-inner": ("gemm", lambda _: {"iter_inner": 0}),
        "gemm-pop-self": ("gemm", lambda _: {"pop": 2}),
        "gemm-push-self": ("gemm", lambda _: {"push": 6}),
        "vector-op": ("alu", lambda hw: {"op": 10 if hw.row_unit else 7}),
        "vector-op-highest": ("alu", lambda _: {"op": 15}),
        "vector-no-outer": ("alu", lambda _: {"iter_outer": 0}),
        "vector-no-inner": ("requant", lambda _: {"iter_inner": 0}),
        "vector-pop-self": ("alu", lambda _: {"pop": 4}),
        "vector-push-self": ("alu", lambda _: {"push": 4}),
        "vector-hold-operand": ("alu", lambda _: {"hold": 1, "operand": 1}),
        "vector-lanes": ("alu", lambda _: {"lanes": 1}),
        "vector-lookup-alu": ("alu", lambda _: {"lookup": 1}),
        "vector-lookup-none": ("requant", lambda hw: {"lookup": 1, "hold": hw.activation_table}),
        "requant-reduce": ("requant", lambda _: {"reduce": 1}),
        "requant-hold": ("requant", lambda _: {"hold": 1}),
        "requant-bounds": ("requant", lambda _: {"imm": -0x8000 + 0x7F}),
    },
    ErrorCode.SRAM_RANGE: {
        "inp-range": ("inp", lambda hw: {"sram_base": hw.inp_depth}),
        "inp-range-highest": ("inp", lambda _: {"sram_base": 2**18 - 1}),
        "inp-range-row": ("inp", lambda hw: {"sram_base": hw.inp_depth - 1, "x_size": 2}),
        "wgt-range": ("wgt", lambda hw: {"sram_base": hw.wgt_depth}),
        "diagonal-range": (
            "wgt",
            lambda hw: {"diagonal": 1, "sram_base": hw.wgt_depth - 1, "x_size": 2},
        ),
        "uop-range": ("uop", lambda hw: {"sram_base": hw.uop_depth}),
        "param-range": ("param", lambda hw: {"sram_base": hw.param_depth}),
        "res-range": ("res", lambda hw: {"sram_base": hw.res_depth}),
        "acc-range": ("acc", lambda hw: {"sram_base": hw.acc_depth, "acc_banks": 15}),
        "pad-range": ("inp", lambda hw: {"sram_base": hw.inp_depth - 1, "pad_right": 1}),
        "pad-range-alone": (
            "inp",
            lambda hw: {"sram_base": hw.inp_depth - 1, "x_size": 0, "pad_right": 2},
        ),
        "store-range": ("store", lambda hw: {"sram_base": hw.out_depth}),
        "gemm-uop-range": ("gemm", lambda hw: {"uop_begin": hw.uop_depth}),
        "gemm-inp-range": ("gemm", lambda hw: {"inp_base": hw.inp_depth}),
        "gemm-inp-highest": ("gemm", lambda _: {"inp_base": 2**18 - 1}),
        "gemm-wgt-range": ("gemm", lambda hw: {"wgt_base": hw.wgt_depth}),
        "gemm-acc-range": ("gemm", lambda hw: {"acc_base": hw.acc_depth, "acc_banks": 15}),
        "vector-src-range": ("alu", lambda hw: {"src_base": hw.acc_depth, "acc_banks": 15}),
        "vector-dst-range": ("alu", lambda hw: {"dst_base": hw.acc_depth, "acc_banks": 15}),
        "vector-dst-highest": ("alu", lambda _: {"dst_base": 2**18 - 1}),
        "requant-dst-range": ("requant", lambda hw: {"dst_base": hw.out_depth}),
        "requant-dst-stride": ("requant", lambda _: {"dst_outer": 2**18 - 1, "iter_outer": 65535}),
        "requant-res-range": ("requant", lambda hw: {"operand": 1, "opd_base": hw.res_depth}),
        "requant-param-range": ("requant", lambda hw: {"param_base": hw.param_depth}),
    },
    ErrorCode.DRAM_RANGE: {
        "load-dram-range": ("inp", lambda _: {"dram_offset": 1 << 30}),
        "load-dram-highest": ("inp", lambda _: {"dram_offset": 1 << 36}),
        "load-dram-stride": ("inp", lambda _: {"y_size": 2, "y_stride": (1 << 24) - 1}),
        "store-dram-range": ("store", lambda _: {"dram_offset": 1 << 30}),
        "store-dram-highest": ("store", lambda _: {"dram_offset": 1 << 39}),
    },
    ErrorCode.DRAM_ALIGNMENT: {
        "load-alignment": ("inp", lambda _: {"dram_offset": DATA + 1}),
        "store-alignment": ("store", lambda _: {"dram_offset": DATA + 2}),
    },
    ErrorCode.ACC_BANK: {
        "load-bank": ("acc", lambda _: {"acc_banks": 14}),
        "load-bank-pads": ("acc", lambda _: {"acc_banks": 14, "x_size": 0, "pad_right": 1}),
        "gemm-bank": ("gemm", lambda _: {"acc_banks": 14}),
        "vector-src-bank": ("alu", lambda hw: {"src_base": hw.acc_depth - 1}),
        "vector-dst-bank": ("alu", lambda hw: {"dst_base": hw.acc_depth - 1}),
        "requant-bank": ("requant", lambda _: {"acc_banks": 2}),
    },
}

FAULTS: Final[dict[str, tuple[str, Change, ErrorCode]]] = {
    name: (*case, code) for code, cases in _BY_CODE.items() for name, case in cases.items()
}
"""Name -> (step of `legal_steps`, what to change in it, code to be reported), of any hardware."""
