# SPDX-License-Identifier: Apache-2.0
"""A run that is recorded, in a process of its own.

Verilator's writer of FST files ends its process when the disk is full.
"""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from pathlib import Path

from tilewright.host.common.errors import DeviceError
from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.program import Program
from tilewright.host.runtime.device import Bytes, RunResult
from tilewright.sim.executor.job import OutcomeStatus
from tilewright.sim.executor.worker import WorkerPool
from tilewright.sim.verilator.build import build_model
from tilewright.sim.verilator.device import VerilatorDevice, require_writable


def run_with_waves(
    hw: HwConfig,
    memory: MemoryModel,
    program: Program,
    image: Bytes,
    waves: Path,
    *,
    max_cycles: int = 0,
) -> RunResult:
    """Run a program on the RTL and record every signal."""
    target = waves.resolve()
    special = target.exists() and not target.is_file()  # a device: it is written to as it is
    part = waves if special else target.with_name(f".{target.name[:64]}.{os.getpid()}")
    require_writable(waves)
    try:
        with WorkerPool(1) as pool:
            pool.submit_unlimited("run", recorded, hw, memory, program, image, part, max_cycles)
            (outcome,) = pool.results()
        if outcome.ok and not special:
            part.replace(target)
    finally:
        if not special:
            for left in (part, part.with_name(f"{part.name}.hier")):
                left.unlink(missing_ok=True)
    if outcome.ok:
        result: RunResult = outcome.value
        return result
    if outcome.status is OutcomeStatus.CRASHED or isinstance(outcome.error, OSError):
        free = shutil.disk_usage(waves.parent).free
        raise DeviceError(
            f"the waves cannot be written to the end ({outcome.detail.splitlines()[-1]}; "
            f"{free / 1e6:,.0f} MB free)",
            field="waves",
            value=str(waves),
            remedy="free disk space or name a file on another disk; waves grow by the cycle, so a "
            "smaller layer needs less",
        )
    assert outcome.error is not None, "a job without a value has an error"
    raise outcome.error


def recorded(
    hw: HwConfig,
    memory: MemoryModel,
    program: Program,
    image: Bytes,
    waves: Path,
    max_cycles: int,
) -> RunResult:
    """The job of the process."""
    library = build_model(hw, waves=True)
    # The writer's last words mean nothing to a user, who is told by the parent.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    with closing(VerilatorDevice(hw, memory, waves=waves, library=library)) as device:
        return device.run(program, image, max_cycles=max_cycles)
