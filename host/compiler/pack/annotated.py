# SPDX-License-Identifier: Apache-2.0
"""The quantised model with where each of its operators runs: ONNX that Netron shows.

Netron shows a node's description (``doc_string``) and its metadata beside its attributes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tilewright.host.common.errors import ProgramError
from tilewright.host.common.whole_file import MARK, write_whole
from tilewright.host.compiler.pack.artefact import CompiledNetwork, Placed
from tilewright.host.compiler.pack.latency import behind_seconds, cpu_seconds
from tilewright.host.machine.board import Board
from tilewright.host.network.onnx_file import short

if TYPE_CHECKING:
    import onnx

_METADATA_IR: Final = 10
"""Version of ONNX's format since which nodes have metadata."""


def annotated(model: onnx.ModelProto, network: CompiledNetwork, board: Board) -> onnx.ModelProto:
    """A copy of a network's quantised model whose operators say where they run."""
    placed = {each.name: each for each in network.placements}
    copy = type(model)()
    copy.CopyFrom(model)
    copy.ir_version = max(copy.ir_version, _METADATA_IR)
    for node in copy.graph.node:
        found = placed.get(short(node.name))
        if found is None:
            continue
        told = dict(_told(found, board))
        node.doc_string = "; ".join(f"{name}: {value}" for name, value in told.items())
        for name, value in told.items():
            entry = node.metadata_props.add()
            entry.key, entry.value = f"tilewright.{name}", value
    mark = copy.metadata_props.add()
    mark.key, mark.value = "tilewright", MARK
    return copy


def save_annotated(
    model: onnx.ModelProto, network: CompiledNetwork, board: Board, path: Path
) -> None:
    """Write what `annotated` makes."""
    try:
        write_whole(path, annotated(model, network, board).SerializeToString())
    except OSError as error:
        raise ProgramError(
            f"the annotated model cannot be written ({error.strerror or error})",
            field=str(path),
            remedy="name a file in a folder that can be written",
        ) from error


def _told(placed: Placed, board: Board) -> Iterator[tuple[str, str]]:
    if placed.where == "accelerator":
        yield "runs on", f"accelerator, region {placed.region}"
    else:
        yield "runs on", "CPU"
        yield "reason", placed.reason
        yield "cost of staying behind", _milliseconds(behind_seconds(placed, board.cpu))
    if placed.macs:
        yield "MACs", f"{placed.macs:,}"
    yield "on the CPU it takes", _milliseconds(cpu_seconds(placed, board.cpu))


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3f} ms"
