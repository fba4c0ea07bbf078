# SPDX-License-Identifier: Apache-2.0
"""Boards without a processor in simulation: `rtl/boards` around the accelerator."""

from pathlib import Path

from tilewright.host.machine.hwconfig import HwConfig
from tilewright.sim.synth.core_wrapper import wrapper
from tilewright.sim.synth.open_board import load_open_board
from tilewright.sim.verilator.build import read_manifest
from tilewright.sim.verilator.interactive import Interactive, load

BOARD = load_open_board("ulx3s")
BENCH = Path(__file__).with_name("serial_bench.sv")
CLOCKS_PER_BIT = 5
"""Of the simulated serial line: few, for speed, and odd, so that no edge meets another's middle."""


def sources(hw: HwConfig, folder: Path) -> list[Path]:
    """Everything that stands on a board with a configuration."""
    core = read_manifest()
    generated = folder / "tilewright.v"
    generated.write_text(wrapper(hw, core[-1].read_text()))
    return [*core, generated, *BOARD.rtl()]


class Streams:
    """A `ByteLink` over ports of valid, ready and data."""

    sim: Interactive
    source: tuple[str, str, str]
    sink: tuple[str, str, str]
    quiet: int

    def __init__(self) -> None:
        self._came = b""

    def _move(self, data: bytes, wanted: int) -> None:
        self._came += self.sim.stream(
            data, wanted, source=self.source, sink=self.sink, quiet=self.quiet
        )

    def send(self, data: bytes) -> None:
        self._move(data, 0)

    def receive(self, count: int) -> bytes:
        if len(self._came) < count:
            self._move(b"", count - len(self._came))
        taken, self._came = self._came[:count], self._came[count:]
        return taken

    def close(self) -> None:
        self.sim.close()


class ByteShell(Streams):
    """The shell without its serial line: a byte in almost every cycle."""

    source = ("rx_valid", "rx_ready", "rx_data")
    sink = ("tx_valid", "tx_ready", "tx_data")
    quiet = 2000

    def __init__(self, hw: HwConfig, folder: Path) -> None:
        super().__init__()
        self.sim = load(
            "tw_byte_shell", clock="aclk", sources=sources(hw, folder),
            AxiDataBits=hw.axi_data_bits, MemoryBytes=BOARD.memory_bytes,
        )  # fmt: skip
        self.sim.clock.tick(4)
        self.sim.io.aresetn = 1


class SerialBoard(Streams):
    """A whole ULX3S with a host at its serial line."""

    source = ("source_valid", "source_ready", "source_data")
    sink = ("sink_valid", "sink_ready", "sink_data")
    quiet = 300 * CLOCKS_PER_BIT

    def __init__(self, hw: HwConfig, folder: Path) -> None:
        super().__init__()
        self.sim = load(
            "serial_bench", clock="clk", sources=[*sources(hw, folder), BENCH],
            AxiDataBits=hw.axi_data_bits, MemoryBytes=BOARD.memory_bytes,
            ClocksPerBit=CLOCKS_PER_BIT,
        )  # fmt: skip
        self.sim.io.line_in = 1
        self.sim.clock.tick(4)
        self.sim.io.button = 1
        self.sim.clock.tick(20)


class BitByBit:
    """The serial line of a board as Python drives and samples it, as a `ByteLink`.

    Nothing of it comes from the RTL of the board's own transmitter and receiver.
    """

    def __init__(self, sim: Interactive, into: str = "line_in", out: str = "line_out") -> None:
        self.sim = sim
        self._into, self._out = into, out
        setattr(sim.io, into, 1)
        self._came = bytearray()
        self._bits: list[int] = []
        self._phase = 0

    def _clock(self) -> None:
        """One cycle; what the board sends is sampled in the middle of its bits."""
        self.sim.clock.tick()
        level = getattr(self.sim.io, self._out)
        if not self._phase and level:
            return
        self._phase += 1
        if self._phase % CLOCKS_PER_BIT == CLOCKS_PER_BIT // 2 + 1:
            self._bits.append(level)
        if len(self._bits) == 10:
            assert (self._bits[0], self._bits[9]) == (0, 1), "start and stop bit"
            self._came.append(sum(bit << i for i, bit in enumerate(self._bits[1:9])))
            self._bits, self._phase = [], 0

    def send(self, data: bytes) -> None:
        for byte in data:
            for bit in (0, *(byte >> i & 1 for i in range(8)), 1):
                setattr(self.sim.io, self._into, bit)
                for _ in range(CLOCKS_PER_BIT):
                    self._clock()

    def receive(self, count: int) -> bytes:
        quiet = 0
        while len(self._came) < count and quiet < SerialBoard.quiet:
            before = len(self._came)
            self._clock()
            quiet = 0 if len(self._came) > before else quiet + 1
        taken = bytes(self._came[:count])
        del self._came[:count]
        return taken

    def close(self) -> None:
        self.sim.close()
