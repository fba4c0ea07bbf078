# SPDX-License-Identifier: Apache-2.0
"""What a compiled network must not exceed: the address space, and the memory of its board."""

from __future__ import annotations

from typing import Final

from tilewright.host.common.errors import ProgramError
from tilewright.host.compiler.pack.artefact import CompiledNetwork
from tilewright.host.machine.board import Board

PROGRAM_BYTES_MAX: Final = 1 << 40
"""What an instruction's DRAM offset can address."""

INSTRUCTIONS_MAX: Final = (1 << 32) - 1
"""What the INSN_COUNT register holds."""


def check_limits(network: CompiledNetwork, board: Board) -> None:
    """Refuse programs that the address space or the board cannot hold."""
    for program in network.programs:
        for rule, value, limit in (
            (
                "a program must lie within 40-bit offsets",
                program.program.memory_bytes,
                PROGRAM_BYTES_MAX,
            ),
            (
                "a program must have a 32-bit count of instructions",
                program.program.instruction_count,
                INSTRUCTIONS_MAX,
            ),
        ):
            _require(rule, program.name, value, limit)
    _require(
        f"all programs together must fit the contiguous memory of {board.name}",
        network.name,
        sum(program.program.memory_bytes for program in network.programs),
        board.cpu.contiguous_bytes,
    )


def _require(rule: str, field: str, value: int, limit: int) -> None:
    if value > limit:
        raise ProgramError(
            f"{rule} (at most {limit})",
            field=field,
            value=value,
            remedy="use a smaller input or batch, or a board with more memory",
        )
