# SPDX-License-Identifier: Apache-2.0
"""How a network is divided between accelerator and CPU, as one HTML page with a picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tilewright.host.common.names import counted
from tilewright.host.compiler.divide.model_edges import operator_edges
from tilewright.host.compiler.pack.artefact import CompiledNetwork, Placed
from tilewright.host.compiler.pack.latency import (
    behind_seconds,
    cpu_seconds,
    latency,
    mac_share,
    region_seconds,
)
from tilewright.host.machine.board import Board
from tilewright.sim.twin.network_timing import NetworkTiming
from tilewright.tuner.report.drawing import page as markup
from tilewright.tuner.report.drawing.marks import LETTER, Chart, drawing, element, label
from tilewright.tuner.report.drawing.table import Cell, Column, table_of

if TYPE_CHECKING:
    import onnx

_ROW: Final = 24
"""Pixels from one block to the next."""

_LANE: Final = 7
"""Pixels between two lines beside the blocks."""

_MOST_LANES: Final = 12
_BAR: Final = 0.34
"""Of the picture's width, for the bars."""

_COLOURS: Final = {"accelerator": "c2", "cpu": "c1"}


@dataclass(frozen=True, kw_only=True)
class Block:
    """A region, or neighbouring operators of the CPU."""

    where: str  # ``accelerator`` or ``cpu``
    title: str  # what it is
    operators: tuple[str, ...]  # names
    seconds: float  # what it takes; of a region with the crossings at its border
    tip: str  # said when it is pointed at


def blocks(network: CompiledNetwork, board: Board, timing: NetworkTiming) -> list[Block]:
    """A network's blocks in the order in which they begin."""
    groups: dict[tuple[str, int], list[Placed]] = {}
    run = 0
    last = ""
    for placed in network.placements:
        if placed.where == "cpu" and last != "cpu":
            run += 1
        last = placed.where
        region = placed.region if placed.region is not None else run
        groups.setdefault((placed.where, region), []).append(placed)
    cycles = _cycles(network, timing)
    found = []
    for (where, number), members in groups.items():
        kinds = Counter(each.kind for each in members)
        listed = ", ".join(f"{n} x {kind}" if n > 1 else kind for kind, n in kinds.items())
        if where == "accelerator":
            seconds = cycles[number] / (board.clock_mhz * 1e6)
            crossing = region_seconds(network.regions[number], board.cpu)
            title = f"region {number}: {counted(len(members), 'operator')}"
            tip = f"{listed}; {1e3 * seconds:.3f} ms and {1e3 * crossing:.3f} ms of crossings"
            seconds += crossing
        else:
            seconds = sum(cpu_seconds(each, board.cpu) for each in members)
            title, tip = f"CPU: {listed}", f"{listed}; {members[0].reason}"
        found.append(
            Block(
                where=where,
                title=title,
                operators=tuple(each.name for each in members),
                seconds=seconds,
                tip=tip,
            )
        )
    return found


def _cycles(network: CompiledNetwork, timing: NetworkTiming) -> list[int]:
    """Of each region."""
    layers = iter(timing.layers)
    return [
        sum(next(layers).cycles for step in region.steps for _ in step.program.layers)
        for region in network.regions
    ]


