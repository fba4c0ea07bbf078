# SPDX-License-Identifier: Apache-2.0
"""Compile an imported network for one configuration: offload, fuse, lower, check the limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tilewright.host.common.errors import ProgramError
from tilewright.host.compiler.divide.cost import CostModel
from tilewright.host.compiler.frontend import ImportedNetwork, partition
from tilewright.host.compiler.lower.executable import make_executable
from tilewright.host.compiler.lower.fuse import fuse
from tilewright.host.compiler.lower.layers import LayerGraph, layer_graph
from tilewright.host.compiler.lower.region import ScheduleOf
from tilewright.host.compiler.pack.artefact import CompiledNetwork, Placed, Port
from tilewright.host.machine.board import Board
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.layout import output_block

PROGRAM_BYTES_MAX: Final = 1 << 40
"""What an instruction's DRAM offset can address."""

INSTRUCTIONS_MAX: Final = (1 << 32) - 1
"""What the INSN_COUNT register holds."""


def compile_network(
    network: ImportedNetwork,
    hw: HwConfig,
    board: Board,
    schedule_of: ScheduleOf,
    *,
    keep_rounding: bool = False,
    offload_all: bool = False,
    conditions: Mapping[str, Any] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[CompiledNetwork, tuple[LayerGraph, ...]]:
    """Compile a network.

    Args:
        network: imported and quantised.
        hw: the configuration.
        board: its clock, memory and CPU decide what is offloaded, its memory what fits.
        schedule_of: a legal schedule for each workload.
        keep_rounding: keep every quantisation of the model instead of fusing it away.
        offload_all: offload whatever the accelerator can compute, whatever it costs.
        conditions: recorded in the result.
        progress: told what is done.

    Returns:
        The network, and the layers of its regions (the reference that devices are compared with).

    Raises:
        WorkloadError: a model that cannot be compiled.
        ScheduleError: a layer without a legal schedule.
        ProgramError: a program that exceeds the address space or the board's memory.
    """
    costs = CostModel(hw, board, offload_all=offload_all)
    parts = partition(network, costs.choose)
    count = len(parts.regions)
    progress(f"{count} region{'s' * (count != 1)} on the accelerator")
    square = hw.batch == 1 and hw.block_in == hw.block_out
    graphs, executables = [], []
    for region in parts.regions:
        fused = fuse(region, keep_rounding=keep_rounding)
        graph = layer_graph(fused, alignment=output_block(hw), square=square)
        progress(f"{region.name}: {len(graph.layers)} layers")
        graphs.append(graph)
        executables.append(make_executable(region, graph, hw, schedule_of))
    compiled = CompiledNetwork(
        name=network.name,
        hw=hw,
        host=parts.host.to_json(),
        regions=tuple(executables),
        inputs=tuple(_port(argument) for argument in network.inputs),
        outputs=tuple(_port(argument) for argument in network.outputs),
        placements=tuple(
            Placed(name=p.name, kind=p.kind, where=p.place, reason=p.reason)
            for p in parts.placements
        ),
        conditions=dict(conditions or {}),
    )
    check_limits(compiled, board)
    return compiled, tuple(graphs)


def check_limits(network: CompiledNetwork, board: Board) -> None:
    """Refuse programs that the address space or the board cannot hold.

    Raises:
        ProgramError: the limit, what the program needs, and what helps.
    """
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


def _port(argument: Any) -> Port:
    return Port(name=argument.name, shape=tuple(argument.shape), dtype=argument.dtype)
