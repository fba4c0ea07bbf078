# SPDX-License-Identifier: Apache-2.0
"""`Board` and `MemoryModel`: what a device offers, each figure with its source."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.calls import named
from tilewright.host.common.errors import ConfigError
from tilewright.host.common.names import check_name, choices
from tilewright.host.common.places import CONSTRAINTS_DIR
from tilewright.host.common.plain_values import build_record, check_integer, is_integer, is_number
from tilewright.host.common.summaries import Summarised
from tilewright.host.common.yaml_files import named_file, read_yaml_mapping
from tilewright.host.machine.bitstream import (
    MARK,
    REACHED,
    BitstreamManifest,
    bitstream_manifest,
)
from tilewright.host.machine.clock import clock_text
from tilewright.host.machine.vivado_target import SECTION, VivadoTarget, vivado_target

BOARD_DIR: Final = CONSTRAINTS_DIR / "boards"
MEMORY_DIR: Final = CONSTRAINTS_DIR / "memory"

DEFAULT_BOARD: Final = "pynq-z2"
"""The board unless another one is named."""

THE_BOARDS: Final = "board"
"""Name of the memory of the board that is given: the default wherever a memory is chosen."""


_TICKS: Final = 1 << 16
"""Of a cycle, in which the memory counts (`sim/harness/memory_model.h`)."""


@dataclass(frozen=True, kw_only=True)
class MemoryModel:
    """Timing of the DRAM behind the AXI port, in accelerator clock cycles.

    Attributes:
        read_bytes_per_cycle: bandwidth of the read channel; a bus beat costs bytes / this,
            never less than one cycle.
        shared_bytes_per_cycle: bandwidth of the DRAM shared by both directions; 0: not shared.
        max_reads, max_writes: bursts that the memory accepts before it stalls the address channel.
        stall_percent: verification only: chance in percent, each cycle and channel, that a
            ready or valid is withheld.
    """

    name: str  # label
    read_latency: int  # cycles from the acceptance of a read address to its first beat, at least 1
    write_latency: int  # cycles from the last write beat to its response, at least 1
    read_bytes_per_cycle: float
    write_bytes_per_cycle: float  # bandwidth of the write channel
    shared_bytes_per_cycle: float = 0.0
    max_reads: int = 16
    max_writes: int = 16
    stall_percent: int = 0
    stall_seed: int = 1  # seed of those stalls

    def __post_init__(self) -> None:
        """Validate."""
        check_name(self.name, "name")
        for name, low, high in (
            ("read_latency", 1, 10_000),
            ("write_latency", 1, 10_000),
            ("max_reads", 1, 256),
            ("max_writes", 1, 256),
            ("stall_percent", 0, 99),
            ("stall_seed", 0, 2**32 - 1),
        ):
            check_integer(name, getattr(self, name), low, high)
        for name, low_bytes in (
            ("read_bytes_per_cycle", 0.0625),
            ("write_bytes_per_cycle", 0.0625),
            ("shared_bytes_per_cycle", 0.0),
        ):
            value = getattr(self, name)
            if not is_number(value, low_bytes, 4096):
                raise ConfigError(
                    f"must be a number from {low_bytes} to 4096", field=name, value=value
                )

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any], *, origin: str = "") -> MemoryModel:
        """Build from a parsed YAML mapping."""
        values = {k: v for k, v in data.items() if k != "source"}
        model: MemoryModel = build_record(cls, values, origin)
        return model

    def beat_cycles(self, axi_bytes: int) -> tuple[float, float, float]:
        """Cycles that a beat occupies the read channel, the write channel and the shared DRAM.

        In units of 1/65536 cycle, as the memory counts them; 0 for a DRAM that is not shared.
        """
        rates = (self.read_bytes_per_cycle, self.write_bytes_per_cycle, self.shared_bytes_per_cycle)
        read, write, shared = (
            math.floor(axi_bytes / rate * _TICKS + 0.5) / _TICKS if rate else 0.0 for rate in rates
        )
        return max(1.0, read), max(1.0, write), shared


@dataclass(frozen=True, kw_only=True)
class CpuModel:
    """What the board's CPU does beside the accelerator; it decides what is offloaded."""

    name: str  # of the cores
    macs_per_second: float  # int8 or float multiply-accumulates, all cores, in compiled operators
    bytes_per_second: float  # of elements that are converted, packed or moved
    call_seconds: float  # of one run of the accelerator (registers, cache maintenance, waiting)
    contiguous_bytes: int  # physically contiguous memory for programs and tensors

    def __post_init__(self) -> None:
        """Validate."""
        check_name(self.name, "cpu.name")
        for name in ("macs_per_second", "bytes_per_second", "contiguous_bytes"):
            value = getattr(self, name)
            if not (is_number(value) and 0 < value < math.inf):
                raise ConfigError("must be a positive number", field=f"cpu.{name}", value=value)
        seconds = self.call_seconds
        if not (is_number(seconds, 0) and seconds < math.inf):
            raise ConfigError("must not be negative", field="cpu.call_seconds", value=seconds)

    def rates(self) -> str:
        """What a prediction with these figures rests on, as text."""
        return (
            f"{self.name} with {self.macs_per_second:.3g} MAC/s, {self.bytes_per_second:.3g} "
            f"byte/s, {1e6 * self.call_seconds:g} us per call"
        )

    def work_seconds(self, *, macs: int = 0, nbytes: int = 0) -> float:
        """What an operation takes that multiplies, and reads and writes so many bytes."""
        return macs / self.macs_per_second + nbytes / self.bytes_per_second

    def transfer_seconds(self, nbytes: int) -> float:
        """What it takes to pack a tensor for the accelerator, or to unpack it: read and written."""
        return 2 * nbytes / self.bytes_per_second


