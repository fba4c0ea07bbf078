# SPDX-License-Identifier: Apache-2.0
"""`NetworkRunner`: regions on a `Device`, the rest by whatever runs the CPU's part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import ProgramError, reason_of
from tilewright.host.common.names import counted
from tilewright.host.common.summaries import Summarised
from tilewright.host.compiler.pack.artefact import CompiledNetwork
from tilewright.host.compiler.read.argument import Argument
from tilewright.host.compiler.run.host_arguments import HostTimes, RegionRunner
from tilewright.host.runtime.device import Device, RunResult

Array = npt.NDArray[Any]

_MISFITS: Final = (ArithmeticError, LookupError, MemoryError, TypeError, ValueError)
"""What NumPy and Python raise if a file's tensors do not fit together."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NetworkRun(Summarised):
    """One inference."""

    outputs: Mapping[str, Array]  # by name
    results: tuple[RunResult, ...]  # what the device said, program by program
    cpu_seconds: float  # in operators on the CPU
    region_seconds: float  # in regions: packing, the device, unpacking

    def _told(self) -> Mapping[str, object]:
        outputs = (f"{name} {a.shape} {a.dtype}" for name, a in self.outputs.items())
        return {
            "cycles": f"{self.cycles:,} cycles in {counted(len(self.results), 'program')}",
            "outputs": ", ".join(outputs),
            "cpu_seconds": f"{self.cpu_seconds:.3f} s of operators on this machine's CPU",
            "region_seconds": f"{self.region_seconds:.3f} s in regions on this machine",
        }

    @property
    def cycles(self) -> int:
        """Cycles of all programs; 0 on a device without time."""
        return sum(result.counters.cycles for result in self.results)


class CpuPart(Protocol):
    """A CPU part that is ready to run."""

    times: HostTimes

    @property
    def outputs(self) -> Sequence[Argument]:
        """What `run` returns."""

    def run(self, inputs: Mapping[str, Array], regions: RegionRunner) -> dict[str, Array]:
        """Run once."""

    def close(self) -> None:
        """Release what it holds."""


class NetworkRunner:
    """A compiled network on a device; close it, or use it as a context, to end its CPU part."""

    def __init__(
        self, network: CompiledNetwork, device: Device, open_cpu_part: Callable[[str], CpuPart]
    ) -> None:
        if network.hw.config_hash != device.hw.config_hash:
            raise ProgramError(
                f"network was compiled for {network.hw.name} ({network.hw.config_hash:#010x}), "
                f"the device is {device.hw.name} ({device.hw.config_hash:#010x})",
                field=network.name,
                remedy="compile it for this configuration",
            )
        self._network: Final = network
        self._device: Final = device
        self._host: Final = open_cpu_part(network.host)
        stated = [(port.name, port.shape, port.dtype) for port in network.outputs]
        if [(part.name, part.shape, part.dtype) for part in self._host.outputs] != stated:
            self.close()
            raise ProgramError(
                "the outputs of the CPU's part must be those of the network",
                field=network.name,
                value=[part.name for part in self._host.outputs],
                remedy="compile the network again",
            )

    def close(self) -> None:
        """End the CPU's part."""
        self._host.close()

    def __enter__(self) -> NetworkRunner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, inputs: Mapping[str, Array]) -> NetworkRun:
        """Run once.

        Args:
            inputs: by name, in the model's shapes and types.
        """
        results: list[RunResult] = []

        def regions(
            number: int, arguments: Sequence[npt.NDArray[np.int8]]
        ) -> Sequence[npt.NDArray[np.int8]]:
            if not 0 <= number < len(self._network.regions):
                raise ProgramError(
                    f"must be one of {len(self._network.regions)} regions",
                    field=self._network.name,
                    value=number,
                    remedy="compile the network again",
                )
            try:
                outputs, said = self._network.regions[number].run(self._device, list(arguments))
            except _MISFITS as error:
                detail = reason_of(error, 120)
                raise ProgramError(
                    f"its parts must fit together ({detail})",
                    field=f"{self._network.name}, region {number}",
                    remedy="compile the network again",
                ) from error
            results.extend(said)
            return outputs

        outputs = self._host.run(inputs, regions)
        return NetworkRun(
            outputs=outputs,
            results=tuple(results),
            cpu_seconds=self._host.times.cpu,
            region_seconds=self._host.times.regions,
        )
