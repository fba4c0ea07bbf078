# SPDX-License-Identifier: Apache-2.0
"""How much of a network a study tunes, and what it leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tilewright.host.common.names import counted
from tilewright.host.network.workload import Workload

FULL_SHARE: Final = 0.9
"""Of a network's multiply-accumulates; a study that tunes fewer says so plainly."""


def share_lines(settings: Mapping[str, Any]) -> tuple[str, str]:
    """What is tuned and what is left out; and a warning if that is much, otherwise empty."""
    tasks = [Workload.from_mapping(task) for task in settings["tasks"]]
    layers, macs = sum(t.count for t in tasks), sum(t.macs * t.count for t in tasks)
    left = settings["cpu_operators"]
    share = macs / (macs + settings.get("cpu_macs", 0))
    text = f"tuned: {counted(layers, 'layer')} of {counted(len(tasks), 'shape')}, {macs:,} MACs"
    if left:
        text += f"; not tuned and not counted: {', '.join(left)}"
    if share >= FULL_SHARE:
        return text, ""
    return text, (
        f"WARNING: only {100 * share:.1f} % of the network's MACs are tuned, "
        f"{100 * (1 - share):.1f} % are left out: the cycles are not those of the network"
    )
