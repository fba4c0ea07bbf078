# SPDX-License-Identifier: Apache-2.0
"""Which tasks share good schedules."""

from __future__ import annotations

from dataclasses import replace

from tilewright.host.network.workload import Workload


def shape_of(task: Workload) -> str:
    """Identity of a workload without its epilogue: equal shapes share good schedules."""
    return replace(task, relu=True, residual=False).key
