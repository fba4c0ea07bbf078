# SPDX-License-Identifier: Apache-2.0
"""Run a compiled network: its regions on a `Device`, the rest on this machine's CPU through TVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.host.compiler.artefact import CompiledNetwork
from tilewright.host.compiler.relax_host import HostModule, HostProgram
from tilewright.host.device import Device, RunResult
from tilewright.host.errors import ProgramError

Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class NetworkRun:
    """One inference.

    Attributes:
        outputs: by name.
        results: what the device said, program by program.
        cpu_seconds: in operators on the CPU.
        region_seconds: in regions: packing, the device, unpacking.
    """

    outputs: Mapping[str, Array]
    results: tuple[RunResult, ...]
    cpu_seconds: float
    region_seconds: float

    @property
    def cycles(self) -> int:
        """Cycles of all programs; 0 on a device without time."""
        return sum(result.counters.cycles for result in self.results)


class NetworkRunner:
    """A compiled network on a device.

    Args:
        network: compiled for the device's configuration.
        device: runs the regions; it stays the caller's to close.

    Raises:
        ProgramError: the device has another configuration.
        WorkloadError: the CPU's part cannot be compiled on this machine.
    """

    def __init__(self, network: CompiledNetwork, device: Device) -> None:
        if network.hw.config_hash != device.hw.config_hash:
            raise ProgramError(
                f"network was compiled for {network.hw.name} ({network.hw.config_hash:#010x}), "
                f"the device is {device.hw.name} ({device.hw.config_hash:#010x})",
                field=network.name,
                remedy="compile it for this configuration",
            )
        self._network: Final = network
        self._device: Final = device
        self._host: Final = HostProgram(module=HostModule.from_json(network.host))

    def run(self, inputs: Mapping[str, Array]) -> NetworkRun:
        """Run once.

        Args:
            inputs: by name, in the model's shapes and types.

        Raises:
            WorkloadError: an input is missing, unknown, or has another shape or type.
            DeviceError, DeviceTimeoutError: see `Device.run`.
        """
        results: list[RunResult] = []

        def regions(
            number: int, arguments: Sequence[npt.NDArray[np.int8]]
        ) -> Sequence[npt.NDArray[np.int8]]:
            outputs, said = self._network.regions[number].run(self._device, list(arguments))
            results.extend(said)
            return outputs

        outputs = self._host.run(inputs, regions)
        return NetworkRun(
            outputs=outputs,
            results=tuple(results),
            cpu_seconds=self._host.times.cpu,
            region_seconds=self._host.times.regions,
        )
