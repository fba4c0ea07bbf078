# SPDX-License-Identifier: Apache-2.0
"""Run a compiled network: its regions on a `Device`, the rest on this machine's CPU through TVM.

The CPU's part runs in a process of its own with limits, for a network may come from a file of
unknown hands; a network that this process compiled can run in it.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.format import write_array

from tilewright.host.common.errors import ProgramError
from tilewright.host.common.library_loading import load_tvm
from tilewright.host.common.whole_file import MARK, write_whole
from tilewright.host.compiler.pack.artefact import CompiledNetwork
from tilewright.host.compiler.run.host_process import HostLimits, HostProcess
from tilewright.host.compiler.run.network_runner import CpuPart, NetworkRun, NetworkRunner
from tilewright.host.runtime.device import Device

Array = npt.NDArray[Any]


def open_network(
    network: CompiledNetwork,
    device: Device,
    *,
    trusted: bool = False,
    limits: HostLimits | None = None,
) -> NetworkRunner:
    """A compiled network with its CPU's part compiled by TVM."""
    open_cpu_part = _in_this_process if trusted else partial(HostProcess, limits=limits)
    return NetworkRunner(network, device, open_cpu_part)


def run_network(
    network: CompiledNetwork,
    device: Device,
    inputs: Mapping[str, Array],
    *,
    trusted: bool = False,
    limits: HostLimits | None = None,
) -> NetworkRun:
    """Run a compiled network once; `open_network` is for many runs.

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
    """
    with open_network(network, device, trusted=trusted, limits=limits) as runner:
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
    """
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:  # np.savez takes no output called "file"
        for name, array in outputs.items():
            with archive.open(f"{_key(name)}.npy", "w", force_zip64=True) as member:
                write_array(member, np.asarray(array), allow_pickle=False)
        archive.comment = MARK.encode()
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


def _in_this_process(module: str) -> CpuPart:
    load_tvm()
    from tilewright.host.compiler.run.relax_host import HostModule, HostProgram  # noqa: PLC0415 (heavy)

    return HostProgram(module=HostModule.from_json(module))