@dataclass(frozen=True, kw_only=True)
class PartitionPicture(Chart):
    """Blocks from the top; lines beside them are tensors that skip a block."""

    alt: str  # what it shows, for who cannot see it
    blocks: Sequence[Block]  # from the first
    edges: Sequence[tuple[int, int]]  # of block numbers, from and to

    def svg(self, width: int, _key: str = "") -> str:
        """The picture, ``width`` pixels wide."""
        lanes = list(self._lanes())
        left = _LANE * (1 + max((lane for lane, _, _ in lanes), default=0)) + 4
        right = width * (1 - _BAR)
        longest = max((block.seconds for block in self.blocks), default=0) or 1.0
        parts = [self._line(lane, first, last, left) for lane, first, last in lanes]
        for number, block in enumerate(self.blocks):
            y = number * _ROW
            room = right - left - 12
            bar = max(1.0, (width - right - 62) * block.seconds / longest)
            parts += [
                element(
                    "rect", x=left, y=y + 2, width=room, height=_ROW - 5, rx=3,
                    class_=f"bar {_COLOURS[block.where]}", fill_opacity="0.25",
                    data_tip=block.tip,
                ),
                label(left + 6, y + _ROW - 8, _shortened(block.title, room - 12)),
                element(
                    "rect", x=right, y=y + 4, width=bar, height=_ROW - 9,
                    class_=f"bar {_COLOURS[block.where]}",
                ),
                label(right + bar + 4, y + _ROW - 8, f"{1e3 * block.seconds:.3g} ms"),
            ]  # fmt: skip
        height = max(1, len(self.blocks)) * _ROW
        return drawing(parts, width, height, self.alt)

    def _lanes(self) -> Iterator[tuple[int, int, int]]:
        """Lines that do not cross others of their lane: (lane, first, last)."""
        free: list[int] = []
        for first, last in sorted(set(self.edges)):
            if last <= first + 1:
                continue
            lane = next((n for n, end in enumerate(free) if end <= first), len(free))
            if lane >= _MOST_LANES:
                continue
            free[lane : lane + 1] = [last]
            yield lane, first, last

    @staticmethod
    def _line(lane: int, first: int, last: int, left: int) -> str:
        top, bottom = (number * _ROW + _ROW // 2 for number in (first, last))
        x = left - _LANE * (lane + 1)
        return element(
            "path", d=f"M{left} {top}H{x}V{bottom}H{left}", class_="line ink", fill="none"
        )


def partition_page(
    network: CompiledNetwork, model: onnx.ModelProto, board: Board, timing: NetworkTiming
) -> str:
    """The page."""
    clock = board.clock_text(network.hw.config_hash)
    spent = latency(network, board, timing.cycles)
    found = blocks(network, board, timing)
    block_of = {name: n for n, block in enumerate(found) for name in block.operators}
    edges = [
        (block_of[a], block_of[b])
        for a, b in operator_edges(model)
        if a in block_of and b in block_of and block_of[a] < block_of[b]
    ]
    taken = sum(placed.where == "accelerator" for placed in network.placements)
    regions = counted(len(network.regions), "region")
    picture = PartitionPicture(
        alt=f"{network.name} in {regions} and the operators of the CPU between them",
        blocks=found,
        edges=edges,
    )
    return markup.document(
        f"{network.name} on {network.hw.name}",
        markup.heading(f"{network.name} on {network.hw.name}", f"board {board.name}"),
        markup.tiles(
            [
                ("end to end", f"{1e3 * spent.total:.2f} ms", f"bottleneck: {spent.bottleneck}"),
                ("accelerator", f"{1e3 * spent.accelerator:.2f} ms", f"{timing.cycles:,} cycles"),
                ("crossings", f"{1e3 * spent.crossings:.2f} ms", regions),
                ("CPU", f"{1e3 * spent.cpu:.2f} ms", board.cpu.name),
                ("operators", f"{taken} of {len(network.placements)}", "on the accelerator"),
                ("MACs", f"{100 * mac_share(network):.1f} %", "on the accelerator"),
            ]
        ),
        markup.section(
            "Where it runs",
            markup.paragraph(
                "Blocks stand in the order in which they begin. A line beside them is a tensor "
                "that skips a block. The bar of a region holds its crossings too."
            ),
            markup.figure(picture, "partition"),
        ),
        markup.section("Operators", _operator_table(network, board)),
        markup.section(
            "Conditions",
            markup.bullets(
                [
                    f"cycles are the twin's, milliseconds at {clock}",
                    f"crossings and CPU follow from the board file: {board.cpu.rates()}",
                ]
            ),
        ),
    )


def _operator_table(network: CompiledNetwork, board: Board) -> str:
    def figure(value: float, text: str) -> Cell:
        return Cell(text=text, value=value)

    def behind(placed: Placed) -> Cell:
        if placed.where == "accelerator":
            return figure(0.0, "")
        spent = 1e3 * behind_seconds(placed, board.cpu)
        return figure(spent, f"{spent:.3f}")

    def on_cpu(placed: Placed) -> Cell:
        spent = 1e3 * cpu_seconds(placed, board.cpu)
        return figure(spent, f"{spent:.3f}")

    rates = "at the rates of the board file"
    staying = "cost of staying behind: on the CPU, with the crossings for it"
    return table_of(
        "operators of the model",
        network.placements,
        {
            Column(title="operator"): lambda placed: placed.name,
            Column(title="kind"): lambda placed: placed.kind,
            Column(title="where"): (
                lambda placed: f"region {placed.region}" if placed.where == "accelerator" else "CPU"
            ),
            "MACs": lambda placed: figure(placed.macs, f"{placed.macs:,}"),
            Column(title="ms on CPU", number=True, explained=rates): on_cpu,
            Column(title="behind ms", number=True, explained=staying): behind,
            Column(title="reason", wide=True): lambda placed: placed.reason,
        },
    )


def _shortened(text: str, room: float) -> str:
    letters = max(4, int(room / LETTER))
    return text if len(text) <= letters else f"{text[: letters - 3]}..."
