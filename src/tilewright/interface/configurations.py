# SPDX-License-Identifier: Apache-2.0
"""Which named configuration runs a network fastest on a board: all that fit are compiled for.

A network is imported once for each set of options that configurations ask for, and compiled for
each of them with the schedules of ``--search 0``, counted on the twin: a few seconds each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tilewright.host.common.errors import ConfigError, TilewrightError
from tilewright.host.common.names import counted
from tilewright.host.compiler.pack.latency import latency
from tilewright.host.compiler.pipeline import ImportedNetwork, compile_network
from tilewright.host.compiler.quantise.hardware_options import for_hardware
from tilewright.host.compiler.read.import_options import ImportOptions
from tilewright.host.machine.area import estimate, fits
from tilewright.host.machine.board import Board
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig, named_configs
from tilewright.interface.options import CompileOptions
from tilewright.sim.twin.network_timing import time_network
from tilewright.tuner.study.schedule_lookup import ScheduleLookup

Importer = Callable[[ImportOptions], ImportedNetwork]

AUTO: Final = "auto"
"""The configuration's name that stands for the fastest."""

_NEARLY: Final = 1.02

WORTH: Final = 0.9
"""Share of the latency that another configuration is worth a line at."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Choice:
    """A configuration with what a network takes on it, its schedules not searched."""

    hw: HwConfig
    imported: ImportedNetwork
    options: ImportOptions  # as the configuration wants the network imported
    seconds: float  # end to end, of one inference
    cycles: int
    regions: int
    left: int  # operators on the CPU

    def describe(self) -> str:
        """A line's end, such as ``14.7 ms, 1 region``."""
        return f"{1e3 * self.seconds:.3g} ms, {counted(self.regions, 'region')}"


def fitting(board: Board) -> list[HwConfig]:
    """The named configurations that a board holds, the smallest first."""
    named = [load_hwconfig(name) for name in named_configs()]
    found = [hw for hw in named if fits(hw, board).ok]
    if not found:
        raise ConfigError(
            "no named configuration fits the board",
            field="--board",
            value=board.name,
            remedy="name a configuration file with --hw",
        )
    return sorted(found, key=lambda hw: estimate(hw).lut)


class Configurations:
    """The named configurations that fit a board, priced as they are asked for."""

    def __init__(
        self,
        importer: Importer,
        settings: CompileOptions,
        board: Board,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._importer: Final = importer
        self._settings: Final = settings
        self._options: Final = settings.import_options()
        self._board: Final = board
        self._progress: Final = progress
        self._imported: Final[dict[str, ImportedNetwork]] = {}

    def know(self, imported: ImportedNetwork, hw: HwConfig) -> None:
        """Take a network that was imported for a configuration already."""
        self._imported[repr(for_hardware(self._options, hw))] = imported

    def fastest(self) -> Choice:
        """The configuration with the least latency; of those within 2 % of it the smallest."""
        found, failed = self._priced(fitting(self._board), anew=True)
        if not found:
            raise ConfigError(
                f"no named configuration that fits {self._board.name} takes the network: "
                f"{failed[0].rule}",
                field=f"--hw {AUTO}",
                remedy="name a configuration file with --hw",
            ) from failed[0]
        return _least(found)

    def better(self, hw: HwConfig, seconds: float, *, anew: bool = True) -> Choice | None:
        """The fastest configuration, if it is faster than one that was compiled for by a tenth."""
        others = [each for each in fitting(self._board) if each.name != hw.name]
        found, _ = self._priced(others, anew=anew)
        if not found or (least := _least(found)).seconds >= WORTH * seconds:
            return None
        return least

    def _priced(
        self, configs: Sequence[HwConfig], *, anew: bool
    ) -> tuple[list[Choice], list[TilewrightError]]:
        """Prices, and why there is none."""
        found: list[Choice] = []
        failed: list[TilewrightError] = []
        for hw in sorted(configs, key=lambda each: (each.activation_table, each.row_unit)):
            plain = [each.left for each in found if not each.hw.activation_table]
            if hw.activation_table and plain and not min(plain):
                continue
            if not anew and repr(for_hardware(self._options, hw)) not in self._imported:
                continue
            try:
                found.append(self._price(hw))
            except TilewrightError as error:
                failed.append(error)
        return found, failed

    def _price(self, hw: HwConfig) -> Choice:
        options = for_hardware(self._options, hw)
        key = repr(options)
        if key not in self._imported:
            self._progress(f"importing it as {hw.name} wants it")
            self._imported[key] = self._importer(options)
        self._progress(f"compiling it for {hw.name}")
        imported = self._imported[key]
        with ScheduleLookup(hw, self._board.memory, budget=0) as book:
            network = compile_network(
                imported,
                hw,
                self._board,
                book,
                keep_rounding=self._settings.keep_rounding,
                offload_all=self._settings.offload_all,
            ).network
        cycles = time_network(network, self._board.memory).cycles
        return Choice(
            hw=hw,
            imported=imported,
            options=options,
            seconds=latency(network, self._board, cycles).total,
            cycles=cycles,
            regions=len(network.regions),
            left=sum(placed.where != "accelerator" for placed in network.placements),
        )


def _least(found: Sequence[Choice]) -> Choice:
    """The smallest of the configurations that are as fast as the fastest, or nearly."""
    limit = _NEARLY * min(each.seconds for each in found)
    near = [each for each in found if each.seconds <= limit]
    return min(near, key=lambda each: estimate(each.hw).lut)
