# SPDX-License-Identifier: Apache-2.0
"""The process that compiles and runs a network's CPU part, with limits (see `host_process`).

Speaks `host_channel` on its standard input and output: takes the module and inputs, asks for
regions, gives outputs.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from collections.abc import Sequence
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import TilewrightError, error_to_values
from tilewright.host.common.library_loading import load_tvm
from tilewright.host.compiler.run.host_channel import ChannelError, receive, send

MAX_MESSAGE_BYTES: Final = 1 << 20


class _RegionFailedError(Exception):
    """The command could not run a region; it knows why."""


def main() -> None:
    """Serve until the command goes away."""
    requests, answers = _take_streams()
    header, _ = receive(requests)
    _set_limits(header["memory_bytes"])
    with contextlib.suppress(ChannelError):  # the command ended
        _serve(header, requests, answers)


def _take_streams() -> tuple[BinaryIO, BinaryIO]:
    """The two ends of the channel; what libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    return sys.stdin.buffer, answers


def _set_limits(memory_bytes: int) -> None:
    for kind, soft in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, MAX_MESSAGE_BYTES),  # it writes nothing but warnings
    ):
        hard = resource.getrlimit(kind)[1]
        limit = soft if hard == resource.RLIM_INFINITY else min(soft, hard)
        resource.setrlimit(kind, (limit, limit))


def _allow_seconds(seconds: float) -> None:
    """So much processor time from now on; then the kernel ends this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    limit = int(used.ru_utime + used.ru_stime + seconds) + 1
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, hard))


def _serve(header: dict[str, Any], requests: BinaryIO, answers: BinaryIO) -> None:
    load_tvm()
    from tilewright.host.compiler.run.relax_host import HostModule, HostProgram  # noqa: PLC0415 (heavy)

    seconds = header["seconds"]
    _allow_seconds(seconds)
    try:
        program = HostProgram(module=HostModule.from_json(header["module"]))
    except TilewrightError as error:
        send(answers, {"failed": "", "error": error_to_values(error)})
        return
    except MemoryError:
        send(answers, {"failed": "MemoryError"})
        return
    module = program.module
    send(
        answers,
        {
            "inputs": [vars(argument) for argument in module.inputs],
            "outputs": [vars(argument) for argument in module.outputs],
        },
    )

    def region(
        number: int, arguments: Sequence[npt.NDArray[np.int8]]
    ) -> Sequence[npt.NDArray[np.int8]]:
        send(answers, {"region": int(number)}, arguments)
        reply, results = receive(requests)
        if "failed" in reply:
            raise _RegionFailedError
        return results

    while True:
        request, arrays = receive(requests)
        _allow_seconds(seconds)
        inputs = dict(zip(request["inputs"], arrays, strict=True))
        try:
            outputs = program.run(inputs, region)
        except TilewrightError as error:
            send(answers, {"failed": "", "error": error_to_values(error)})
        except (_RegionFailedError, MemoryError, ValueError) as error:
            send(answers, {"failed": type(error).__name__})
        else:
            times = {"cpu": program.times.cpu, "regions": program.times.regions}
            send(answers, {"outputs": list(outputs), "times": times}, list(outputs.values()))


if __name__ == "__main__":
    main()
