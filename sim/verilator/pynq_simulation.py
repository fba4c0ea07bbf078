# SPDX-License-Identifier: Apache-2.0
"""The verilated RTL under the `pynq` package: `PynqDevice` runs on it as on a board.

Caches are modelled as far as they can go wrong. A buffer has two copies, the CPU's and the
device's, and only a flush or an invalidation brings one to the other: a program whose image was
not flushed runs on what was there before, and a result that was not invalidated is not seen.
"""

from __future__ import annotations

import functools
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.registers import REGISTERS, Ctrl
from tilewright.host.machine.vivado_target import CELL, CORE, REGISTERS_BYTES
from tilewright.host.runtime.device import Bytes
from tilewright.host.runtime.pynq_device import PynqDevice, import_pynq
from tilewright.sim.verilator.library import Simulation, StopReason
from tilewright.sim.verilator.noisy_memory import NoisyMemory

WINDOW_BASE: Final = 0x43C0_0000
"""Where the bitstream of a Zynq-7000 board has the registers."""
CONTIGUOUS_BASE: Final = 0x1680_0000
DEFAULT_CONTIGUOUS_BYTES: Final = 128 << 20
"""What the PYNQ image of a Zynq-7000 reserves."""

_CYCLES_A_POLL: Final = 100_000
"""Clock cycles that go by between two reads of STATUS in a run."""
_OFFSET: Final = {register.name: register.offset for register in REGISTERS}
_GARBAGE: Final = 0xEE
"""What new contiguous memory holds: no legal instruction."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Allocation:
    """A buffer of contiguous memory."""

    address: int  # physical
    cpu: Bytes  # what the CPU sees
    device: Bytes  # what the accelerator sees; the same bytes where caches are coherent


class ContiguousMemory:
    """Physically contiguous memory behind caches."""

    def __init__(self, size: int, *, coherent: bool, alignment: int = 4096) -> None:
        self._coherent = coherent
        self._alignment = alignment
        self._taken: dict[int, int] = {}
        self.bytes: Final[Bytes] = np.zeros(size, dtype=np.uint8)

    @property
    def allocated(self) -> int:
        """Bytes in buffers."""
        return sum(self._taken.values())

    def allocate(self, size: int) -> Allocation:
        """A buffer in the first gap that holds it."""
        offset = 0
        for begin, taken in sorted(self._taken.items()):
            if offset + size <= begin:
                break
            offset = -(-(begin + taken) // self._alignment) * self._alignment
        if offset + size > self.bytes.size:
            raise RuntimeError(f"BO allocation failed: {size} of {self.bytes.size} bytes")
        self._taken[offset] = size
        device = self.bytes[offset : offset + size]
        device[:] = _GARBAGE
        cpu = device if self._coherent else np.full(size, _GARBAGE, dtype=np.uint8)
        return Allocation(address=CONTIGUOUS_BASE + offset, cpu=cpu, device=device)

    def return_pointer(self, allocation: Allocation) -> None:
        """Free a buffer (the name is pynq's)."""
        del self._taken[allocation.address - CONTIGUOUS_BASE]


class SimulatedLogic:
    """The accelerator in the programmable logic, with its registers on a bus.

    The clock runs with register accesses, and on between two reads of STATUS.
    """

    def __init__(
        self,
        hw: HwConfig,
        timing: MemoryModel,
        library: Path,
        memory: ContiguousMemory,
        noise: NoisyMemory | None = None,
    ) -> None:
        self.memory: Final = memory
        self._noise: Final = noise
        self._simulation = Simulation(library, max_burst_beats=hw.axi_burst_beats, memory=timing)
        self._running = False

    def reset(self) -> None:
        """What loading the bitstream does."""
        self._simulation.reset()
        self._running = False

    def read(self, offset: int) -> int:
        """Read a register; in a run, time goes by before STATUS is read."""
        if offset == _OFFSET["STATUS"] and self._running:
            outcome = self._simulation.run(_CYCLES_A_POLL)
            self._running = outcome.reason is not StopReason.INTERRUPT
        return self._simulation.read(offset)

    def write(self, offset: int, value: int) -> None:
        """Write a register."""
        if offset == _OFFSET["INSN_BASE_LO"]:  # the first register that a run writes
            # Stalls of the memory begin anew with it: equal runs take equal cycles.
            if self._noise is not None:
                self._simulation.set_timing(self._noise.draw())
            self._simulation.attach(self.memory.bytes, CONTIGUOUS_BASE)
        if offset == _OFFSET["CTRL"]:
            self._running = bool(value & Ctrl.START)
        self._simulation.write(offset, value)

    def close(self) -> None:
        """Release the simulation."""
        self._simulation.close()


def simulated_device(logic: SimulatedLogic) -> Any:
    """A `pynq.pl_server.device.Device` whose bitstream is a simulation.

    `pynq.Overlay`, `pynq.MMIO` and `pynq.allocate` work on it (``device=`` or ``target=``). Any
    file is a bitstream to it.
    """
    import_pynq()
    return _device_class()(logic)


@functools.cache
def _device_class() -> Any:
    from pynq.buffer import PynqBuffer  # noqa: PLC0415  (optional package)
    from pynq.pl_server.device import Device  # noqa: PLC0415  (optional)

    class SimulatedBuffer(PynqBuffer):  # type: ignore[misc]  # pynq ships no types
        """pynq 3.1 sets an attribute that arrays of numpy 2 have themselves, and not writable."""

        device = None

    class SimulatedPynq(Device):  # type: ignore[misc]  # pynq ships no types
        """pynq's view of simulated logic; it is never probed, only passed."""

        def __init__(self, logic: SimulatedLogic) -> None:
            super().__init__(f"tilewright-simulation-{id(logic):x}")
            self.capabilities = {"REGISTER_RW": True}
            self.name = self.tag
            self._logic = logic

        def get_bitfile_metadata(self, *_names: Any, **_options: Any) -> Any:
            window = {
                "fullpath": CELL,
                "type": CORE,
                "phys_addr": WINDOW_BASE,
                "addr_range": REGISTERS_BYTES,
                "parameters": {},
                "registers": {},
                "gpio": {},
                "interrupts": {},
                "state": None,
            }
            views = ("gpio", "hierarchy", "mem", "clock")
            return SimpleNamespace(
                ip_dict={window["fullpath"]: window},
                interrupt_controllers={},
                interrupt_pins={},
                systemgraph=None,
                **{f"{view}_dict": {} for view in views},
            )

        def download(self, bitstream: Any, parser: Any = None) -> None:
            self._logic.reset()
            self.post_download(bitstream, parser, self.name)

        def read_registers(self, address: int, length: int) -> bytes:
            return b"".join(
                self._logic.read(address - WINDOW_BASE + at).to_bytes(4, "little")
                for at in range(0, length, 4)
            )

        def write_registers(self, address: int, data: bytes) -> None:
            for at in range(0, len(data), 4):
                value = int.from_bytes(data[at : at + 4], "little")
                self._logic.write(address - WINDOW_BASE + at, value)

        def allocate(self, shape: Any, dtype: Any, **_options: Any) -> Any:
            size = int(np.prod(shape)) * np.dtype(dtype).itemsize
            allocation = self._logic.memory.allocate(size)
            buffer = SimulatedBuffer(
                shape,
                dtype,
                buffer=allocation.cpu,
                bo=allocation,
                device=self,
                device_address=allocation.address,
                coherent=False,
            )
            # With these, pynq frees a buffer by `return_pointer` and never unmaps it.
            buffer.memory = self._logic.memory
            buffer.pointer = allocation
            buffer.return_to = self._logic.memory
            buffer.freed = True
            return buffer

        def flush(self, bo: Allocation, offset: int, _pointer: int, size: int) -> None:
            bo.device[offset : offset + size] = bo.cpu[offset : offset + size]

        def invalidate(self, bo: Allocation, offset: int, _pointer: int, size: int) -> None:
            bo.cpu[offset : offset + size] = bo.device[offset : offset + size]

    return SimulatedPynq


class SimulatedBoard(PynqDevice):
    """`PynqDevice` on a simulated board: what it does on a real one, for users without one."""

    def __init__(
        self,
        hw: HwConfig,
        timing: MemoryModel,
        library: Path,
        *,
        contiguous_bytes: int = DEFAULT_CONTIGUOUS_BYTES,
        noise_seed: int | None = None,
        **options: Any,
    ) -> None:
        coherent = bool(options.get("coherent"))
        self.logic: Final = SimulatedLogic(
            hw,
            timing,
            library,
            ContiguousMemory(contiguous_bytes, coherent=coherent),
            None if noise_seed is None else NoisyMemory(timing, noise_seed),
        )
        with tempfile.TemporaryDirectory() as folder:
            bitstream = Path(folder) / f"{hw.name}.bit"
            bitstream.touch()
            super().__init__(
                hw, bitstream=bitstream, target=simulated_device(self.logic), **options
            )

    def close(self) -> None:
        """Free the memory and release the simulation. Idempotent."""
        super().close()
        self.logic.close()
