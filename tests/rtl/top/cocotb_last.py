# SPDX-License-Identifier: Apache-2.0
"""The whole accelerator on a memory that ends read bursts too early or too late."""

from __future__ import annotations

from typing import Any

import cocotb
import numpy as np
from bench import generator
from cocotb.triggers import RisingEdge
from top.axi import MEM_BASE, Host

from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.machine.registers import Ctrl, ErrorCode, ErrorUnit, Status
from tilewright.testing.device_contract import build, data_image, legal_steps

_TINY = load_hwconfig("tiny-4x4")


class Reads:
    """Answers one read burst after the other; one of them has some beats more or fewer."""

    def __init__(self, dut: Any, image: np.ndarray) -> None:
        self._dut = dut
        self._image = image.tobytes()
        self.wrong = -1
        """Which burst of the run."""
        self.change = 0
        """Beats by which it differs; 0 or fewer beats left: one."""

    async def run(self) -> None:
        """Serve forever."""
        dut, width = self._dut, _TINY.axi_bytes
        burst = 0
        while True:
            dut.m_axi_arready.value = 1
            await RisingEdge(dut.aclk)
            if not int(dut.m_axi_arvalid.value):
                continue
            start, beats = int(dut.m_axi_araddr.value) - MEM_BASE, int(dut.m_axi_arlen.value) + 1
            dut.m_axi_arready.value = 0
            beats = max(1, beats + self.change * (burst == self.wrong))
            burst += 1
            for beat in range(beats):
                data = self._image[start + beat * width :][:width]
                dut.m_axi_rdata.value = int.from_bytes(data, "little")
                dut.m_axi_rlast.value = int(beat == beats - 1)
                dut.m_axi_rvalid.value = 1
                await RisingEdge(dut.aclk)
            dut.m_axi_rvalid.value = dut.m_axi_rlast.value = 0


@cocotb.test()
async def a_burst_of_another_length_is_an_error_and_a_soft_reset_recovers(dut: Any) -> None:
    generator("last")
    for name in ("awready", "wready", "bvalid", "arready", "rvalid", "rlast", "rresp", "rid"):
        getattr(dut, f"m_axi_{name}").value = 0
    host = Host(dut)
    await host.start()
    steps = legal_steps(_TINY)
    program = build(_TINY, *(steps[name] for name in ("uop", "inp", "wgt", "res")))
    image = data_image(program)

    async def outcome(wrong: int, change: int) -> tuple[Status, int, int]:
        reads = Reads(dut, image)
        reads.wrong, reads.change = wrong, change
        serving = cocotb.start_soon(reads.run())
        await host.begin(program, image.size)
        ended = await host.wait()
        error, index = await host.read("ERROR"), await host.read("ERROR_INSN")
        await host.write("CTRL", Ctrl.SOFT_RESET)
        assert await host.wait() == 0
        serving.cancel()
        return ended, error, index

    fetch = ErrorCode.AXI_LAST | ErrorUnit.FETCH << 8
    load = ErrorCode.AXI_LAST | ErrorUnit.LOAD << 8
    chunk = 128 // _TINY.axi_bytes  # beats of the first burst of the program
    for change in (-chunk, -1, 1, 5, 700):  # 700: more than fetch has room for, and past 256
        wrong_beat = max(1, min(chunk, chunk + change)) - 1
        assert await outcome(0, change) == (Status.ERROR, fetch, wrong_beat // 4), change
        assert (await outcome(-1, 0))[0] == Status.DONE, "the run after it"
    seen = set()
    for burst in range(1, 6):
        ended, error, index = await outcome(burst, 1)
        if error == load:
            assert ended == Status.ERROR
            seen.add(index)
        assert (await outcome(-1, 0))[0] == Status.DONE, "the run after it"
    assert seen == {0, 1, 2, 3}