def _sources(given: object) -> dict[str, str]:
    """Sources by figures, those that are left empty left out."""
    known = {*(f.name for f in fields(Board)), SECTION, "calibration"}
    if not isinstance(given, Mapping | None):
        raise ConfigError(
            "must be a mapping of figures to text",
            field="sources",
            value=given,
            remedy="write 'clock_mhz: where it comes from' lines",
        )
    for names, text in (given or {}).items():
        calibrated = str(names).startswith("calibration.")  # of a layer of any name
        for name in ["calibration"] if calibrated else str(names).split(","):
            if not isinstance(names, str) or name.strip().split(".")[0] not in known:
                raise ConfigError(
                    "must be figures of the board",
                    field="sources",
                    value=names,
                    remedy=choices(names, sorted(known)),
                )
        if not isinstance(text, str | None):
            raise ConfigError(
                "must be text", field=f"sources.{names}", value=text, remedy="put it in quotes"
            )
    return {str(names): text for names, text in (given or {}).items() if text is not None}


@dataclass(frozen=True, kw_only=True, repr=False)
class Board(Summarised):
    """A device: programmable-logic budget, clock and memory timing.

    Attributes:
        name: label.
        part: FPGA part.
        lut, ff, bram36, dsp: resources of the part (BRAM in 36 Kb blocks; an UltraRAM is not
            counted).
        clock_mhz: clock that is planned for the accelerator, or that a bitstream reached.
        axi_data_bits: widest AXI port into DRAM.
        axi_burst_beats: longest burst of that port.
        coherent: whether that port is coherent with the CPU caches.
        memory: timing at ``clock_mhz``.
        cpu: the cores that run what is not offloaded.
        sources: where each figure comes from.

    Raises:
        ConfigError: a value that no board can have.

    Example:
        >>> from dataclasses import replace
        >>> import tilewright as tw
        >>> board = tw.load_board("pynq-z2")
        >>> faster = replace(board, name="faster", clock_mhz=150)
        >>> faster.clock_mhz, faster.dsp
        (150, 220)
    """

    name: str
    part: str
    lut: int
    ff: int
    bram36: int
    dsp: int
    clock_mhz: float
    axi_data_bits: int
    axi_burst_beats: int
    coherent: bool
    memory: MemoryModel
    cpu: CpuModel
    sources: Mapping[str, str] = field(default_factory=dict)

    def _told(self) -> Mapping[str, object]:
        return {
            "board": self.name,
            "part": self.part,
            "clock": f"{self.clock_mhz:g} MHz",
            "resources": f"{self.lut:,} LUT, {self.ff:,} FF, {self.bram36} BRAM, {self.dsp:,} DSP",
            "port": f"{self.axi_data_bits} bits, bursts of {self.axi_burst_beats} beats",
            "memory": self.memory.name,
        }

    def __post_init__(self) -> None:
        """Validate."""
        check_name(self.name, "name")
        check_name(self.part, "part")
        for name in ("lut", "ff", "bram36", "dsp", "axi_data_bits", "axi_burst_beats"):
            value = getattr(self, name)
            if not is_integer(value, 1):
                raise ConfigError("must be a positive integer", field=name, value=value)
        for name in ("axi_data_bits", "axi_burst_beats"):
            value = getattr(self, name)
            if value & (value - 1):
                raise ConfigError(
                    "must be a power of two",
                    field=name,
                    value=value,
                    remedy="take the next smaller one",
                )
        if not isinstance(self.coherent, bool):
            raise ConfigError("must be true or false", field="coherent", value=self.coherent)
        if not isinstance(self.memory, MemoryModel):
            raise ConfigError(
                "must be a mapping of memory timing",
                field="memory",
                remedy="load one with load_board",
            )
        if not isinstance(self.cpu, CpuModel):
            raise ConfigError(
                "must be a mapping that describes the CPU",
                field="cpu",
                remedy="load one with load_board",
            )
        clock = self.clock_mhz
        if not is_number(clock, 1, 2000):
            raise ConfigError(
                "must be from 1 to 2000 MHz",
                field="clock_mhz",
                value=clock,
                remedy="give it in MHz, not Hz",
            )
        object.__setattr__(self, "sources", _sources(self.sources))

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, for the store."""
        return asdict(self)

    def clock_text(self, config_hash: int | None = None) -> str:
        """The clock, and what supports it for a configuration: every millisecond is told with it.

        Args:
            config_hash: `HwConfig.config_hash`; None: of any configuration.
        """
        return clock_text(self.part, self.clock_mhz, self.sources, config_hash)

    def at_clock(self, clock_mhz: float, source: str) -> Board:
        """This board with another clock of the accelerator.

        The memory keeps its times in seconds: what is counted in cycles of the accelerator follows
        the clock. A beat still takes at least a cycle.

        Args:
            clock_mhz: the clock.
            source: where it comes from, for `sources`.

        Raises:
            ConfigError: a clock that no board can have.
        """
        if not is_number(clock_mhz, 1, 2000):
            raise ConfigError("must be from 1 to 2000 MHz", field="clock_mhz", value=clock_mhz)
        ratio = clock_mhz / self.clock_mhz
        memory = replace(
            self.memory,
            read_latency=max(1, round(self.memory.read_latency * ratio)),
            write_latency=max(1, round(self.memory.write_latency * ratio)),
            shared_bytes_per_cycle=self.memory.shared_bytes_per_cycle / ratio,
        )
        return replace(
            self,
            clock_mhz=clock_mhz,
            memory=memory if ratio != 1 else self.memory,
            sources={**self.sources, "clock_mhz": source},
        )


def named_boards() -> tuple[str, ...]:
    """Names of the boards that ship with Tilewright."""
    return tuple(sorted(p.stem for p in BOARD_DIR.glob("*.yaml")))


@named
def load_board(name_or_path: str | Path | Board) -> Board:
    """Load a named board (``pynq-z2``), a YAML file, or the board of a bitstream's manifest.

    A manifest stands for its board at the clock that the bitstream reached; a loaded board stays
    as it is.

    Raises:
        ConfigError: unknown name, unreadable file, or bad values.

    Example:
        >>> import tilewright as tw
        >>> board = tw.load_board("pynq-z2")
        >>> board.lut, board.memory.name
        (53200, 'pynq-z2')
    """
    if isinstance(name_or_path, Board):
        return name_or_path
    path = named_file(name_or_path, BOARD_DIR, "board", "board", named_boards())
    data = read_yaml_mapping(path, "a board")
    if MARK in data:
        return _of_bitstream(bitstream_manifest(data, path))
    data.pop(SECTION, None)  # of `load_vivado_target`
    memory = data.get("memory")
    if not isinstance(memory, dict):
        raise ConfigError(
            "must be a mapping of memory timing",
            field=f"{path}: memory",
            remedy=f"give {', '.join(f.name for f in fields(MemoryModel))}",
        )
    memory.setdefault("name", path.stem)
    data["memory"] = MemoryModel.from_mapping(memory, origin=f"{path}: memory")
    cpu = data.get("cpu")
    if not isinstance(cpu, dict):
        raise ConfigError(
            "must be a mapping that describes the CPU",
            field=f"{path}: cpu",
            remedy=f"give {', '.join(f.name for f in fields(CpuModel))}",
        )
    data["cpu"] = build_record(CpuModel, cpu, f"{path}: cpu")
    data.setdefault("name", path.stem)
    board: Board = build_record(Board, data, str(path))
    stated = board.sources.get("clock_mhz", "")
    if stated.startswith(REACHED):  # what a manifest alone says
        board = board.at_clock(board.clock_mhz, f"{path.name}: {stated}")
    return board


def _of_bitstream(manifest: BitstreamManifest) -> Board:
    """The board of a bitstream, at its clock."""
    return _at_clock_of(load_board(manifest.board), manifest)


def board_with_bitstream(board: Board, bitstream: Path | None) -> Board:
    """A board at the clock of a bitstream, where its manifest lies beside it."""
    path = None if bitstream is None else bitstream.with_suffix(".yaml")
    if path is None or not path.is_file():
        return board
    data = read_yaml_mapping(path, "a bitstream's manifest")
    # Another file may have the name.
    return _at_clock_of(board, bitstream_manifest(data, path)) if MARK in data else board


def _at_clock_of(board: Board, manifest: BitstreamManifest) -> Board:
    if board.part != manifest.part:
        raise ConfigError(
            f"the bitstream must be for the part of board {board.name}, {board.part}",
            field=f"{manifest.path}: part",
            value=manifest.part,
            remedy=f"give --board {manifest.board}",
        )
    return board.at_clock(manifest.clock_mhz, manifest.source)


def load_vivado_target(name_or_path: str | Path) -> VivadoTarget:
    """What Vivado has to know of a board."""
    path = named_file(name_or_path, BOARD_DIR, "board", "board", named_boards())
    return vivado_target(read_yaml_mapping(path, "a board").get(SECTION), path)


def load_memory(
    name_or_path: str | Path | MemoryModel | Board, board: str | Path | Board = DEFAULT_BOARD
) -> MemoryModel:
    """Load a memory model; one that is loaded stays as it is, and a board stands for its memory."""
    if isinstance(name_or_path, MemoryModel):
        return name_or_path
    if name_or_path == THE_BOARDS:
        return load_board(board).memory
    if isinstance(name_or_path, Board) or str(name_or_path) in named_boards():
        return load_board(name_or_path).memory
    names = [THE_BOARDS, *sorted(p.stem for p in MEMORY_DIR.glob("*.yaml")), *named_boards()]
    path = named_file(name_or_path, MEMORY_DIR, "memory model", "memory", names)
    data = read_yaml_mapping(path, "a memory model")
    # A board's file stands for its memory.
    if isinstance(data.get("memory"), dict) or MARK in data:
        return load_board(path).memory
    data.setdefault("name", path.stem)
    return MemoryModel.from_mapping(data, origin=str(path))


def pessimistic_memory(board: Board) -> MemoryModel | None:
    """A board's memory at its worst; None: nobody wrote it down for this board and clock.

    ``<board>-pessimistic`` in `MEMORY_DIR` counts cycles of the clock of the board's own file.
    """
    name = f"{board.name}-pessimistic"
    if board.name not in named_boards() or not (MEMORY_DIR / f"{name}.yaml").is_file():
        return None
    shipped = load_board(board.name)
    same = board.clock_mhz == shipped.clock_mhz and board.memory == shipped.memory
    return load_memory(name) if same else None
