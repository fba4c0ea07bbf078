# SPDX-License-Identifier: Apache-2.0
"""Waves appear when they are complete: whatever ends the run earlier leaves what was there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.executor import wave_run
from tilewright.sim.executor.job import Outcome, OutcomeStatus

HW, MEMORY = load_hwconfig("tiny-4x4"), load_memory("ideal")


EARLIER = b"# Written by Tilewright (waves)"


def pool_that(ends: Any) -> type:
    """A pool whose only job writes a part of the waves, and then `ends`."""

    class Pool:
        def __init__(self, *_: object, **__: object) -> None:
            self.waves = Path()

        def __enter__(self) -> Pool:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def submit_unlimited(self, *arguments: Any) -> None:
            self.waves = arguments[-2]

        def results(self) -> list[Outcome]:
            self.waves.write_bytes(b"part")
            self.waves.with_name(f"{self.waves.name}.hier").write_bytes(b"part")
            return [ends()]

    return Pool


def run(path: Path) -> Any:
    program: Any = SimpleNamespace()
    return wave_run.run_with_waves(HW, MEMORY, program, np.zeros(1, np.uint8), path)


def interrupted() -> Outcome:
    raise KeyboardInterrupt


def complete() -> Outcome:
    return Outcome(job_id="run", status=OutcomeStatus.OK, value="done", seconds=0.0)


def test_an_interrupted_run_leaves_the_waves_that_were_there(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(wave_run, "WorkerPool", pool_that(interrupted))
    waves = tmp_path / "w.fst"
    waves.write_bytes(EARLIER)
    with pytest.raises(KeyboardInterrupt):
        run(waves)
    assert waves.read_bytes() == EARLIER
    assert [path.name for path in tmp_path.iterdir()] == ["w.fst"]


def test_waves_get_their_name_when_they_are_complete(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(wave_run, "WorkerPool", pool_that(complete))
    assert run(tmp_path / "w.fst") == "done"
    assert [path.name for path in tmp_path.iterdir()] == ["w.fst"]
    assert (tmp_path / "w.fst").read_bytes() == b"part"
