# SPDX-License-Identifier: Apache-2.0
"""A network in stages on the cores of a system: every core works on another frame.

The host starts all stages at once and waits for the slowest; that is a *tick*. Between two ticks
it copies what stages hand on (`host.compiler.staged`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tilewright.host.compiler.run.side_by_side import Ran, Tenant, run_frames
from tilewright.host.machine.board import Board
from tilewright.host.runtime.system_device import SharedPorts


@dataclass(frozen=True, kw_only=True)
class Ticks:
    """The ticks of a pipeline, from the first frame's first stage to the last frame's last."""

    ticks: tuple[Ran, ...]  # as they ran
    stopped: bool = False  # Ctrl-C ended it before

    @property
    def wrong_bytes(self) -> int | None:
        """Bytes that differ from the reference's; None on a device without data."""
        found = [count for tick in self.ticks for count in tick.wrong_bytes if count is not None]
        return sum(found) if found else None


def run_stages(
    device: SharedPorts,
    stages: Sequence[Tenant],
    *,
    tell: Callable[[str, int, int], None] = lambda *_: None,
) -> Ticks:
    """Run all frames through all stages; Ctrl-C ends it, and what ran stays."""
    frames = len(stages[0].frames)
    count = frames + len(stages) - 1
    ticks = []
    for tick in range(count):
        tell("ticks of the pipeline", tick, count)
        busy = [
            replace(stage, frames=(stage.frames[tick - place],))
            for place, stage in enumerate(stages)
            if 0 <= tick - place < frames
        ]
        try:
            ticks.append(run_frames(device, busy, [1] * len(busy)))
        except KeyboardInterrupt:
            return Ticks(ticks=tuple(ticks), stopped=True)
    return Ticks(ticks=tuple(ticks))


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Frames of a pipeline with what the CPU adds."""

    period: float  # cycles between two frames
    latency: float  # cycles from the start of a frame to its end


def pace(steady: int, stages: int, moved: int, board: Board, *, overlapped: bool) -> Pace:
    """Cycles per frame and its latency, with the CPU's copies and starts at a board's speed."""
    clock = board.clock_mhz * 1e6
    copies = moved / board.cpu.bytes_per_second * clock
    start = board.cpu.call_seconds * clock
    if overlapped:
        period = max(steady, copies) + start
        return Pace(period=period, latency=(2 * stages - 1) * period)
    period = steady + copies + start
    return Pace(period=period, latency=stages * period)
