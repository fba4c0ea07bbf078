# SPDX-License-Identifier: Apache-2.0
"""An agent as a process, whose simulated board is noisy, slow, or lies after some runs."""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from support.boards.simulated import KIND, HiddenBoard, write_token

from tilewright.host.runtime.agent.limits import Limits
from tilewright.host.runtime.agent.serving import open_belongings, serve_device


class SlowBoard(HiddenBoard):
    """Says when it begins a client's run, and takes its time for it."""

    def __init__(self, *, seed: int, pause: float, lies_after: int) -> None:
        super().__init__(seed=seed)
        self._pause, self._lies_after = pause, lies_after

    def about_to_run(self) -> None:
        sys.stderr.write("runs a program\n")
        sys.stderr.flush()
        time.sleep(self._pause)
        self.lies = 0 <= self._lies_after < self.runs


parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, required=True)
parser.add_argument("--pause", type=float, default=0.0)
parser.add_argument("--lies_after", type=int, default=-1)
given = parser.parse_args()
serve_device(
    SlowBoard(seed=given.seed, pause=given.pause, lies_after=given.lies_after),
    listen="127.0.0.1:0",
    belongings=open_belongings(None, write_token(Path()), None, plain=True),
    limits=Limits(),
    board=KIND,
    digest="d1",
)
