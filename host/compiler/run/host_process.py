# SPDX-License-Identifier: Apache-2.0
"""Runs a network's CPU part in a process of its own, with limits of memory and time.

The module comes from a file that may be hostile. It is checked before TVM sees it (`relax_saved`);
should TVM or its generated code still crash, a child dies and the caller gets one error.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tilewright.host.common.children import python_command, python_environment
from tilewright.host.common.errors import DeviceError, TilewrightError, error_from_values
from tilewright.host.compiler.read.argument import Argument
from tilewright.host.compiler.run.host_arguments import HostTimes, RegionRunner
from tilewright.host.compiler.run.host_channel import Array, ChannelError, receive, send

_FEW_THREADS: Final = {"MALLOC_ARENA_MAX": "2", "OPENBLAS_NUM_THREADS": "1"}
"""So that threads do not eat the address space."""


@dataclass(frozen=True, kw_only=True)
class HostLimits:
    """What the CPU part of a network may take."""

    memory_bytes: int = 4 << 30  # of address space. TVM itself takes 1.1 GB of it
    seconds: float = 600.0  # to compile it, and for each run without its regions


class HostProcess:
    """A CPU part, compiled and ready in a child; runs like `HostProgram`."""

    def __init__(self, module: str, limits: HostLimits | None = None) -> None:
        limits = limits or HostLimits()
        self.times = HostTimes()
        self._seconds: Final = limits.seconds
        self._messages: Final = tempfile.TemporaryFile()  # noqa: SIM115  (see `close`)
        self._child: Final = subprocess.Popen(
            python_command("-m", "tilewright.host.compiler.run.host_child"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._messages,
            bufsize=0,
            env=python_environment(**_FEW_THREADS),
        )
        try:
            # constants exist as text, as bytes and in TVM's compiler
            memory_bytes = limits.memory_bytes + 4 * len(module)
            self._send({"module": module, "memory_bytes": memory_bytes, "seconds": limits.seconds})
            answer, _ = self._receive()
            if "failed" in answer:
                raise _error(answer)
            self.inputs: Final = tuple(map(Argument.from_mapping, answer["inputs"]))
            self.outputs: Final = tuple(map(Argument.from_mapping, answer["outputs"]))
        except BaseException:
            self.close()
            raise

    def run(self, inputs: Mapping[str, Array], regions: RegionRunner) -> dict[str, Array]:
        """Run once; see `HostProgram.run`."""
        names = list(inputs)
        self._send({"inputs": names}, [np.asarray(inputs[name]) for name in names])
        raised: BaseException | None = None
        while True:
            answer, arrays = self._receive()
            if "region" in answer:
                try:
                    results = regions(int(answer["region"]), arrays)
                    self._send({}, results)
                except ChannelError:
                    raise
                except BaseException as error:
                    if not isinstance(error, Exception):
                        raise
                    raised = error
                    self._send({"failed": "region"})
            elif raised is not None:
                raise raised
            elif "failed" in answer:
                raise _error(answer)
            else:
                return self._outputs(answer, arrays)

    def close(self) -> None:
        """End the child."""
        if self._child.poll() is None:
            self._child.kill()
        self._child.wait()
        for stream in (self._child.stdin, self._child.stdout, self._messages):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def __del__(self) -> None:
        if hasattr(self, "_child"):  # whoever forgets to close leaves no process behind
            self.close()

    def __enter__(self) -> HostProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _outputs(self, answer: Mapping[str, Any], arrays: list[Array]) -> dict[str, Array]:
        found = [(str(array.dtype), array.shape) for array in arrays]
        if found != [(o.dtype, o.shape) for o in self.outputs]:
            raise DeviceError("the CPU part of a network gave other outputs than it stated")
        times = answer["times"]
        self.times = HostTimes(cpu=float(times["cpu"]), regions=float(times["regions"]))
        return {o.name: array for o, array in zip(self.outputs, arrays, strict=True)}

    def _send(self, header: Mapping[str, Any], arrays: Any = ()) -> None:
        assert self._child.stdin is not None
        try:
            send(self._child.stdin, header, arrays)
        except ChannelError as error:
            raise self._crash(error) from error

    def _receive(self) -> tuple[dict[str, Any], list[Array]]:
        assert self._child.stdout is not None
        try:
            return receive(self._child.stdout, self._seconds)
        except ChannelError as error:
            raise self._crash(error) from error

    def _crash(self, error: ChannelError) -> DeviceError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(0 if "too long" in str(error) else 2)
        code = self._child.poll()
        self._child.kill()
        what = str(error)
        if code is not None and code < 0:
            what = f"killed by {signal.Signals(-code).name}"
        elif code:
            self._messages.seek(0)
            lines = self._messages.read().decode(errors="replace").strip().splitlines()
            what = lines[-1][:160] if lines else f"exit code {code}"
        return DeviceError(
            f"the CPU part of a network must run without a crash, in {self._seconds:g} s and its "
            f"memory ({what})",
            remedy="compile the network again; if you trust the file, --trust-model runs it "
            "without limits",
        )


def _error(answer: Mapping[str, Any]) -> TilewrightError:
    if isinstance(answer.get("error"), dict):
        return error_from_values(answer["error"], "the CPU part of a network")
    return DeviceError(
        f"the CPU part of a network failed ({str(answer['failed'])[:60]})",
        remedy="compile the network again",
    )
