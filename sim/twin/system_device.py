# SPDX-License-Identifier: Apache-2.0
"""`TwinSystem`: a system of several cores at the fidelity `twin`."""

from __future__ import annotations

from tilewright.host.common.errors import DeviceError
from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.system_config import SystemConfig
from tilewright.host.runtime.device import Bytes
from tilewright.host.runtime.system_device import Submission
from tilewright.sim.multicore.device import SimulatedSystem
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.twin.system_registers import TwinRegisters


class TwinSystem(SimulatedSystem[TwinRegisters]):
    """A `SystemDevice`: cycles and counters of the twin, memories of the functional reference.

    Programs are those that the cores finish without an error; watchdogs do not run.

    Example:
        >>> from tilewright.host.machine.board import load_memory
        >>> from tilewright.host.machine.system_config import load_system
        >>> device = TwinSystem(load_system("dual-tiny"), load_memory("pynq-z2"))
        >>> device.fidelity.value
        'twin'
        >>> device.close()
    """

    def __init__(self, system: SystemConfig, memory: MemoryModel, *, outputs: bool = True) -> None:
        self._outputs = outputs
        super().__init__(system, memory, Fidelity.TWIN)

    def _create(self) -> TwinRegisters:
        return TwinRegisters(self._system, self._memory)

    def _memory_of(self, given: Submission, image: Bytes) -> Bytes:
        if not self._outputs:
            return super()._memory_of(given, image)
        hw = self._system.cores[given.core].hw
        reference = ReferenceDevice(hw, strict=not given.scrub)
        try:
            return reference.run(given.program, given.memory).memory
        except DeviceError as error:
            raise DeviceError(
                f"a program for core {given.core} ends with an error, which the twin does not "
                f"count: {error}",
                field="program",
                remedy="run it on fidelity rtl",
            ) from error
        finally:
            reference.close()
