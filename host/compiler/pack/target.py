# SPDX-License-Identifier: Apache-2.0
"""The board that a compiled network is for."""

from __future__ import annotations

from tilewright.host.common.errors import ProgramError
from tilewright.host.compiler.pack.artefact import CompiledNetwork
from tilewright.host.machine.board import Board, load_board, named_boards


def target_board(network: CompiledNetwork) -> Board:
    """The built-in board that a network was compiled for, at the clock of then.

    The file says a name. It comes from anybody, so it is looked up and never opened as a path.
    """
    name = str(network.conditions.get("board", "pynq-z2"))
    if name not in named_boards():
        raise ProgramError(
            "the network was compiled for a board that is not built in",
            field="board",
            value=name,
            remedy="give the YAML file of that board, or one of " + ", ".join(named_boards()),
        )
    board, clock = load_board(name), network.conditions.get("clock_mhz")
    if clock is None or clock == board.clock_mhz:
        return board
    return board.at_clock(clock, str(network.conditions.get("clock_source", "")))
