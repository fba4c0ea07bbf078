# SPDX-License-Identifier: Apache-2.0
"""`DeviceStatusError`: an error status of the accelerator, with every part as a value."""

from __future__ import annotations

from typing import Final

from tilewright.host.common.errors import DeviceError
from tilewright.host.machine.registers import (
    ERROR_TEXT,
    UNIT_NAMES,
    ErrorCode,
    ErrorUnit,
    WaitState,
)

REMEDIES: Final = {
    ErrorCode.ILLEGAL_OPCODE: "check that the instruction region was not overwritten",
    ErrorCode.SRAM_RANGE: "use smaller tiles or larger buffers",
    ErrorCode.DRAM_RANGE: "check offsets, strides and the size of the memory image",
    ErrorCode.DRAM_ALIGNMENT: "align the region to the larger of a tile and a bus beat",
    ErrorCode.TOKEN_OVERFLOW: "pop tokens that are pushed",
    ErrorCode.ACC_BANK: "declare every bank that the instruction touches in acc_banks",
    ErrorCode.NO_FINISH: "end the program with FINISH",
    ErrorCode.WATCHDOG: "look for a token that is popped but never pushed",
}

_WAIT_TEXT: Final = {
    WaitState.IDLE: "idle",
    WaitState.BUSY: "busy",
    WaitState.TOKEN_LOAD: "waits for a token from load",
    WaitState.TOKEN_GEMM: "waits for a token from gemm",
    WaitState.TOKEN_VECTOR: "waits for a token from vector",
    WaitState.TOKEN_STORE: "waits for a token from store",
    WaitState.MEMORY: "waits for memory",
}


class DeviceStatusError(DeviceError):
    """The accelerator stopped with an error status."""

    def __init__(
        self,
        *,
        code: ErrorCode,
        unit: ErrorUnit,
        instruction: int,
        wait_states: tuple[WaitState, ...] = (),
    ) -> None:
        self.code = code
        self.unit = unit
        self.instruction = instruction
        self.wait_states = wait_states
        rule = ERROR_TEXT[code]
        if wait_states:
            states = zip(UNIT_NAMES, wait_states, strict=False)
            rule += " (" + ", ".join(f"{name} {_WAIT_TEXT[state]}" for name, state in states) + ")"
        super().__init__(
            rule,
            field=f"{unit.name.lower()}, instruction {instruction}",
            remedy=REMEDIES.get(code, ""),
        )

    def __reduce__(self) -> tuple[object, ...]:
        """Survive pickling between worker processes."""
        return (_rebuild, (self.code, self.unit, self.instruction, self.wait_states))


def _rebuild(
    code: ErrorCode, unit: ErrorUnit, instruction: int, wait_states: tuple[WaitState, ...]
) -> DeviceStatusError:
    return DeviceStatusError(code=code, unit=unit, instruction=instruction, wait_states=wait_states)


def decode_status(error: int, instruction: int, waits: int) -> DeviceError:
    """The error that the registers ERROR, ERROR_INSN and WAIT_STATE describe."""
    try:
        return DeviceStatusError(
            code=ErrorCode(error & 0xFF),
            unit=ErrorUnit(error >> 8 & 0xF),
            instruction=instruction,
            wait_states=tuple(
                WaitState(waits >> 4 * unit & 0xF) for unit in range(len(UNIT_NAMES))
            ),
        )
    except ValueError as unknown:
        return DeviceError(
            f"the error registers must hold known codes ({unknown})",
            field="ERROR, WAIT_STATE",
            value=f"{error:#x}, {waits:#x}",
        )
