# SPDX-License-Identifier: Apache-2.0
"""The processors of a Zynq: bursts of AXI3 at ports that begin with ``s_``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from support.randomness import where

from tilewright.sim.verilator.interactive import Interactive

LIMIT = 400


class Processors:
    """A master with one burst at a time, which takes answers when it likes to."""

    sim: Interactive
    rng: np.random.Generator

    def cycle(self) -> None:
        """One cycle of what stands behind the ports."""
        raise NotImplementedError

    def meets(self, ready: str, valid: str) -> None:
        """Cycles until a channel of the master's side moves."""
        for _ in range(LIMIT):
            self.sim.settle()
            moves = getattr(self.sim.io, ready) and getattr(self.sim.io, valid)
            self.cycle()
            if moves:
                return
        pytest.fail(f"{ready} and {valid} never meet; {where()}")

    def _comes(self, valid: str) -> None:
        for _ in range(LIMIT):
            if getattr(self.sim.io, valid):
                return
            self.cycle()

    def write(self, address: int, words: Sequence[tuple[int, int]], number: int = 0x9A5) -> int:
        """A burst of words and their strobes; its response."""
        io = self.sim.io
        io.s_awid_i, io.s_awaddr_i, io.s_awvalid_i = number, address, 1
        self.meets("s_awready_o", "s_awvalid_i")
        io.s_awvalid_i = 0
        for index, (data, strobes) in enumerate(words):
            io.s_wdata_i, io.s_wstrb_i = data, strobes
            io.s_wlast_i, io.s_wvalid_i = int(index == len(words) - 1), 1
            self.meets("s_wready_o", "s_wvalid_i")
            io.s_wvalid_i = 0
        self._comes("s_bvalid_o")
        for _ in range(int(self.rng.integers(3))):  # it stands until it is taken
            self.cycle()
        io.s_bready_i = 1
        assert (io.s_bvalid_o, io.s_bid_o) == (1, number), where()
        response = int(io.s_bresp_o)
        self.meets("s_bready_i", "s_bvalid_o")
        io.s_bready_i = 0
        self.sim.settle()
        assert not io.s_bvalid_o, where()
        return response

    def read(
        self, address: int, count: int = 1, number: int = 0x123
    ) -> tuple[list[int], list[int]]:
        """Words of a burst, and the response of each."""
        io = self.sim.io
        io.s_arid_i, io.s_araddr_i, io.s_arlen_i, io.s_arvalid_i = number, address, count - 1, 1
        self.meets("s_arready_o", "s_arvalid_i")
        io.s_arvalid_i = 0
        words, responses = [], []
        for index in range(count):
            self._comes("s_rvalid_o")
            last = int(index == count - 1)
            assert (io.s_rvalid_o, io.s_rid_o, io.s_rlast_o) == (1, number, last), where()
            words.append(int(io.s_rdata_o))
            responses.append(int(io.s_rresp_o))
            io.s_rready_i = 1
            self.meets("s_rready_i", "s_rvalid_o")
            io.s_rready_i = 0
        return words, responses
