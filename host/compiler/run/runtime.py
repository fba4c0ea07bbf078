# SPDX-License-Identifier: Apache-2.0
"""Run a compiled network: its regions on a `Device`, the rest on this machine's CPU through TVM.

The CPU's part runs in a process of its own with limits, for a network may come from a file of
unknown hands; a network that this process compiled can run in it.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
from numpy.lib.format import write_array

from tilewright.host.common.errors import ProgramError
from tilewright.host.common.whole_file import write_whole
from tilewright.host.compiler.pack.artefact import CompiledNetwork
from tilewright.host.compiler.read.argument import Argument
from tilewright.host.compiler.run.host_process import HostLimits, HostProcess
from tilewright.host.compiler.run.host_times import HostTimes, RegionRunner
from tilewright.host.runtime.device import Device, RunResult

Array = npt.NDArray[Any]

_MISFITS: Final = (ArithmeticError, LookupError, MemoryError, TypeError, ValueError)
"""What NumPy and Python raise if a file's tensors do not fit together."""


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


class _Host(Protocol):
    """A CPU part that is ready to run."""

    times: HostTimes

    @property
    def outputs(self) -> Sequence[Argument]:
        """What `run` returns."""

    def run(self, inputs: Mapping[str, Array], regions: RegionRunner) -> dict[str, Array]:
        """Run once."""


class NetworkRunner:
    """A compiled network on a device; close it, or use it as a context, to end its process.

    Args:
        network: compiled for the device's configuration.
        device: runs the regions; it stays the caller's to close.
        trusted: run the CPU's part in this process, without limits.
        limits: of the process that runs the CPU's part.

    Raises:
        ProgramError: the device has another configuration, or the network's parts do not fit.
        WorkloadError: the CPU's part cannot be compiled on this machine.
        DeviceError: compiling it crashed or took too long.
    """

    def __init__(
        self,
        network: CompiledNetwork,
        device: Device,
        *,
        trusted: bool = False,
        limits: HostLimits | None = None,
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
        self._process: Final = None if trusted else HostProcess(network.host, limits)
        self._host: Final[_Host] = self._process or _in_this_process(network.host)
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
        """End the process of the CPU's part."""
        if self._process is not None:
            self._process.close()

    def __enter__(self) -> NetworkRunner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
                detail = " ".join(str(error).split())[:120] or type(error).__name__
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


def run_network(
    network: CompiledNetwork,
    device: Device,
    inputs: Mapping[str, Array],
    *,
    trusted: bool = False,
    limits: HostLimits | None = None,
) -> NetworkRun:
    """Run a compiled network once; `NetworkRunner` runs it many times.

    Example::

        network = load(Path("resnet18.tw"))
        inputs = {"x": image}  # float32 (1, 3, 224, 224), as `network.inputs` states
        run = run_network(network, ReferenceDevice(network.hw), inputs)
        logits = run.outputs["y"]

    Args:
        network: compiled for the device's configuration.
        device: runs the regions; it stays the caller's to close.
        inputs: by name, in the model's shapes and types (`CompiledNetwork.inputs`).
        trusted: run the CPU's part in this process, without limits.
        limits: of the process that runs the CPU's part.

    Raises:
        ProgramError: the device has another configuration, or the network's parts do not fit.
        WorkloadError: an input is missing, unknown, or has another shape or type; or the CPU's
            part cannot be compiled on this machine.
        DeviceError, DeviceTimeoutError: the device or the CPU's part fails or takes too long.
    """
    with NetworkRunner(network, device, trusted=trusted, limits=limits) as runner:
        return runner.run(inputs)


def differing_elements(run: NetworkRun, expected: NetworkRun) -> dict[str, int]:
    """How many elements of each output differ from those of another run of the same network."""
    return {
        name: int(np.count_nonzero(array != expected.outputs[name]))
        for name, array in run.outputs.items()
    }


def save_outputs(outputs: Mapping[str, Array], path: Path) -> None:
    """Write outputs as an .npz file of exactly this name, whole or not at all.

    Characters of a name that are no letters, digits, ``_``, ``-`` or ``.`` become ``_``.

    Raises:
        ProgramError: it cannot be written.
    """
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:  # np.savez takes no output called "file"
        for name, array in outputs.items():
            with archive.open(f"{_key(name)}.npy", "w", force_zip64=True) as member:
                write_array(member, np.asarray(array), allow_pickle=False)
    try:
        write_whole(path, content.getvalue())
    except OSError as error:
        raise ProgramError(
            f"the outputs cannot be written ({error.strerror or error})",
            field="output",
            value=str(path),
            remedy="name a file in a folder that can be written",
        ) from error


def _key(name: str) -> str:
    return "".join(c if c.isalnum() or c in "_-." else "_" for c in name) or "output"


def _in_this_process(module: str) -> _Host:
    from tilewright.host.compiler.run.relax_host import HostModule, HostProgram  # noqa: PLC0415 (heavy)

    return HostProgram(module=HostModule.from_json(module))
