# SPDX-License-Identifier: Apache-2.0
"""Jobs that worker processes can import by name."""

import os
import signal
import time
from pathlib import Path

from tilewright.host.common.errors import BuildError
from tilewright.host.machine.hwconfig import HwConfig


def refuse_other(fidelity: str, hw: HwConfig) -> None:
    """A build job that fails for every configuration labelled ``other``."""
    if hw.name == "other":
        raise BuildError("made to fail")


def die_once(mark: Path) -> str:
    """Kill the worker on the first call, leaving a mark; answer on the second."""
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "second life"


def node_after(seconds: float) -> str:
    """The Ray node that this runs on, after some seconds of work."""
    import ray  # noqa: PLC0415  (an extra: loaded when asked for)

    time.sleep(seconds)
    return str(ray.get_runtime_context().get_node_id())


def own_pid() -> str:
    """A fingerprint that no two processes share."""
    return str(os.getpid())
