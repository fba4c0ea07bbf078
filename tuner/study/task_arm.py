# SPDX-License-Identifier: Apache-2.0
"""A task of a network as an arm of an allocator, which knows no workloads."""

from __future__ import annotations

from tilewright.host.network.workload import Workload
from tilewright.tuner.allocate import Arm


def task_arm(task: Workload, *, start: float | None = None, bound: float | None = None) -> Arm:
    """The arm of a task: tasks of equal kind, kernel and stride are alike."""
    return Arm(
        name=task.name,
        count=task.count,
        start=start,
        bound=bound,
        work=float(task.macs),
        group=f"{task.kind} {task.kernel_h}x{task.kernel_w}/{task.stride_h}",
    )
